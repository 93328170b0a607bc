# What the tests here have in common.
package Session;

use strict;
use warnings;

use Exporter 'import';
use File::Copy;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(session own_library);

# The errors of a session that runs this SQL, and the lines that it prints.
sub session
{
	my ($node, $sql) = @_;
	my ($stdout, $stderr);
	$node->psql('postgres', "\\set VERBOSITY verbose\n$sql", stdout => \$stdout, stderr => \$stderr, on_error_stop => 0);
	return ($stderr, split /\n/, $stdout);
}

# From the next session on all functions come from a copy of the core library, in the
# folder that this returns: there it looks for providers, and none is there yet.
sub own_library
{
	my ($node) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir;
	copy($node->config_data('--pkglibdir') . '/cudnn_ops.so', "$folder/cudnn_ops.so") or die "copy: $!";
	$node->safe_psql('postgres', "UPDATE pg_proc SET probin = '$folder/cudnn_ops' WHERE probin = '\$libdir/cudnn_ops'");
	return $folder;
}

1;

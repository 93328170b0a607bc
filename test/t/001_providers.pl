# How providers are found, loaded and refused: what SQL alone cannot show.

use strict;
use warnings;

use File::Copy;
use FindBin;
use lib $FindBin::Bin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(time);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'cudnn_ops'");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION cudnn_ops');

# Nothing foreign is loaded before it is wanted.
my $foreign = qr/lib(cuda|cudart|cudnn|cublas|dnnl|gomp)|cudnn_ops_(cudnn|onednn)/;

sub loaded
{
	my ($pid) = @_;
	open my $maps, '<', "/proc/$pid/maps" or die "maps of $pid: $!";
	return grep { /$foreign/ } <$maps>;
}

my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
ok(slurp_file("/proc/$postmaster/maps") =~ /cudnn_ops\.so/, 'the postmaster has the core library');
is(scalar(loaded($postmaster)), 0, 'and nothing of CUDA or oneDNN');
is( $node->safe_psql('postgres',
		"SELECT count(*) FROM regexp_matches(pg_read_file('/proc/self/maps'), 'lib(cuda|cudnn|dnnl)', 'g'), tensor_full('{2}', 1)"),
	'0',
	'nor has a backend that makes a tensor');
$node->safe_psql('postgres', "SELECT relu(tensor_full('{2}', 1)) FROM cudnn_ops_providers()");
is(scalar(loaded($postmaster)), 0, 'nor the postmaster after a backend has computed');

# What the libraries need and what they show.
my $pkglibdir = $node->config_data('--pkglibdir');
unlike(`ldd $pkglibdir/cudnn_ops.so`, $foreign, 'the core library links none of them');
for my $provider (grep { -e "$pkglibdir/cudnn_ops_$_.so" } 'onednn', 'cudnn')
{
	my @symbols = `nm -D --defined-only $pkglibdir/cudnn_ops_$provider.so`;
	is(scalar(@symbols), 1, "$provider exports one symbol");
	like($symbols[0], qr/ T cudnn_ops_provider$/, "which is its entry");
}

# A folder with a core library of its own, beside which it looks for providers.
my $libdir = own_library($node);
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;

my $compute = "SELECT tensor_to_real(relu(tensor(ARRAY[-1, 2]::real[])))";

# Where the onednn provider is not usable for this reason: auto goes on, a named
# provider fails with the reason, and the session lives.
sub refused
{
	my ($why, $reason) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	like($node->safe_psql('postgres', "SELECT available, reason FROM cudnn_ops_providers() WHERE name = 'onednn'"),
		qr/^f\|.*$reason/, "$why: cudnn_ops_providers() says why");
	is($node->safe_psql('postgres', $compute), '{0,2}', "$why: auto goes on");

	my ($stdout, $stderr);
	$node->psql('postgres',
		"SET cudnn_ops.provider = onednn; \\set VERBOSITY verbose\n$compute;\n$compute;\nRESET cudnn_ops.provider; $compute;",
		stdout => \$stdout, stderr => \$stderr, on_error_stop => 0);
	like($stderr, qr/55000: provider "onednn" is not available\nDETAIL:  .*$reason/, "$why: a named provider fails with the reason");
	is($stdout, '{0,2}', "$why: the session lives");
}

refused('library removed', qr/cudnn_ops_onednn\.so: cannot open shared object file/);

# Build a library from source in that folder.
sub build
{
	my ($name, $source, @flags) = @_;
	open my $c, '>', "$libdir/$name.c" or die $!;
	print $c $source;
	close $c;
	system_or_bail('cc', '-shared', '-fPIC', '-o', "$libdir/$name.so", "$libdir/$name.c", @flags);
}

append_to_file("$libdir/cudnn_ops_onednn.so", "this is no library\n");
refused('no library', qr/invalid ELF header|file too short/);
unlink "$libdir/cudnn_ops_onednn.so";

build('libgone', 'int gone(void) { return 1; }');
build('cudnn_ops_onednn', 'int gone(void); const void *cudnn_ops_provider(const void *host) { return gone() ? 0 : host; }',
	"-L$libdir", '-l:libgone.so');
unlink "$libdir/libgone.so";
refused('dependency missing', qr/libgone\.so: cannot open shared object file/);

build('cudnn_ops_onednn', 'int something_else;');
refused('no entry', qr/is not a provider/);

build('cudnn_ops_onednn', 'static const int abi[64] = {4711}; const void *cudnn_ops_provider(const void *host) { return abi; }');
refused('wrong ABI', qr/has provider ABI 4711, this library wants \d+/);

# With the true libraries it is as it was.
for my $name ('onednn', 'cudnn')
{
	copy("$pkglibdir/cudnn_ops_$name.so", "$libdir/cudnn_ops_$name.so") if -e "$pkglibdir/cudnn_ops_$name.so";
}
is($node->safe_psql('postgres', $compute), '{0,2}', 'with the true libraries auto computes');
if (-e "$pkglibdir/cudnn_ops_onednn.so")
{
	is( $node->safe_psql('postgres', "SET cudnn_ops.provider = onednn; $compute; SELECT provider FROM cudnn_ops_stats()"),
		"{0,2}\nonednn", 'and onednn is the one that ran');

	# What the library alone would not do, or would do wrongly.
	my $ceil = "'{100000}', '{100000}', '{99999,99999,0,0}', true";
	my (undef, undef, $err) = $node->psql('postgres',
		"SET cudnn_ops.provider = onednn; \\set VERBOSITY verbose\nSELECT avg_pool2d(tensor_full('{1,8,4,4}', 2), $ceil);");
	like($err, qr/0A000: .*\nDETAIL:  oneDNN counts windows and padding in 32 bits/, 'onednn refuses a window that it would count wrongly');
	is( $node->safe_psql('postgres', "
			CREATE TABLE result (provider text, y bytea);
			DO \$\$
			DECLARE
				x bytea := tensor_cast(tensor_random('{2,17}', 1), 'float32', 0.0001, 1);
				p text;
			BEGIN
				FOREACH p IN ARRAY '{onednn,reference}'::text[] LOOP
					PERFORM set_config('cudnn_ops.provider', p, false);
					INSERT INTO result SELECT p, output FROM batch_norm_train(x);
				END LOOP;
			END \$\$;
			SELECT tensor_max_abs_diff(a.y, b.y) < 1e-6 FROM result a, result b WHERE a.provider < b.provider"),
		't', 'onednn normalizes a channel of little variance as reference does');
	my $begin = time;
	is( $node->safe_psql('postgres', "SET cudnn_ops.provider = onednn;
			SELECT tensor_shape(conv2d(tensor_full('{1,3,300,300}', 1), tensor_full('{16,3,40,40}', 1)))"),
		'{1,16,261,261}', 'onednn convolves with a big kernel');
	cmp_ok(time - $begin, '<', 10, 'by no plain loop');
}

$node->stop;
done_testing();

# What only a GPU shows: its memory limit and fallback, copies counted, cancels,
# plans kept, memory given back. Skipped where the cudnn provider is not usable.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;
use Time::HiRes qw(time);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION cudnn_ops');
my $reason = $node->safe_psql('postgres', "SELECT reason FROM cudnn_ops_providers() WHERE name = 'cudnn' AND NOT available");
if ($reason ne '')
{
	$node->stop;
	plan skip_all => "the cudnn provider is not usable here: $reason";
}

my $conv = "conv2d(tensor_random('{4,16,64,64}', i), tensor_random('{16,16,3,3}', 2), padding => '{1}')";

# Out of device memory: an error for a named provider, the CPU for auto.
my ($errors, @lines) = session($node, qq{
	SET cudnn_ops.device_memory_limit = '1MB';
	SET cudnn_ops.provider = cudnn;
	SELECT length($conv) FROM generate_series(1, 1) i;
	SELECT live_tensors, device_bytes FROM cudnn_ops_memory();
	SET cudnn_ops.provider = auto;
	SELECT length($conv) FROM generate_series(1, 1) i;
	SELECT provider, fallbacks > 0, last_fallback_reason ~ 'device_memory_limit' FROM cudnn_ops_stats() WHERE op = 'conv' AND fallbacks > 0;
	RESET cudnn_ops.device_memory_limit;
	SET cudnn_ops.provider = cudnn;
	SELECT length($conv) FROM generate_series(1, 1) i;
	SELECT live_tensors, device_bytes FROM cudnn_ops_memory();
});
like($errors, qr/53200: out of device memory\nDETAIL:  .*bytes asked for.*device_memory_limit/, 'a limit of device memory is an error that says what was asked');
is_deeply(\@lines, ['0|0', '1048704', 'cudnn|t|t', '1048704', '0|0'], 'auto goes on on the CPU, and the session goes on on the GPU');
# Less workspace than a plan wants gives another plan, and the same bytes of it each time.
($errors, @lines) = session($node, qq{
	SET cudnn_ops.provider = cudnn;
	SELECT tensor_max_abs_diff(a, b) < 1e-4, a = c FROM
	(SELECT $conv AS a FROM generate_series(1, 1) i) s1, (SELECT $conv AS c FROM generate_series(1, 1) i) s3,
	(SELECT set_config('cudnn_ops.workspace_limit', '0', false) OFFSET 0) x, LATERAL (SELECT $conv AS b FROM generate_series(1, 1) i WHERE x IS NOT NULL) s2;
});
is($lines[0], 't|t', 'a workspace limit of 0 computes the same, deterministic gives equal bytes');

# Settings are part of what a plan is kept by.
($errors, @lines) = session($node, qq{
	SET cudnn_ops.provider = cudnn;
	DO \$\$ DECLARE y bytea; BEGIN
		FOR i IN 1 .. 5 LOOP y := conv2d(tensor_random('{1,8,16,16}', i), tensor_random('{8,8,3,3}', 2)); END LOOP;
		SET cudnn_ops.allow_tf32 = on;
		FOR i IN 1 .. 5 LOOP y := conv2d(tensor_random('{1,8,16,16}', i), tensor_random('{8,8,3,3}', 2)); END LOOP;
	END \$\$;
	SELECT plan_hits, plan_misses FROM cudnn_ops_stats() WHERE op = 'conv';
	SELECT cached_plans FROM cudnn_ops_memory();
	SELECT cudnn_ops_release();
	SELECT cached_plans, pinned_bytes, workspace_bytes, device_bytes FROM cudnn_ops_memory();
	SELECT tensor_shape(conv2d(tensor_random('{1,8,16,16}', 1), tensor_random('{8,8,3,3}', 2)));
});
is_deeply(\@lines, ['8|2', '2', '', '0|0|0|0', '{1,8,14,14}'], 'plans are kept by settings, given back and found again');

# TF32 is used when it is allowed, and only then.
is( $node->safe_psql('postgres', q{
	SET cudnn_ops.provider = cudnn;
	SELECT strict < 1e-6, tf32 BETWEEN 1e-6 AND 1e-2 FROM
	(SELECT sqrt(sum((p - q) ^ 2) / sum(q ^ 2)) AS strict FROM unnest(
		tensor_to_float8(conv2d(tensor_random('{8,64,28,28}', 1), tensor_random('{64,64,3,3}', 2))),
		tensor_to_float8(conv2d(tensor_cast(tensor_random('{8,64,28,28}', 1), 'float64'), tensor_cast(tensor_random('{64,64,3,3}', 2), 'float64')))) AS u(p, q)) a,
	(SELECT set_config('cudnn_ops.allow_tf32', 'on', false) OFFSET 0) x,
	LATERAL (SELECT sqrt(sum((p - q) ^ 2) / sum(q ^ 2)) AS tf32 FROM unnest(
		tensor_to_float8(conv2d(tensor_random('{8,64,28,28}', length(x::text) * 0 + 1), tensor_random('{64,64,3,3}', 2))),
		tensor_to_float8(conv2d(tensor_cast(tensor_random('{8,64,28,28}', 1), 'float64'), tensor_cast(tensor_random('{64,64,3,3}', 2), 'float64')))) AS u(p, q)) b;
}), 't|t', 'strict float32 is strict, TF32 is not');

# A weight that repeats goes up once a query, whatever the number of rows.
($errors, @lines) = session($node, q{
	SET cudnn_ops.provider = cudnn;
	CREATE TABLE weights AS SELECT tensor_random('{64,64,3,3}', 2) AS w;
	CREATE TABLE images AS SELECT tensor_random('{1,64,8,8}', i) AS x FROM generate_series(1, 50) AS i;
	ALTER TABLE weights ALTER w SET STORAGE EXTERNAL;
	SELECT cudnn_ops_stats_reset();
	SELECT count(conv2d(x, w)) FROM images, weights;
	SELECT bytes_to_device < 50 * 64 * 8 * 8 * 4 + 3 * 64 * 64 * 3 * 3 * 4, bytes_to_host FROM cudnn_ops_stats() WHERE op = 'conv';
});
is_deeply([@lines[-2, -1]], ['50', 't|0'], 'a weight goes up once or twice for 50 rows, and nothing comes down that nobody reads');

# A cancel acts soon while much work is under way, and memory comes back.
my $begin = time;
($errors, @lines) = session($node, q{
	SET cudnn_ops.provider = cudnn;
	SET statement_timeout = '1s';
	SELECT count(length(conv2d(tensor_random('{16,64,128,128}', 1), tensor_random('{64,64,3,3}', i), padding => '{1}'))) FROM generate_series(1, 100000) i;
	RESET statement_timeout;
	SELECT live_tensors, device_bytes FROM cudnn_ops_memory();
});
like($errors, qr/57014/, 'a timeout cancels work on the GPU');
cmp_ok(time - $begin, '<', 6, 'soon');
is($lines[-1], '0|0', 'and its memory is back');

$node->stop;
done_testing();

# The frame around a provider with memory of its own, on any machine: a device of
# host memory (test/device) stands in for cudnn. Copies, layouts, what is left after
# errors, and what fails on the device.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Session;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION cudnn_ops');

# The core library beside the device, in a folder of their own.
my $root = "$FindBin::Bin/../..";
my $libdir = own_library($node);
system_or_bail('cc', '-O1', '-shared', '-fPIC', "-I$root/src", '-I' . $node->config_data('--includedir-server'),
	'-o', "$libdir/cudnn_ops_cudnn.so", "$root/test/device/device.c");

# Small whole numbers, whose sums are exact in every type.
$node->safe_psql('postgres', q{
	CREATE FUNCTION whole(shape int[], seed int, dtype text) RETURNS bytea LANGUAGE sql AS
	$$ SELECT tensor_cast(tensor_cast(tensor_random(shape, seed), 'int8', 3), dtype) $$;
	CREATE VIEW net AS SELECT dtype, whole('{2,4,7,6}', 1, dtype) AS x, whole('{6,2,3,3}', 2, dtype) AS w, whole('{6}', 3, dtype) AS b,
		whole('{5,6,1,1}', 4, dtype) AS v, whole('{1,4,2,2}', 5, dtype) AS u
	FROM unnest('{float32,float64,float16,bfloat16}'::text[]) AS dtype;
	CREATE VIEW results AS SELECT dtype,
		md5(conv2d(x, w, b, '{2,1}', '{1,0,0,2}', '{1,2}', 2)) AS conv,
		md5(conv2d(relu(conv2d(x, w, b, groups => 2)), v)) AS chain,
		md5(relu(conv2d(max_pool2d(relu(conv2d(x, w, groups => 2)), '{2}'), v))) AS with_host,
		md5(batch_norm(conv2d(x, u), tensor_full('{1}', 1, p), tensor_full('{1}', 2, p))) AS one_channel,
		md5(tensor_reshape(conv2d(x, w, groups => 2), '{-1}')) AS reshaped,
		tensor_text(conv2d(x, u)) AS text
	FROM net, LATERAL (SELECT CASE dtype WHEN 'float64' THEN dtype ELSE 'float32' END AS p) AS param;
	SET cudnn_ops.provider = reference;
	CREATE TABLE expected AS TABLE results;
});
is($node->safe_psql('postgres', "SELECT version FROM cudnn_ops_providers() WHERE name = 'cudnn'"), 'test device', 'the device is there');

my $differences = q{
	SELECT (SELECT count(*) FROM expected), (SELECT string_agg(d::text, ' ') FROM (TABLE results EXCEPT TABLE expected) AS d);
};
my $computed = "SELECT bool_and(calls > 0), bool_or(fallbacks > 0) FROM cudnn_ops_stats() WHERE provider = 'cudnn' AND op IN ('conv', 'relu');";
my $live = 'SELECT live_tensors, device_bytes FROM cudnn_ops_memory();';

# The same answers in either layout, whatever fails on the way.
my %ways = (
	'on the device' => '',
	'where it has no memory to reorder' => 'SET cudnn_ops.device = 1001;',
	'where it cannot with channels last after all' => 'SET cudnn_ops.device = 1002;',
	'where little fits' => "SET cudnn_ops.device_memory_limit = '1kB';");
for my $way (sort keys %ways)
{
	my ($errors, @lines) = session($node, "$ways{$way} $differences $live $computed");
	is($errors, '', "no error $way");
	is($lines[0], '4|', "the same results $way");
	is($lines[1], '0|0', "no memory is left $way");
	is($lines[2], $way =~ /fits/ ? 't|t' : 't|f', "the device computed what it could $way");
}

# Random problems, of which the device does what it can.
is($node->safe_psql('postgres', q{
	SELECT bool_and(passed), count(*) FILTER (WHERE provider LIKE '%cudnn%') > 2 FROM cudnn_ops_selftest('conv', 100)}),
	't|t', 'random convolutions are right');

# In a chain the input and the weights go up once, and the result comes down once.
my (undef, @copies) = session($node, q{
	DO $$
	DECLARE
		x bytea := tensor_random('{1,4,8,8}', 1);
		w bytea := tensor_random('{4,4,3,3}', 2);
	BEGIN
		ASSERT length(tensor_reshape(relu(conv2d(relu(conv2d(tensor_to_device(x), w)), tensor_to_device(w))), '{-1}') || '') = 128 + 4 * 4 * 4 * 4;
	END $$;
	SELECT sum(bytes_to_device), sum(bytes_to_host) FROM cudnn_ops_stats();
});
is($copies[0], 4 * (4 * 64 + 2 * 4 * 4 * 9) . '|' . 4 * 4 * 16, 'nothing is copied twice');

# A tensor that a variable keeps is read and used in turn.
my ($errors, @lines) = session($node, q{
	DO $$
	DECLARE
		x bytea := whole('{2,4,7,6}', 1, 'float16');
		w bytea := tensor_to_device(whole('{4,4,3,3}', 2, 'float16'));
		y bytea := conv2d(x, w);
		bytes bytea := y || '';
	BEGIN
		FOR i IN 1 .. 3 LOOP
			ASSERT y || '' = bytes, 'read';
			ASSERT md5(conv2d(y, w)) = md5(conv2d(bytes, w || '')), 'used';
			ASSERT md5(conv2d(w, w)) = md5(conv2d(w || '', w)), 'used twice in a call';
		END LOOP;
	END $$;
	SELECT 'done';
});
is($lines[-1], 'done', 'a variable is read and used in turn');
is($errors, '', 'without an error');

# A tensor that the device has no memory to reorder is read all the same, part by part where it is big.
($errors, @lines) = session($node, q{
	DO $$
	DECLARE
		x bytea := whole('{2,2,300,301}', 1, 'float32');
		w bytea := whole('{3,2,1,1}', 2, 'float32');
		y bytea := conv2d(x, w);
	BEGIN
		PERFORM set_config('cudnn_ops.device', '1001', false);
		ASSERT (SELECT live_tensors = 1 FROM cudnn_ops_memory());
		PERFORM set_config('cudnn_ops.provider', 'reference', false);
		ASSERT md5(y) = md5(conv2d(x, w));
	END $$;
	SELECT 'done';
});
is($lines[-1], 'done', 'a tensor is read without memory to reorder it');
is($errors, '', 'and rightly');

# Weights that repeat go up when they are new, when they are seen again, and then no more.
(undef, @lines) = session($node, q{
	SELECT count(conv2d(tensor_random('{1,4,5,5}', i), w)) FROM (SELECT tensor_random('{4,4,3,3}', 2) AS w OFFSET 0) AS s, generate_series(1, 50) AS i;
	SELECT bytes_to_device <= 50 * 4 * 4 * 25 + 3 * 4 * 4 * 4 * 9 FROM cudnn_ops_stats() WHERE op = 'conv';
});
is_deeply(\@lines, ['50', 't'], 'weights that repeat do not go up with every row');

# Live tensors are back at none after all that can end a computation.
my %endings = (
	'an error in the middle of a nest' => 'SELECT conv2d(relu(conv2d(x, w, groups => 2)), w) FROM net',
	'a savepoint rolled back' => "BEGIN; SAVEPOINT a; SELECT length(relu(conv2d(x, v))) FROM net; ROLLBACK TO a; COMMIT",
	'a cursor closed half-way' => 'BEGIN; DECLARE c CURSOR FOR SELECT relu(conv2d(x, w, groups => 2)) FROM net; FETCH 2 FROM c; CLOSE c; COMMIT',
	'a PL/pgSQL exception' => q{DO $$ DECLARE y bytea; BEGIN
		SELECT relu(conv2d(x, w, groups => 2)) INTO y FROM net LIMIT 1;
		BEGIN y := conv2d(y, relu(y)); EXCEPTION WHEN OTHERS THEN y := relu(y); END;
		RAISE EXCEPTION 'end'; END $$},
	'a query that is cancelled' => q{SET statement_timeout = '100ms';
		SELECT count(relu(conv2d(tensor_random('{1,16,20,20}', i), tensor_random('{16,16,3,3}', i)))) FROM generate_series(1, 100000) AS i});
for my $ending (sort keys %endings)
{
	(undef, @lines) = session($node, "SET cudnn_ops.provider = cudnn; $endings{$ending}; $live");
	is($lines[-1], '0|0', "no tensor is left after $ending");
}

# A device that is lost: an error for the call and for what it held, then the CPU.
($errors, @lines) = session($node, q{
	DO $$
	DECLARE
		x bytea := whole('{2,4,7,6}', 1, 'float16');
		w bytea := whole('{4,4,3,3}', 2, 'float16');
		y bytea := conv2d(x, w);
	BEGIN
		PERFORM set_config('cudnn_ops.device', '1003', false);
		BEGIN
			y := relu(y);
		EXCEPTION WHEN external_routine_exception THEN RAISE WARNING 'computing: %', SQLERRM; END;
		BEGIN
			PERFORM md5(y);
		EXCEPTION WHEN external_routine_exception THEN RAISE WARNING 'reading: %', SQLERRM; END;
		BEGIN
			PERFORM md5(relu(y));
		EXCEPTION WHEN external_routine_exception THEN RAISE WARNING 'on the CPU: %', SQLERRM; END;
	END $$;
	SELECT tensor_to_real(relu(tensor(ARRAY[-1, 3]::real[]))), available FROM cudnn_ops_providers() WHERE name = 'cudnn';
});
like($errors, qr/computing: the device failed.*reading: could not read a tensor.*on the CPU: could not read a tensor/s, 'each use of a lost tensor is an error');
is($lines[-1], '{0,3}|f', 'and the session goes on on the CPU');

$node->stop;
done_testing();

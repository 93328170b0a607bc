# A session stays alive and its memory flat: errors, cancels, hostile bytes, many
# calls. CUDNN_OPS_SOAK is the number of calls (20000); CUDNN_OPS_PROVIDER the
# provider (auto).

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $calls = $ENV{CUDNN_OPS_SOAK} || 20000;
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', 'cudnn_ops.provider = ' . ($ENV{CUDNN_OPS_PROVIDER} || 'auto'));
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION cudnn_ops');

# What a session prints that runs this SQL, errors left out.
sub session
{
	my ($sql) = @_;
	my $stdout;
	$node->psql('postgres', $sql, stdout => \$stdout, on_error_stop => 0);
	return $stdout;
}

my $tensors = "tensor_random('{1,3,16,16}', 1) AS x, tensor_random('{8,3,3,3}', 2) AS w";
my $live = 'SELECT live_tensors, device_bytes FROM cudnn_ops_memory();';

# Live tensors are back at none after everything that can end a computation.
my %endings = (
	'an error in the middle of a nest' =>
	  "SELECT conv2d(relu(conv2d(x, w, padding => '{1}')), w) FROM (SELECT $tensors) s;",
	'a savepoint rolled back' =>
	  "BEGIN; SAVEPOINT a; SELECT length(relu(conv2d(x, w))) FROM (SELECT $tensors) s; SELECT relu('x'); ROLLBACK TO a; COMMIT;",
	'a cursor closed half-way' =>
	  "BEGIN; DECLARE c CURSOR FOR SELECT relu(conv2d(tensor_random('{1,3,16,16}', i), tensor_random('{8,3,3,3}', 2))) FROM generate_series(1, 9) i;"
	  . " FETCH 2 FROM c; CLOSE c; COMMIT;",
	'a PL/pgSQL exception' => "DO \$\$
		DECLARE y bytea; z bytea;
		BEGIN
			SELECT conv2d(x, w) INTO y FROM (SELECT $tensors) s;
			y := relu(y);
			BEGIN z := relu(y); z := conv2d(z, y); EXCEPTION WHEN OTHERS THEN z := relu(y); END;
			RAISE EXCEPTION 'end';
		END \$\$;",
	'a function that returns a variable' => "
		CREATE OR REPLACE FUNCTION f(x bytea, w bytea) RETURNS bytea LANGUAGE plpgsql AS
		\$\$ DECLARE y bytea := conv2d(x, w); BEGIN y := relu(y); RETURN y; END \$\$;
		SELECT length(f(x, w)), CASE WHEN length(f(x, w)) > 0 THEN 1 END, md5(relu(f(x, w))) = md5(relu(relu(conv2d(x, w)))) FROM (SELECT $tensors) s;",
	'a query that is cancelled' => "SET statement_timeout = '30ms';
		SELECT count(conv2d(tensor_random('{8,32,64,64}', i), tensor_random('{32,32,3,3}', 2))) FROM generate_series(1, 100000) i;",
);
for my $ending (sort keys %endings)
{
	my @lines = split /\n/, session("$endings{$ending}\nRESET statement_timeout;\n$live");
	is($lines[-1], '0|0', "no tensor is left after $ending");
}

# Bytes are equal whether intermediates stay where they are or are flattened.
is( $node->safe_psql('postgres',
		"SELECT relu(conv2d(max_pool2d(x, '{2}'), w)) = relu((conv2d((max_pool2d(x, '{2}') || ''), w)) || '') FROM (SELECT $tensors) s"),
	't',
	'resident and flattened intermediates give equal bytes');

# A timeout ends a long computation soon, and the session goes on; also one of a single channel.
for my $long (
	"conv2d(tensor_full('{4,64,128,128}', 1), tensor_full('{128,64,5,5}', 1))",
	"conv2d(tensor_full('{1,1,2000,2000}', 1), tensor_full('{1,1,300,300}', 1))",
	"avg_pool2d(tensor_full('{1,1,2000,2000}', 1), '{300}', '{1}')")
{
	my $begin = time;
	my $answer = session("SET cudnn_ops.provider = reference; SET statement_timeout = '200ms'; SELECT length($long);
		RESET statement_timeout; SELECT tensor_to_real(relu(tensor(ARRAY[-1, 3]::real[])));");
	cmp_ok(time - $begin, '<', 5, "statement_timeout ends $long");
	is((split /\n/, $answer)[-1], '{0,3}', 'and the session goes on');
}

# So do pg_cancel_backend and pg_terminate_backend from another session.
for my $function ('pg_cancel_backend', 'pg_terminate_backend')
{
	my ($out, $err) = ('', '');
	my $victim = IPC::Run::start(
		[ 'psql', '-XAt', '-d', $node->connstr('postgres'),
			'-c', "SELECT count(length(conv2d(tensor_random('{8,32,64,64}', i), tensor_random('{32,32,3,3}', 2)))) FROM generate_series(1, 100000) i /* victim */",
			'-c', 'SELECT tensor_to_real(relu(tensor(ARRAY[-1, 3]::real[])))' ],
		'<', \undef,
		'>', \$out, '2>', \$err);
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%/* victim */%' AND pid <> pg_backend_pid() AND state = 'active'");
	my $sent = time;
	$node->safe_psql('postgres', "SELECT $function(pid) FROM pg_stat_activity WHERE query LIKE '%/* victim */%' AND pid <> pg_backend_pid()");
	$victim->finish;
	cmp_ok(time - $sent, '<', 3, "$function acts soon");
	if ($function eq 'pg_cancel_backend')
	{
		like($err, qr/canceling statement due to user request/, 'the statement is cancelled');
		is($out, "{0,3}\n", 'and its session goes on');
	}
	else
	{
		like($err, qr/terminating connection due to administrator command/, 'the session ends');
	}
}

# Hostile bytes: each is a tensor or an error of the right class, never a crash.
my $mutants = $node->safe_psql('postgres', q{
	SELECT setseed(0.42);
	CREATE FUNCTION mutate(x bytea, i int) RETURNS bytea LANGUAGE plpgsql AS $$
	BEGIN
		FOR j IN 0 .. i % 3 LOOP
			CASE (random() * 9)::int
				WHEN 0 THEN x := substr(x, 1, (random() * length(x))::int);
				WHEN 1 THEN x := x || substr(x, 1, (random() * 40)::int);
				WHEN 2 THEN x := substr(x, (random() * 20)::int);
				-- the shape, if it still has one
				WHEN 3, 4 THEN IF tensor_is_valid(x) THEN
					x := tensor_reshape(x, (ARRAY['{-1}', '{1,2,-1,3}', '{1,-1,3,3}', '{1,1,2,-1}', '{2,-1,1,1}'])[1 + (random() * 4)::int]::int[]);
				END IF;
				-- an element
				WHEN 5 THEN IF length(x) > 140 THEN x := set_byte(x, 128 + (random() * 10)::int, (random() * 255)::int); END IF;
				-- the header: any byte, or one that could be of the shape or type
				WHEN 6 THEN IF length(x) > 130 THEN x := set_byte(x, (random() * 129)::int, (random() * 255)::int); END IF;
				ELSE IF length(x) > 130 THEN x := set_byte(x, 20 + (random() * 70)::int, ascii(substr('0123456789,() <f48', 1 + (random() * 16)::int, 1))); END IF;
			END CASE;
		END LOOP;
		RETURN x;
	END $$;
	CREATE TABLE mutant_result (state text);
	DO $$
	DECLARE
		x bytea := tensor_random('{1,2,6,6}', 1);
		w bytea := tensor_random('{3,2,3,3}', 2);
	BEGIN
		FOR i IN 1 .. 1000 LOOP
			BEGIN
				IF i % 2 = 0 THEN
					PERFORM conv2d(mutate(x, i), w);
				ELSE
					PERFORM conv2d(x, mutate(w, i));
				END IF;
				INSERT INTO mutant_result VALUES ('00000');
			EXCEPTION WHEN OTHERS THEN
				INSERT INTO mutant_result VALUES (SQLSTATE);
			END;
		END LOOP;
	END $$;
	SELECT count(*), count(*) FILTER (WHERE state NOT IN ('00000', '22P03', '22000', '22023', '54000')),
	       count(DISTINCT state) > 2 AND bool_or(state = '00000'), tensor_to_real(relu(tensor(ARRAY[-1, 3]::real[]))) FROM mutant_result;
});
is((split /\n/, $mutants)[-1], '1000|0|t|{0,3}', '1000 mutated tensors through conv2d leave the session alive');

# Memory stays flat over many calls in one session.
my $soak = $node->safe_psql('postgres', qq{
	CREATE FUNCTION resident_pages() RETURNS bigint LANGUAGE sql AS
		\$\$ SELECT split_part(pg_read_file('/proc/self/statm'), ' ', 2)::bigint \$\$;
	CREATE FUNCTION soak(n int) RETURNS bigint LANGUAGE plpgsql AS \$\$
	DECLARE
		x bytea := tensor_random('{1,3,16,16}', 1);
		w bytea := tensor_random('{8,3,3,3}', 2);
		b bytea := tensor_random('{8}', 3);
		y bytea;
	BEGIN
		FOR i IN 1 .. n LOOP
			y := conv2d(x, w, b, stride => ARRAY[1 + i % 2]);
		END LOOP;
		RETURN resident_pages();
	END \$\$;
	CREATE FUNCTION free_on_device() RETURNS bigint LANGUAGE sql AS
		\$\$ SELECT coalesce(min(free_bytes), 0) FROM cudnn_ops_devices() \$\$;
	-- loads every provider, which takes memory too
	SELECT free_on_device();
	SELECT soak(1000), free_on_device(), soak($calls - 1000), free_on_device(), live_tensors,
	       (SELECT sum(calls) FROM cudnn_ops_stats() WHERE op = 'conv')
	FROM cudnn_ops_memory();
});
my ($before, $free_before, $after, $free_after, $tensors_left, $counted) = split /\|/, (split /\n/, $soak)[-1];
note("resident pages after 1000 calls $before, after $calls calls $after");
note("free device memory then $free_before, now $free_after bytes");
cmp_ok($free_before - $free_after, '<=', 0.01 * $free_before, 'no device memory has gone');
cmp_ok(abs($after - $before), '<=', 0.01 * $before, "resident memory within 1% over $calls calls");
is($tensors_left, 0, 'no tensor is left after them');
is($counted, $calls, 'and all were counted');

$node->stop;
done_testing();

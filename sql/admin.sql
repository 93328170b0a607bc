SELECT cudnn_ops_version();

-- reference is always there; a library that is not there says why.
SELECT name FROM cudnn_ops_providers();
SELECT available, version IS NOT NULL, reason FROM cudnn_ops_providers() WHERE name = 'reference';
SELECT bool_and(available = (reason IS NULL)) FROM cudnn_ops_providers();
SELECT count(*) AS strange FROM cudnn_ops_devices() WHERE name = '' OR NOT total_bytes > 0;

-- The provider in force is the one that ran.
CREATE FUNCTION provider_in_force() RETURNS text AS $$
	SELECT CASE current_setting('cudnn_ops.provider')
		WHEN 'auto' THEN (SELECT name FROM cudnn_ops_providers() WHERE available LIMIT 1)
		ELSE current_setting('cudnn_ops.provider') END
$$ LANGUAGE sql;
SELECT cudnn_ops_stats_reset();
SELECT count(*) FROM cudnn_ops_stats();
SELECT sum(tensor_numel(relu(conv2d(tensor_random('{1,1,8,8}', i), tensor_full('{1,1,3,3}', 1))))) FROM generate_series(1, 3) AS i;
SELECT op, provider = provider_in_force() AS in_force, calls, total_ms > 0 AS timed, fallbacks FROM cudnn_ops_stats();
SELECT cudnn_ops_stats_reset();
SELECT count(*) FROM cudnn_ops_stats();

-- Settings.
SET cudnn_ops.provider = 'nothing';
SET cudnn_ops.threads = -1;
SET cudnn_ops.no_such_setting = 1;
CREATE ROLE regress_cudnn_ops_user;
SET ROLE regress_cudnn_ops_user;
SET cudnn_ops.device_memory_limit = '1GB';
RESET ROLE;
DROP ROLE regress_cudnn_ops_user;
SHOW cudnn_ops.deterministic;
SHOW cudnn_ops.allow_tf32;
SHOW cudnn_ops.workspace_limit;

-- Memory comes back.
SELECT live_tensors FROM cudnn_ops_memory();
SELECT cudnn_ops_release();
SELECT live_tensors, device_bytes, workspace_bytes, cached_plans FROM cudnn_ops_memory();

-- A named provider never falls back.
SET cudnn_ops.provider = reference;
SELECT tensor_to_real(relu(tensor(ARRAY[-1, 1]::real[])));
SELECT op, provider FROM cudnn_ops_stats();
RESET cudnn_ops.provider;

-- The self-test, a few problems of each operation and type.
SELECT op, dtype, passed FROM cudnn_ops_selftest(n => 5) WHERE passed IS DISTINCT FROM true AND problems > 0;
SELECT count(*) FROM cudnn_ops_selftest('relu', 0);
SELECT * FROM cudnn_ops_selftest('nothing');
SELECT * FROM cudnn_ops_selftest(n => -1);

DROP FUNCTION provider_in_force();

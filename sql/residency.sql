-- Results stay where they were computed until PostgreSQL wants their bytes. On a
-- provider without a device all of this is bytes anyway: the answers are the same.
CREATE VIEW net AS
SELECT tensor_random('{1,3,8,8}', 1) AS x, tensor_random('{4,3,3,3}', 2) AS w, tensor_random('{4,4,3,3}', 3) AS v;

-- The same computation with every intermediate result flattened.
SELECT relu(conv2d(relu(conv2d(x, w)), v)) = relu((conv2d((relu((conv2d(x, w) || '')) || ''), v) || '')) FROM net;

-- Also in another shape, which is checked as anywhere.
SELECT relu(tensor_reshape(conv2d(x, w), '{4,-1}')) = relu(tensor_reshape(conv2d(x, w) || '', '{4,36}')) FROM net;
SELECT tensor_reshape(conv2d(x, w), '{5,-1}') FROM net;

-- The same for every type (which one provider alone need not have), on tensor cores and off them, where a device may keep tensors in another layout between the calls.
SET cudnn_ops.provider = auto;
CREATE FUNCTION flat(x bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT x || ''::bytea $$;
CREATE VIEW nets AS
SELECT dtype, n, tensor_random(ARRAY[n, 6, 13, 11], 1, dtype) AS x, tensor_random('{8,6,3,3}', 2, dtype) AS w, tensor_random('{8}', 3, dtype) AS b,
	tensor_random('{5,8,3,3}', 4, dtype) AS v, stat AS mean, tensor_cast(stat, tensor_dtype(stat), 0.5, 1) AS var
FROM unnest('{float32,float64,float16,bfloat16}'::text[]) AS dtype, unnest('{1,9}'::int[]) AS n,
	tensor_random('{8}', 5, CASE dtype WHEN 'float64' THEN 'float64' ELSE 'float32' END) AS stat;
CREATE VIEW same_when_flat AS
SELECT dtype, n,
	md5(conv2d(max_pool2d(relu(batch_norm(conv2d(x, w, b, padding => '{1}'), mean, var)), '{3}', '{2}'), v)) =
	md5(conv2d(flat(max_pool2d(flat(relu(flat(batch_norm(flat(conv2d(x, w, b, padding => '{1}')), mean, var)))), '{3}', '{2}')), v)) AS inference,
	md5(conv2d_backward_weight(relu(conv2d(x, w)), x, '{8,6,3,3}')) =
	md5(conv2d_backward_weight(flat(relu(flat(conv2d(x, w)))), x, '{8,6,3,3}')) AS weight_gradient,
	md5(conv2d_backward_input(relu(conv2d(x, w)), w, tensor_shape(x))) =
	md5(conv2d_backward_input(flat(relu(flat(conv2d(x, w)))), w, tensor_shape(x))) AS input_gradient,
	md5(avg_pool2d(conv_transpose2d(conv2d(x, w), w, stride => '{2}'), '{2}')) =
	md5(avg_pool2d(flat(conv_transpose2d(flat(conv2d(x, w)), w, stride => '{2}')), '{2}')) AS transposed,
	md5(max_pool2d_backward(y, y, max_pool2d(y, '{1}'), '{1}')) = md5(flat(y)) AS pooled,
	md5(conv_backward_bias(y)) = md5(conv_backward_bias(flat(y))) AS summed
FROM (SELECT *, conv2d(x, w, padding => '{1}') AS y FROM nets OFFSET 0) s;
SELECT * FROM same_when_flat ORDER BY 1, 2;
SET cudnn_ops.allow_tf32 = on;
SELECT * FROM same_when_flat WHERE dtype = 'float32' ORDER BY 1, 2;
RESET cudnn_ops.allow_tf32;
-- One axis and three; a tensor that is read and goes on being used; groups, which have a layout of their own.
SELECT dtype, md5(relu(conv1d(a, p))) = md5(relu(flat(conv1d(a, p)))), md5(relu(conv3d(c, q))) = md5(relu(flat(conv3d(c, q)))),
	md5(conv2d(conv2d(d, r), r, groups => 2)) = md5(conv2d(flat(conv2d(d, r)), r, groups => 2))
FROM unnest('{float32,float16,bfloat16}'::text[]) AS dtype, tensor_random('{2,3,17}', 1, dtype) AS a, tensor_random('{4,3,3}', 2, dtype) AS p,
	tensor_random('{2,3,5,6,7}', 3, dtype) AS c, tensor_random('{4,3,2,2,2}', 4, dtype) AS q,
	tensor_random('{2,4,6,6}', 5, dtype) AS d, tensor_random('{8,4,3,3}', 6, dtype) AS r;
DO $$
DECLARE
	x bytea := tensor_random('{2,5,9,9}', 1, 'bfloat16');
	w bytea := tensor_random('{5,5,3,3}', 2, 'bfloat16');
	y bytea := conv2d(x, w, padding => '{1}');
	once text := md5(y);
BEGIN
	FOR i IN 1 .. 3 LOOP
		ASSERT md5(conv2d(y, w)) = md5(conv2d(flat(y), w)), 'read, then convolved';
		ASSERT md5(y) = once, 'convolved, then read';
		ASSERT md5(avg_pool2d(y, '{2}')) = md5(avg_pool2d(flat(y), '{2}')), 'pooled in C order';
	END LOOP;
END $$;
RESET cudnn_ops.provider;
DROP VIEW same_when_flat, nets;
DROP FUNCTION flat;

-- Through CASE, a subquery, a function that is inlined, COALESCE and a cursor.
CREATE FUNCTION layer(x bytea, w bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT relu(conv2d(x, w)) $$;
CREATE VIEW expected AS SELECT md5(layer(x, w)) AS md5 FROM net;
SELECT md5(CASE WHEN length(x) > 0 THEN layer(x, w) ELSE x END) = (SELECT md5 FROM expected) FROM net;
SELECT md5(y) = (SELECT md5 FROM expected) FROM (SELECT layer(x, w) AS y FROM net OFFSET 0) s;
SELECT md5(coalesce(nullif(layer(x, w), ''), x)) = (SELECT md5 FROM expected) FROM net;
SELECT md5((SELECT layer(x, w))) = (SELECT md5 FROM expected) FROM net;
BEGIN;
DECLARE c CURSOR FOR SELECT md5(layer(x, w)) = (SELECT md5 FROM expected) AS same FROM net, generate_series(1, 3);
FETCH 2 FROM c;
CLOSE c;
COMMIT;

-- Where PostgreSQL needs bytes: storing, sorting, grouping, comparing, arrays, rows, aggregates.
CREATE TABLE stored AS SELECT i, layer(tensor_random('{1,3,8,8}', i), w) AS y FROM net, generate_series(1, 4) AS i;
SELECT count(*), count(DISTINCT y), bool_and(tensor_is_valid(y)) FROM stored;
SELECT bool_and(y = layer(tensor_random('{1,3,8,8}', i), w)) FROM stored, net;
SELECT count(*) FROM (SELECT layer(tensor_random('{1,3,8,8}', i % 2), w) AS y FROM net, generate_series(1, 4) AS i GROUP BY 1) s;
SELECT array_length(array_agg(layer(x, w)), 1), tensor_shape((array_agg(layer(x, w)))[1]) FROM net, generate_series(1, 2);
SELECT tensor_shape((SELECT y FROM (SELECT layer(x, w) AS y, i FROM net, generate_series(1, 2) AS i ORDER BY y LIMIT 1) s));
DROP TABLE stored;

-- A PL/pgSQL variable keeps its tensor; so does one that is assigned, passed on and returned.
CREATE FUNCTION deep(x bytea, w bytea, n int) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
	y bytea := tensor_to_device(x);
	z bytea;
BEGIN
	FOR i IN 1 .. n LOOP
		z := conv2d(y, w, padding => '{1}');
		y := relu(z);
	END LOOP;
	RETURN y;
END $$;
SELECT tensor_shape(deep(x, w, 5)), deep(x, w, 2) = relu(conv2d(relu(conv2d(x, w, padding => '{1}')), w, padding => '{1}'))
FROM (SELECT tensor_random('{1,3,8,8}', 1) AS x, tensor_random('{3,3,3,3}', 2) AS w) s;

-- A nest of ten on one input: what goes up is the input and the weights once, what comes down the result.
SELECT cudnn_ops_stats_reset();
DO $$
DECLARE
	x bytea := tensor_random('{1,3,16,16}', 1);
	y bytea;
BEGIN
	y := relu(relu(relu(relu(relu(relu(relu(relu(relu(relu(x))))))))));
	ASSERT length(y || '') = 128 + 4 * 3 * 16 * 16;
END $$;
SELECT sum(calls) AS calls, sum(bytes_to_device) IN (0, 4 * 3 * 16 * 16) AS up_once, sum(bytes_to_host) IN (0, 4 * 3 * 16 * 16) AS down_once
FROM cudnn_ops_stats();

-- tensor_to_device takes every type and NULL.
SELECT dtype, tensor_to_device(x) = x FROM unnest('{float32,float64,float16,bfloat16,uint8,int8,int32,int64,bool}'::text[]) AS dtype, tensor_full('{2,3}', 1, dtype) AS x;
SELECT tensor_to_device(NULL) IS NULL, tensor_shape(tensor_to_device(tensor_full('{0,2}', 1))), tensor_shape(tensor_to_device(tensor_full('{}', 1)));

-- Weights that repeat from row to row, and some that do not, from a table that stores them out of line.
CREATE TABLE weights (id int, w bytea);
ALTER TABLE weights ALTER w SET STORAGE EXTERNAL;
INSERT INTO weights SELECT i, tensor_random('{16,3,7,7}', i) FROM generate_series(1, 3) AS i;
SELECT count(*), count(DISTINCT y), bool_and(y = conv2d(x || '', w || ''))
FROM (SELECT x, w, conv2d(x, w) AS y FROM (SELECT tensor_random('{1,3,8,8}', i) AS x FROM generate_series(1, 5) AS i) s, weights) t;
SELECT count(DISTINCT conv2d(tensor_random('{1,3,8,8}', 7), (SELECT w FROM weights WHERE id = 1 + i % 3))) FROM generate_series(1, 6) AS i;
SELECT count(*), bool_and(y = conv2d(x, w || '')) FROM
	(SELECT i, x, conv2d(x, (SELECT w FROM weights WHERE id = 2)) AS y FROM generate_series(1, 5) AS i, tensor_random('{1,3,8,8}', i) AS x) s, weights WHERE id = 2;
DO $$
DECLARE
	w bytea;
	y bytea;
BEGIN
	-- the same place in memory, other bytes
	FOR i IN 1 .. 6 LOOP
		w := tensor_full('{1,1,1,1}', i / 2);
		y := conv2d(tensor_full('{1,1,1,1}', 10), w);
		ASSERT tensor_item(y) = 10 * (i / 2), 'a stale weight';
	END LOOP;
END $$;
DROP TABLE weights;

-- Big stored values, which go up in slices, and some that can't.
CREATE TABLE big (x bytea);
ALTER TABLE big ALTER x SET STORAGE EXTERNAL;
INSERT INTO big SELECT tensor_random('{3,700,701}', i) FROM generate_series(1, 2) AS i;
INSERT INTO big SELECT tensor_random('{300001}', 3, 'float32');
ALTER TABLE big ALTER x SET STORAGE EXTENDED;
INSERT INTO big SELECT tensor_full('{3,700,701}', -1);
SELECT tensor_shape(x), relu(x) = relu(x || '') FROM big;
SELECT count(*) FROM big AS a, big AS b WHERE relu(a.x) = relu(b.x || '');
DROP TABLE big;

SELECT live_tensors, device_bytes FROM cudnn_ops_memory();
DROP FUNCTION deep, layer CASCADE;
DROP VIEW net;

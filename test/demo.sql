-- Each digit becomes a tensor of 8 x 8 bytes, (1, 1, 8, 8).
CREATE TABLE digits (id int PRIMARY KEY, label int, image tensor);
ALTER TABLE digits ALTER image SET STORAGE EXTERNAL;
INSERT INTO digits
SELECT id, v[65], tensor(v[1:64], '{1,1,8,8}', 'uint8')
FROM line, LATERAL (SELECT string_to_array(csv, ',')::int[] AS v) s;

-- Two filters, (2, 1, 3, 3): edges to the right and edges downwards.
CREATE TABLE filters AS
SELECT tensor(ARRAY[[[[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]],
                    [[[-1, -2, -1], [0, 0, 0], [1, 2, 1]]]]::real[]) AS edges;

-- Without statistics the planner would expect millions of rows and compile the query for them.
ANALYZE digits, filters;

-- The main job: convolution, relu and pooling over the whole table.
SELECT cudnn_ops_stats_reset() \g /dev/null
SELECT clock_timestamp() AS begin \gset
CREATE TABLE features AS
SELECT id, label,
       max_pool2d(relu(conv2d(tensor_cast(image, 'float32'), edges, padding => '{1}')), '{2}') AS feature
FROM digits, filters;
CREATE TEMP TABLE ran AS SELECT op, provider, calls, round(total_ms::numeric, 1) AS total_ms FROM cudnn_ops_stats();
SELECT count(*) AS rows, round(count(*) / extract(epoch FROM clock_timestamp() - :'begin')) AS rate FROM features \gset

-- A channel of an (N, C, H, W) tensor as text, two characters a pixel.
CREATE FUNCTION picture(t bytea, channel int) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT string_agg(repeat(substr(' .:-=+*#%@', 1 + (9 * a[1][channel][y][x] / tensor_item(m))::int, 1), 2), '' ORDER BY x)
	FROM tensor_to_real(t) AS a, global_max_pool(tensor_reshape(tensor_cast(t, 'float32'), '{1,1,-1}')) AS m,
	     generate_series(1, array_length(a, 3)) AS y, generate_series(1, array_length(a, 4)) AS x
	GROUP BY y ORDER BY y
$$;

SELECT label FROM digits WHERE id = 1 \gset
\echo
\echo 'Digit' :label 'of the table digits, 8 x 8 pixels:'
SELECT picture(image, 1) FROM digits WHERE id = 1;
\echo 'Its edges to the right, after convolution, relu and pooling, 4 x 4:'
SELECT picture(feature, 1) FROM features WHERE id = 1;
\echo 'Its edges downwards:'
SELECT picture(feature, 2) FROM features WHERE id = 1;
\echo
\echo :rows 'rows through conv2d, relu and max_pool2d,' :rate 'rows a second. What ran where:'
\pset tuples_only off
\pset format aligned
SELECT * FROM ran;

-- Arrays: their shape and type, or others.
SELECT tensor_shape(x), tensor_dtype(x), tensor_rank(x), tensor_numel(x), tensor_to_real(x)
FROM tensor(ARRAY[[1, 2, 3], [4, 5, 6]]::real[]) AS x;
SELECT tensor_dtype(tensor(ARRAY[1.5])), tensor_dtype(tensor(ARRAY[1.5::float8])), tensor_dtype(tensor(ARRAY[1::smallint])),
       tensor_dtype(tensor(ARRAY[1])), tensor_dtype(tensor(ARRAY[1::bigint])), tensor_dtype(tensor(ARRAY[true]));
SELECT tensor_to_real(tensor(ARRAY[1, 2, 3, 4, 5, 6], '{3,-1}', 'float16')), tensor_shape(tensor(ARRAY[1, 2], '{1,2,1}'));
SELECT tensor_shape(tensor('{}'::real[])), tensor_shape(tensor('{}'::real[], '{0,3}')), tensor_to_real(tensor('{}'::real[]));
SELECT tensor_to_float8(tensor(ARRAY[9007199254740993]::bigint[])), encode(tensor_raw(tensor(ARRAY[9007199254740993]::bigint[])), 'hex');
SELECT tensor_to_real(tensor(ARRAY[true, false])), tensor_to_real(tensor(ARRAY[3, 0], NULL, 'bool'));

SELECT encode(tensor_raw(tensor(ARRAY[9007199254740993.5])), 'hex'), encode(tensor_raw(tensor(ARRAY[9007199254740993.5], NULL, 'int64')), 'hex');

-- A NULL option means its default.
SELECT tensor_full('{2}', 1, NULL) = tensor_full('{2}', 1), tensor_random('{2}', 1, NULL) = tensor_random('{2}', 1),
       tensor_cast(tensor_full('{2}', 1), 'int8', NULL, NULL) = tensor_full('{2}', 1, 'int8'),
       tensor_allclose(tensor_full('{2}', 1), tensor_full('{2}', 1), NULL, NULL);
SELECT tensor_full(NULL, 1) IS NULL AND tensor_full('{2}', NULL) IS NULL AND tensor_random('{2}', NULL) IS NULL AND
       tensor_cast(NULL, 'int8') IS NULL AND tensor_allclose(NULL, tensor_full('{2}', 1)) IS NULL AS "null";

-- Raw bytes, one value, a seed.
SELECT tensor_to_real(tensor('\x0102ff'::bytea, '{3}', 'uint8')), tensor_to_real(tensor('\x0102ff'::bytea, '{3,1}', 'int8'));
SELECT tensor_raw(tensor(ARRAY[1, -2]::real[]));
SELECT tensor_to_real(tensor_full('{2,2}', 7)), tensor_item(tensor_full('{}', 0.1)), tensor_item(tensor_full('{1,1}', 0.1, 'float64'));
SELECT tensor_random('{3}', 1) = tensor_random('{3}', 1), tensor_random('{3}', 1) = tensor_random('{3}', 2);
SELECT dtype, md5(tensor_raw(tensor_random('{100}', 42, dtype))) FROM unnest('{float32,float64,float16,bfloat16}'::text[]) AS dtype;

-- The bytes are those of numpy.save.
SELECT encode(substr(x, 1, 10), 'hex'), convert_from(substr(x, 11, 117), 'UTF8') = rpad('{''descr'': ''<f4'', ''fortran_order'': False, ''shape'': (2,), }', 117), length(x)
FROM tensor_full('{2}', 1) AS x;

-- The domain takes tensors and nothing else.
CREATE TABLE tensors (x tensor);
INSERT INTO tensors VALUES (tensor_full('{2}', 1)), (NULL);
INSERT INTO tensors VALUES ('\x00');
SELECT tensor_text(x) FROM tensors;
DROP TABLE tensors;
SELECT tensor_is_valid(tensor_full('{2}', 1)), tensor_is_valid(''), tensor_is_valid(tensor_full('{2}', 1) || '\x00');

-- Large values: the header is read from a slice, whatever the storage.
CREATE TABLE stored (storage text, x bytea);
ALTER TABLE stored ALTER x SET STORAGE EXTERNAL;
INSERT INTO stored SELECT 'external', tensor_random('{3,50,50}', 1);
ALTER TABLE stored ALTER x SET STORAGE EXTENDED;
INSERT INTO stored SELECT 'extended', tensor_full('{3,50,50}', 1);
SELECT storage, tensor_shape(x), tensor_is_valid(x), tensor_dtype(x), tensor_numel(x) FROM stored ORDER BY 1;
DROP TABLE stored;

-- Fortran order, big-endian and format 2.0 come out as one and the same.
SELECT tensor_to_real(x), x = tensor_reshape(x, '{2,2}') AS canonical
FROM (VALUES
	('\x934e554d505901007600'::bytea || convert_to(rpad('{''descr'': ''<f4'', ''fortran_order'': True, ''shape'': (2, 2)}', 117), 'UTF8') || '\x0a' || tensor_raw(tensor(ARRAY[1, 3, 2, 4]::real[]))),
	('\x934e554d505901007600'::bytea || convert_to(rpad('{"shape":(2,2),"fortran_order":False,"descr":">f4"}', 117), 'UTF8') || '\x0a' || '\x3f800000400000004040000040800000'),
	('\x934e554d5059020074000000'::bytea || convert_to(rpad('{''descr'': ''<f4'', ''fortran_order'': False, ''shape'': (2, 2), }', 115), 'UTF8') || '\x0a' || tensor_raw(tensor(ARRAY[1, 2, 3, 4]::real[])))
) AS v(x);

-- Text.
SELECT tensor_text(tensor(ARRAY[[1, 2.5], [-3, 1000]]::real[])), tensor_text(tensor(ARRAY['NaN', 'Infinity', 1]::real[])), tensor_text(tensor_full('{}', 3)), tensor_text(tensor_full('{0,2}', 3));
SELECT tensor_text(tensor_full('{2000}', 1, 'int32'));
SELECT tensor_text(tensor_full('{2}', 1, 'bool')), tensor_text(tensor_full('{2}', 0.015625, 'float16')), tensor_text(tensor_full('{2}', 1e-4));

-- Comparing.
SELECT tensor_max_abs_diff(tensor(ARRAY[1, 2]::real[]), tensor(ARRAY[1, 5])), tensor_allclose(tensor(ARRAY[1, 2]::real[]), tensor(ARRAY[1, 2.00001]::real[])),
       tensor_allclose(tensor(ARRAY[1]::real[]), tensor(ARRAY[1.1]::real[])), tensor_allclose(tensor(ARRAY[1]::real[]), tensor(ARRAY[1.1]::real[]), 0.2),
       tensor_allclose(tensor(ARRAY['NaN']::real[]), tensor(ARRAY['NaN']::real[])), tensor_max_abs_diff(tensor(ARRAY['NaN']::real[]), tensor(ARRAY['NaN']::real[]));

-- Shape and type.
SELECT tensor_to_real(tensor_reshape(tensor(ARRAY[1, 2, 3, 4]), '{2,-1}')), tensor_shape(tensor_reshape(tensor_full('{0,3}', 1), '{3,0}'));
SELECT tensor_to_real(tensor_cast(tensor(ARRAY[1.9, -1.9, 300]::real[]), 'int32')), tensor_to_real(tensor_cast(tensor(ARRAY[0, 16]), 'float32', 0.0625, -0.5));
SELECT tensor_to_real(tensor_cast(tensor(ARRAY[1e6, 1]::real[]), 'float16')), tensor_to_real(tensor_cast(tensor(ARRAY[0, 0.5]::real[]), 'bool'));

-- Errors: the message where it matters, else the code.
SELECT tensor(ARRAY['a']);
SELECT tensor(ARRAY[1, NULL]);
SELECT tensor(ARRAY[1, 2, 3], '{2,-1}');
SELECT tensor(ARRAY[1, 2], '{2}', 'float');
SELECT tensor(ARRAY[256], NULL, 'uint8');
SELECT tensor('\x0102'::bytea, '{1}', 'float32');
SELECT tensor_full('{2}', 1e39);
SELECT tensor_full('{2,-1}', 1);
SELECT tensor_full('{1,1,1,1,1,1,1,1,1}', 1);
SELECT tensor_random('{2}', 1, 'int32');
SELECT tensor_item(tensor_full('{2}', 1));
SELECT tensor_max_abs_diff(tensor_full('{2}', 1), tensor_full('{1,2}', 1));
SELECT tensor_reshape(tensor_full('{6}', 1), '{4}');
SELECT tensor_cast(tensor_full('{2}', 300), 'uint8');
SELECT tensor_cast(tensor(ARRAY['NaN']::real[]), 'int64');
SELECT tensor_to_real(tensor_full('{1,1,1,1,1,1,1}', 1));
\set VERBOSITY sqlstate
SELECT tensor_full('{2147483647,2147483647,2147483647}', 1);
SELECT tensor_full('{300000000}', 1);
SELECT tensor_shape('\x934e554d50590100');
SELECT tensor_shape('\x934e554d505901007600'::bytea || convert_to(rpad('{''descr'': ''<f4'', ''fortran_order'': False, ''shape'': (4294967296, 4294967296), }', 117), 'UTF8') || '\x0a');
SELECT tensor_shape(substr(tensor_full('{2}', 1), 1, 130));
SELECT tensor_shape('\x934e554d50590200ffffffff7b');

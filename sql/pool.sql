CREATE VIEW image AS
SELECT tensor(ARRAY[[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]]]::real[]) AS x;

-- stride is kernel_size unless given.
SELECT tensor_to_real(max_pool2d(x, '{2}')) FROM image;
SELECT tensor_to_real(max_pool2d(x, '{2}', '{1}')) FROM image;
SELECT tensor_to_real(max_pool2d(x, '{1,2}', '{2,1}')) FROM image;
SELECT max_pool2d(NULL, '{2}') IS NULL, max_pool2d(x, NULL) IS NULL FROM image;

-- Padding never wins, not even over negative numbers.
SELECT tensor_to_real(max_pool2d(tensor_full('{1,1,2,2}', -7), '{2}', padding => '{1}'));
SELECT tensor_to_real(max_pool2d(x, '{2}', '{2}', '{0,1,1,0}')) FROM image;
SELECT tensor_to_real(max_pool2d(x, '{2}', ceil_mode => true)) FROM image;
SELECT tensor_to_real(max_pool2d(tensor(ARRAY[[[['NaN', 1], [2, 3]]]]::real[]), '{1,2}'));

-- Averages: what is padding counts unless told not to.
SELECT tensor_to_real(avg_pool2d(x, '{2}')) FROM image;
SELECT tensor_to_real(avg_pool2d(tensor_full('{1,1,2,2}', 4), '{2}', '{1}', '{1}'));
SELECT tensor_to_real(avg_pool2d(tensor_full('{1,1,2,2}', 4), '{2}', '{1}', '{1}', count_include_pad => false));
SELECT tensor_to_real(avg_pool2d(tensor_full('{1,1,2,2}', 4), '{2}', '{1}', '{1,0,0,1}'));
SELECT tensor_to_real(avg_pool2d(tensor_full('{1,1,2,2}', 4), '{2}', '{1}', '{1,0,0,1}', count_include_pad => false));
-- What ceil_mode adds beyond the padding does not count either way.
SELECT tensor_to_real(avg_pool2d(tensor_full('{1,1,3,3}', 4), '{2}', ceil_mode => true));
SELECT tensor_to_real(avg_pool2d(tensor_full('{1,1,3,3}', 4), '{2}', '{2}', '{1}', true));

-- One and three dimensions.
SELECT tensor_to_real(max_pool1d(tensor(ARRAY[[[3, 1, 4, 1, 5, 9]]]::real[]), '{3}', '{1}'));
SELECT tensor_to_real(avg_pool1d(tensor(ARRAY[[[3, 1, 4, 2, 5, 9]]]::real[]), '{2}'));
SELECT tensor_to_real(max_pool3d(tensor(ARRAY[1, 2, 3, 4, 5, 6, 7, 8]::real[], '{1,1,2,2,2}'), '{2}'));
SELECT tensor_to_real(avg_pool3d(tensor(ARRAY[1, 2, 3, 4, 5, 6, 7, 12]::real[], '{1,1,2,2,2}'), '{1,2,2}'));

-- Over all of an image.
SELECT tensor_shape(y), tensor_to_real(y) FROM global_avg_pool(tensor(ARRAY[1, 2, 3, 10]::real[], '{1,1,2,2}')) AS y;
SELECT tensor_shape(y), tensor_to_real(y) FROM image, global_max_pool(x) AS y;
SELECT tensor_shape(global_avg_pool(tensor_full('{2,3,4}', 1))), tensor_shape(global_avg_pool(tensor_full('{2,3,4,5,6}', 1)));

-- Gradients: the first maximum takes it.
SELECT tensor_to_real(max_pool2d_backward(tensor_full('{1,1,1,2}', 1), x, max_pool2d(x, '{2}'), '{2}')) FROM image;
SELECT tensor_to_real(max_pool1d_backward(tensor(ARRAY[[[1, 10]]]::real[]), x, max_pool1d(x, '{2}', '{1}'), '{2}', '{1}'))
FROM tensor(ARRAY[[[7, 7, 7]]]::real[]) AS x;
SELECT tensor_to_real(avg_pool2d_backward(tensor_full('{1,1,1,2}', 4), '{1,1,3,4}', '{2}'));
SELECT tensor_to_real(avg_pool1d_backward(tensor(ARRAY[[[2, 4]]]::real[]), '{1,1,2}', '{2}', '{2}', '{1}', count_include_pad => false));

-- An empty batch gives an empty result.
SELECT tensor_shape(max_pool2d(tensor_full('{0,1,4,4}', 1), '{2}')), tensor_shape(global_avg_pool(tensor_full('{0,1,4,4}', 1)));

-- float64; auto, for a CPU library may lack it.
SET cudnn_ops.provider = auto;
SELECT tensor_to_float8(max_pool1d(tensor(ARRAY[[[1, 16777217]]]::float8[]), '{2}'));
RESET cudnn_ops.provider;

-- Errors say both sides.
SELECT max_pool2d(x, '{4,5}') FROM image;
SELECT max_pool2d(x, '{0}') FROM image;
SELECT max_pool2d(x, '{2}', '{0}') FROM image;
SELECT max_pool2d(x, '{2}', padding => '{2}') FROM image;
SELECT max_pool2d(x, '{2}', padding => '{-1}') FROM image;
SELECT avg_pool2d(x, '{2}', padding => '{1,1,1,1,1}') FROM image;
SELECT avg_pool2d(x, '{2,NULL}') FROM image;
SELECT max_pool3d(x, '{2}') FROM image;
SELECT max_pool2d(tensor_full('{1,1,3,4}', 1, 'int32'), '{2}');
SELECT global_avg_pool(tensor_full('{3,4}', 1));
SELECT max_pool2d(tensor_full('{1,0,3,4}', 1), '{2}');
SELECT max_pool2d_backward(tensor_full('{1,1,2,2}', 1), x, x, '{2}') FROM image;
SELECT avg_pool2d_backward(tensor_full('{1,1,2,2}', 1), '{1,1,3,4}', '{2}');

-- oneDNN would visit all of a window, however little of it lies on the input, and cannot be cancelled (55000: no oneDNN here).
SET cudnn_ops.provider = onednn;
SET statement_timeout = '20s';
DO $$
BEGIN
	PERFORM max_pool2d(tensor_full('{1,1,4,4}', 2), '{200000}', padding => '{199998}');
EXCEPTION WHEN feature_not_supported OR object_not_in_prerequisite_state THEN
	RAISE NOTICE 'declined';
END $$;
SET cudnn_ops.provider = reference;
SELECT tensor_text(max_pool2d(tensor_full('{1,1,4,4}', 2), '{200000}', padding => '{199998}'));
RESET statement_timeout;
RESET cudnn_ops.provider;

SELECT live_tensors, device_bytes FROM cudnn_ops_memory();
DROP VIEW image;

-- Every element is 2 * 3 * 3 ones and a bias of 2.
SELECT tensor_shape(y), tensor_dtype(y), tensor_max_abs_diff(y, tensor_full('{2,2,9,5}', 20))
FROM conv2d(tensor_full('{2,3,10,7}', 1), tensor_full('{2,3,2,3}', 1), tensor_full('{2}', 2)) AS y;

CREATE VIEW image AS
SELECT tensor(ARRAY[[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]]]::real[]) AS x,
       tensor(ARRAY[[[[1, 0], [0, 2]]]]::real[]) AS w;

-- It is cross-correlation: the kernel is not flipped.
SELECT tensor_to_real(conv2d(x, w)) FROM image;

-- No bias, a NULL bias and options that are NULL or their defaults are the same.
SELECT conv2d(x, w) = conv2d(x, w, NULL, NULL, NULL, NULL, NULL),
       conv2d(x, w) = conv2d(x, w, tensor_full('{1}', 0), '{1,1}', '{0,0}', '{1,1}', 1)
FROM image;

-- A NULL tensor gives NULL.
SELECT conv2d(NULL, w) IS NULL, conv2d(x, NULL) IS NULL FROM image;

-- Stride, padding of 1, 2 and 4 elements (all begins, then all ends), dilation.
SELECT tensor_to_real(conv2d(x, w, stride => '{2}')) FROM image;
SELECT tensor_to_real(conv2d(x, w, stride => '{1,3}')) FROM image;
SELECT tensor_to_real(conv2d(x, w, padding => '{1}')) FROM image;
SELECT tensor_to_real(conv2d(x, w, padding => '{0,1}')) FROM image;
SELECT tensor_to_real(conv2d(x, w, padding => '{1,0,0,2}')) FROM image;
SELECT tensor_to_real(conv2d(x, w, dilation => '{2}')) FROM image;
SELECT tensor_to_real(conv2d(x, w, dilation => '{1,3}')) FROM image;

-- Groups: each half of the channels by itself; depthwise with two filters a channel.
SELECT tensor_to_real(conv2d(tensor(ARRAY[1, 2, 3, 4]::real[], '{1,4,1,1}'),
                             tensor(ARRAY[1, 10, 100, 1000]::real[], '{2,2,1,1}'), groups => 2));
SELECT tensor_to_real(conv2d(tensor(ARRAY[1, 2]::real[], '{1,2,1,1}'),
                             tensor(ARRAY[1, 10, 100, 1000]::real[], '{4,1,1,1}'), groups => 2));

-- One and three dimensions.
SELECT tensor_to_real(conv1d(tensor(ARRAY[[[1, 2, 3, 4, 5]]]::real[]), tensor(ARRAY[[[1, 0, -1]]]::real[]),
                             padding => '{1}'));
SELECT tensor_to_real(conv1d(tensor(ARRAY[[[1, 2, 3, 4, 5]]]::real[]), tensor(ARRAY[[[1, 10]]]::real[]),
                             padding => '{2,0}', dilation => '{2}'));
SELECT tensor_shape(y), tensor_max_abs_diff(y, tensor_full('{1,1,1,2,3}', 12))
FROM conv3d(tensor_full('{1,1,2,3,5}', 1), tensor_full('{1,1,2,2,3}', 1)) AS y;

-- An empty batch gives an empty result.
SELECT tensor_shape(conv2d(tensor_full('{0,3,10,7}', 1), tensor_full('{2,3,2,3}', 1), tensor_full('{2}', 2)));

-- Transposed: each element spreads the kernel; output_padding adds rows at the end.
SELECT tensor_to_real(conv_transpose1d(tensor(ARRAY[[[1, 2, 3]]]::real[]), tensor(ARRAY[[[1, 10]]]::real[]),
                                       stride => '{2}'));
SELECT tensor_to_real(conv_transpose1d(tensor(ARRAY[[[1, 2, 3]]]::real[]), tensor(ARRAY[[[1, 10]]]::real[]),
                                       tensor_full('{1}', 5), stride => '{2}', output_padding => '{1}'));
SELECT tensor_to_real(conv_transpose2d(x, w, padding => '{1}')) FROM image;
SELECT tensor_to_real(conv_transpose2d(tensor(ARRAY[1, 2]::real[], '{1,2,1,1}'),
                                       tensor(ARRAY[1, 2, 3, 4]::real[], '{2,2,1,1}'), groups => 2));
SELECT tensor_shape(conv_transpose3d(tensor_full('{1,2,2,2,2}', 1), tensor_full('{2,3,3,3,3}', 1),
                                     stride => '{2}', dilation => '{1,2,1}'));

-- Gradients.
SELECT tensor_to_real(conv2d_backward_input(tensor_full('{1,1,2,3}', 1), w, '{1,1,3,4}')) FROM image;
SELECT tensor_to_real(conv2d_backward_weight(tensor_full('{1,1,2,3}', 1), x, '{1,1,2,2}')) FROM image;
SELECT tensor_to_real(conv2d_backward_weight(tensor_full('{0,1,2,3}', 1), tensor_full('{0,1,3,4}', 1), '{1,1,2,2}'));
SELECT tensor_to_real(conv_backward_bias(tensor(ARRAY[[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]::real[])));

-- float64 where float32 would round; auto, for a CPU library may lack it.
SET cudnn_ops.provider = auto;
SELECT tensor_to_float8(conv2d(tensor(ARRAY[[[[16777217::float8]]]]), tensor(ARRAY[[[[1::float8]]]])));
RESET cudnn_ops.provider;

-- Errors say both sides.
SELECT conv2d(x, tensor_full('{1,2,2,2}', 1)) FROM image;
SELECT conv2d(tensor_full('{1,4,5,5}', 1), tensor_full('{3,2,2,2}', 1), groups => 2);
SELECT conv2d(tensor_full('{1,4,5,5}', 1), tensor_full('{2,4,2,2}', 1), groups => 2);
SELECT conv2d(x, w, groups => 0) FROM image;
SELECT conv2d(x, tensor_full('{1,1,2}', 1)) FROM image;
SELECT conv2d(tensor_full('{3,4}', 1), w) FROM image;
SELECT conv2d(x, tensor_full('{1,1,2,2}', 1, 'float64')) FROM image;
SELECT conv2d(tensor_full('{1,1,3,4}', 1, 'uint8'), tensor_full('{1,1,2,2}', 1, 'uint8'));
SELECT conv2d(x, w, tensor_full('{2}', 1)) FROM image;
SELECT conv2d(x, tensor_full('{1,1,4,2}', 1)) FROM image;
SELECT conv2d(x, w, stride => '{0}') FROM image;
SELECT conv2d(x, w, stride => '{1,1,1}') FROM image;
SELECT conv2d(x, w, stride => '{1,NULL}') FROM image;
SELECT conv2d(x, w, stride => '{{1,1}}') FROM image;
SELECT conv2d(x, w, padding => '{-1}') FROM image;
SELECT conv2d(x, w, padding => '{1,1,1,1,1}') FROM image;
SELECT conv2d(x, w, dilation => '{0}') FROM image;
SELECT conv2d(tensor_full('{1,0,3,4}', 1), tensor_full('{1,0,2,2}', 1));
SELECT conv2d('\x00', w) FROM image;
SELECT conv_transpose2d(x, w, stride => '{2}', output_padding => '{2}') FROM image;
SELECT conv2d_backward_input(tensor_full('{1,1,2,2}', 1), w, '{1,1,3,4}') FROM image;
SELECT conv2d_backward_weight(tensor_full('{1,1,2,2}', 1), x, '{1,1,2,2}') FROM image;

-- Windows larger than the image, all in the padding, or beside which elements are left over; in types that one provider alone need not have.
SET cudnn_ops.provider = auto;
CREATE FUNCTION as_reference(expression text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	provider text := current_setting('cudnn_ops.provider');
	result bytea;
	reference bytea;
BEGIN
	EXECUTE 'SELECT ' || expression INTO result;
	PERFORM set_config('cudnn_ops.provider', 'reference', false);
	EXECUTE 'SELECT ' || expression INTO reference;
	PERFORM set_config('cudnn_ops.provider', provider, false);
	RETURN tensor_allclose(result, reference, 0.02, 0.05);
END $$;
SELECT as_reference(replace(expression, 'r(', 'tensor_random(')) FROM (VALUES
	($$conv3d(r('{1,4,1,2,5}', 1, 'bfloat16'), r('{12,1,3,1,2}', 2, 'bfloat16'), padding => '{1,0,1}', groups => 4)$$),
	($$conv3d(r('{3,1,1,12,8}', 1, 'bfloat16'), r('{3,1,3,3,2}', 2, 'bfloat16'), stride => '{1,1,3}', padding => '{2,0,0}')$$),
	($$conv2d(r('{2,8,6,1}', 1, 'bfloat16'), r('{3,8,2,1}', 2, 'bfloat16'), stride => '{3,2}', padding => '{1,1}', dilation => '{2,2}')$$),
	($$conv2d(r('{2,1,11,3}', 1), r('{8,1,2,2}', 2), stride => '{1,3}', dilation => '{2,1}')$$),
	($$conv3d_backward_weight(r('{2,16,2,7,5}', 1, 'bfloat16'), r('{2,64,1,8,5}', 2, 'bfloat16'), '{16,64,3,2,1}', padding => '{2,1,0,1,0,0}', dilation => '{1,2,2}')$$)
) AS v(expression);
DROP FUNCTION as_reference;
RESET cudnn_ops.provider;

-- Too big for a bytea, or for any memory.
\set VERBOSITY sqlstate
SELECT conv2d(tensor_full('{1,1,2,2}', 1), tensor_full('{1,1,1,1}', 1), padding => '{20000}');
SELECT conv2d(tensor_full('{1,1,2,2}', 1), tensor_full('{1,1,1,1}', 1), padding => '{2147483647}');
SELECT conv_transpose2d(tensor_full('{1,1,2,2}', 1), tensor_full('{1,1,1,1}', 1), stride => '{2147483647}');
SELECT conv2d(tensor_full('{1,1,2,2}', 1), tensor_full('{1,1,1,1}', 1), stride => '{2147483647}', padding => '{2147483647}');
SELECT conv2d(tensor_full('{1,1,2,2}', 1), tensor_full('{1,1,2,2}', 1), stride => '{2147483647}', padding => '{2147483647}', dilation => '{2147483647}');
SELECT conv_transpose2d(tensor_full('{1,1,2,2}', 1), tensor_full('{1,1,2,2}', 1), dilation => '{2147483647}');
SELECT tensor_shape(conv2d(tensor_full('{1,1,2,2}', 1), tensor_full('{1,1,2,2}', 1), stride => '{2147483647}'));
\set VERBOSITY default

-- Nothing is left behind.
SELECT live_tensors, device_bytes FROM cudnn_ops_memory();
DROP VIEW image;

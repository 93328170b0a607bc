/* cudnn_ops--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION cudnn_ops" to load this file. \quit

-- Format

CREATE FUNCTION tensor_is_valid(value bytea)
RETURNS boolean
AS 'MODULE_PATHNAME', 'tensor_is_valid'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION tensor_is_valid(bytea) IS
'is the value a tensor, one NumPy .npy file? Reads no more than its header';

CREATE DOMAIN tensor AS bytea CHECK (tensor_is_valid(VALUE));
COMMENT ON DOMAIN tensor IS
'a tensor: one NumPy .npy file, self-describing';

-- Make

CREATE FUNCTION tensor(data anyarray, shape int[] DEFAULT NULL, dtype text DEFAULT NULL)
RETURNS bytea
AS 'MODULE_PATHNAME', 'tensor_from_array'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION tensor(anyarray, int[], text) IS
'tensor of the elements of an array, in its shape unless given (one size may be -1); real and numeric give float32, double precision float64, integers and boolean their own type unless dtype says otherwise';

CREATE FUNCTION tensor(raw bytea, shape int[], dtype text)
RETURNS bytea
AS 'MODULE_PATHNAME', 'tensor_from_raw'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION tensor(bytea, int[], text) IS
'tensor of raw little-endian elements in C order';

CREATE FUNCTION tensor_full(shape int[], value float8, dtype text DEFAULT 'float32')
RETURNS bytea
AS 'MODULE_PATHNAME', 'tensor_full'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION tensor_full(int[], float8, text) IS
'tensor of one value';

CREATE FUNCTION tensor_random(shape int[], seed bigint, dtype text DEFAULT 'float32')
RETURNS bytea
AS 'MODULE_PATHNAME', 'tensor_random'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION tensor_random(int[], bigint, text) IS
'tensor of random values, uniform in [-1, 1): the same bytes for the same seed everywhere';

-- Read

CREATE FUNCTION tensor_shape(input bytea)
RETURNS int[]
AS 'MODULE_PATHNAME', 'tensor_shape'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION tensor_shape(bytea) IS
'sizes of the axes, outermost first';

CREATE FUNCTION tensor_dtype(input bytea)
RETURNS text
AS 'MODULE_PATHNAME', 'tensor_dtype'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION tensor_dtype(bytea) IS
'type of the elements: float32, float64, float16, bfloat16, uint8, int8, int32, int64 or bool';

CREATE FUNCTION tensor_rank(input bytea)
RETURNS int
AS 'MODULE_PATHNAME', 'tensor_rank'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION tensor_rank(bytea) IS
'number of axes';

CREATE FUNCTION tensor_numel(input bytea)
RETURNS bigint
AS 'MODULE_PATHNAME', 'tensor_numel'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION tensor_numel(bytea) IS
'number of elements';

CREATE FUNCTION tensor_to_real(input bytea)
RETURNS real[]
AS 'MODULE_PATHNAME', 'tensor_to_real'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION tensor_to_real(bytea) IS
'the elements as an array in the shape of the tensor, 6 axes at most';

CREATE FUNCTION tensor_to_float8(input bytea)
RETURNS float8[]
AS 'MODULE_PATHNAME', 'tensor_to_float8'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION tensor_to_float8(bytea) IS
'the elements as an array in the shape of the tensor, 6 axes at most';

CREATE FUNCTION tensor_item(input bytea)
RETURNS float8
AS 'MODULE_PATHNAME', 'tensor_item'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION tensor_item(bytea) IS
'the one element of a tensor that has one';

CREATE FUNCTION tensor_raw(input bytea)
RETURNS bytea
AS 'MODULE_PATHNAME', 'tensor_raw'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION tensor_raw(bytea) IS
'the elements as bytes, little-endian, in C order';

CREATE FUNCTION tensor_text(input bytea)
RETURNS text
AS 'MODULE_PATHNAME', 'tensor_text'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION tensor_text(bytea) IS
'the tensor as NumPy prints it, long axes abridged';

CREATE FUNCTION tensor_allclose(a bytea, b bytea, rtol float8 DEFAULT 1e-5, atol float8 DEFAULT 1e-8)
RETURNS boolean
AS 'MODULE_PATHNAME', 'tensor_allclose'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION tensor_allclose(bytea, bytea, float8, float8) IS
'is |a - b| <= atol + rtol * |b| for every element?';

CREATE FUNCTION tensor_max_abs_diff(a bytea, b bytea)
RETURNS float8
AS 'MODULE_PATHNAME', 'tensor_max_abs_diff'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION tensor_max_abs_diff(bytea, bytea) IS
'largest |a - b| of two tensors of one shape';

-- Shape

CREATE FUNCTION tensor_reshape(input bytea, shape int[])
RETURNS bytea
AS 'MODULE_PATHNAME', 'tensor_reshape'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION tensor_reshape(bytea, int[]) IS
'the same elements in another shape; one size may be -1';

CREATE FUNCTION tensor_cast(input bytea, dtype text, scale float8 DEFAULT 1, shift float8 DEFAULT 0)
RETURNS bytea
AS 'MODULE_PATHNAME', 'tensor_cast'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION tensor_cast(bytea, text, float8, float8) IS
'input * scale + shift in another type: nearest in a float, truncated in an integer';

-- Device

-- STABLE, for the planner would fold a call over constants into a value of bytes.
CREATE FUNCTION tensor_to_device(input bytea)
RETURNS bytea
AS 'MODULE_PATHNAME', 'tensor_to_device'
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION tensor_to_device(bytea) IS
'the same tensor, resident on the device where the provider in force has one: for PL/pgSQL variables';

-- Convolution

CREATE FUNCTION conv1d(input bytea, weight bytea, bias bytea DEFAULT NULL,
    stride int[] DEFAULT '{1}', padding int[] DEFAULT '{0}', dilation int[] DEFAULT '{1}',
    groups int DEFAULT 1)
RETURNS bytea
AS 'MODULE_PATHNAME', 'conv1d'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION conv1d(bytea, bytea, bytea, int[], int[], int[], int) IS
'1-d convolution (cross-correlation): input (N, C, L), weight (O, C / groups, kernel), bias (O) -> (N, O, L); padding has 1 or 2 elements, begins before ends';

CREATE FUNCTION conv_transpose1d(input bytea, weight bytea, bias bytea DEFAULT NULL,
    stride int[] DEFAULT '{1}', padding int[] DEFAULT '{0}', output_padding int[] DEFAULT '{0}',
    groups int DEFAULT 1, dilation int[] DEFAULT '{1}')
RETURNS bytea
AS 'MODULE_PATHNAME', 'conv_transpose1d'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION conv_transpose1d(bytea, bytea, bytea, int[], int[], int[], int, int[]) IS
'1-d transposed convolution: input (N, I, L), weight (I, O / groups, kernel), bias (O) -> (N, O, L)';

CREATE FUNCTION conv1d_backward_input(grad_output bytea, weight bytea, input_shape int[],
    stride int[] DEFAULT '{1}', padding int[] DEFAULT '{0}', dilation int[] DEFAULT '{1}',
    groups int DEFAULT 1)
RETURNS bytea
AS 'MODULE_PATHNAME', 'conv1d_backward_input'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION conv1d_backward_input(bytea, bytea, int[], int[], int[], int[], int) IS
'gradient of conv1d by its input, of shape input_shape';

CREATE FUNCTION conv1d_backward_weight(grad_output bytea, input bytea, weight_shape int[],
    stride int[] DEFAULT '{1}', padding int[] DEFAULT '{0}', dilation int[] DEFAULT '{1}',
    groups int DEFAULT 1)
RETURNS bytea
AS 'MODULE_PATHNAME', 'conv1d_backward_weight'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION conv1d_backward_weight(bytea, bytea, int[], int[], int[], int[], int) IS
'gradient of conv1d by its weight, of shape weight_shape';

CREATE FUNCTION conv2d(input bytea, weight bytea, bias bytea DEFAULT NULL,
    stride int[] DEFAULT '{1}', padding int[] DEFAULT '{0}', dilation int[] DEFAULT '{1}',
    groups int DEFAULT 1)
RETURNS bytea
AS 'MODULE_PATHNAME', 'conv2d'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION conv2d(bytea, bytea, bytea, int[], int[], int[], int) IS
'2-d convolution (cross-correlation): input (N, C, H, W), weight (O, C / groups, kernel), bias (O) -> (N, O, H, W); padding has 1, 2 or 4 elements, begins before ends';

CREATE FUNCTION conv_transpose2d(input bytea, weight bytea, bias bytea DEFAULT NULL,
    stride int[] DEFAULT '{1}', padding int[] DEFAULT '{0}', output_padding int[] DEFAULT '{0}',
    groups int DEFAULT 1, dilation int[] DEFAULT '{1}')
RETURNS bytea
AS 'MODULE_PATHNAME', 'conv_transpose2d'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION conv_transpose2d(bytea, bytea, bytea, int[], int[], int[], int, int[]) IS
'2-d transposed convolution: input (N, I, H, W), weight (I, O / groups, kernel), bias (O) -> (N, O, H, W)';

CREATE FUNCTION conv2d_backward_input(grad_output bytea, weight bytea, input_shape int[],
    stride int[] DEFAULT '{1}', padding int[] DEFAULT '{0}', dilation int[] DEFAULT '{1}',
    groups int DEFAULT 1)
RETURNS bytea
AS 'MODULE_PATHNAME', 'conv2d_backward_input'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION conv2d_backward_input(bytea, bytea, int[], int[], int[], int[], int) IS
'gradient of conv2d by its input, of shape input_shape';

CREATE FUNCTION conv2d_backward_weight(grad_output bytea, input bytea, weight_shape int[],
    stride int[] DEFAULT '{1}', padding int[] DEFAULT '{0}', dilation int[] DEFAULT '{1}',
    groups int DEFAULT 1)
RETURNS bytea
AS 'MODULE_PATHNAME', 'conv2d_backward_weight'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION conv2d_backward_weight(bytea, bytea, int[], int[], int[], int[], int) IS
'gradient of conv2d by its weight, of shape weight_shape';

CREATE FUNCTION conv3d(input bytea, weight bytea, bias bytea DEFAULT NULL,
    stride int[] DEFAULT '{1}', padding int[] DEFAULT '{0}', dilation int[] DEFAULT '{1}',
    groups int DEFAULT 1)
RETURNS bytea
AS 'MODULE_PATHNAME', 'conv3d'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION conv3d(bytea, bytea, bytea, int[], int[], int[], int) IS
'3-d convolution (cross-correlation): input (N, C, D, H, W), weight (O, C / groups, kernel), bias (O) -> (N, O, D, H, W); padding has 1, 3 or 6 elements, begins before ends';

CREATE FUNCTION conv_transpose3d(input bytea, weight bytea, bias bytea DEFAULT NULL,
    stride int[] DEFAULT '{1}', padding int[] DEFAULT '{0}', output_padding int[] DEFAULT '{0}',
    groups int DEFAULT 1, dilation int[] DEFAULT '{1}')
RETURNS bytea
AS 'MODULE_PATHNAME', 'conv_transpose3d'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION conv_transpose3d(bytea, bytea, bytea, int[], int[], int[], int, int[]) IS
'3-d transposed convolution: input (N, I, D, H, W), weight (I, O / groups, kernel), bias (O) -> (N, O, D, H, W)';

CREATE FUNCTION conv3d_backward_input(grad_output bytea, weight bytea, input_shape int[],
    stride int[] DEFAULT '{1}', padding int[] DEFAULT '{0}', dilation int[] DEFAULT '{1}',
    groups int DEFAULT 1)
RETURNS bytea
AS 'MODULE_PATHNAME', 'conv3d_backward_input'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION conv3d_backward_input(bytea, bytea, int[], int[], int[], int[], int) IS
'gradient of conv3d by its input, of shape input_shape';

CREATE FUNCTION conv3d_backward_weight(grad_output bytea, input bytea, weight_shape int[],
    stride int[] DEFAULT '{1}', padding int[] DEFAULT '{0}', dilation int[] DEFAULT '{1}',
    groups int DEFAULT 1)
RETURNS bytea
AS 'MODULE_PATHNAME', 'conv3d_backward_weight'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION conv3d_backward_weight(bytea, bytea, int[], int[], int[], int[], int) IS
'gradient of conv3d by its weight, of shape weight_shape';

CREATE FUNCTION conv_backward_bias(grad_output bytea)
RETURNS bytea
AS 'MODULE_PATHNAME', 'conv_backward_bias'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION conv_backward_bias(bytea) IS
'gradient of a convolution by its bias: (N, O, spatial axes) -> (O), the sum over all other axes';

-- Pooling

CREATE FUNCTION max_pool1d(input bytea, kernel_size int[], stride int[] DEFAULT NULL,
    padding int[] DEFAULT '{0}', dilation int[] DEFAULT '{1}', ceil_mode boolean DEFAULT false)
RETURNS bytea
AS 'MODULE_PATHNAME', 'max_pool1d'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION max_pool1d(bytea, int[], int[], int[], int[], boolean) IS
'1-d max pooling: (N, C, L) -> (N, C, L); stride is kernel_size unless given; padding never wins, NaN propagates';

CREATE FUNCTION avg_pool1d(input bytea, kernel_size int[], stride int[] DEFAULT NULL,
    padding int[] DEFAULT '{0}', ceil_mode boolean DEFAULT false,
    count_include_pad boolean DEFAULT true)
RETURNS bytea
AS 'MODULE_PATHNAME', 'avg_pool1d'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION avg_pool1d(bytea, int[], int[], int[], boolean, boolean) IS
'1-d average pooling: (N, C, L) -> (N, C, L); stride is kernel_size unless given';

CREATE FUNCTION max_pool1d_backward(grad_output bytea, input bytea, output bytea,
    kernel_size int[], stride int[] DEFAULT NULL, padding int[] DEFAULT '{0}',
    dilation int[] DEFAULT '{1}', ceil_mode boolean DEFAULT false)
RETURNS bytea
AS 'MODULE_PATHNAME', 'max_pool1d_backward'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION max_pool1d_backward(bytea, bytea, bytea, int[], int[], int[], int[], boolean) IS
'gradient of max_pool1d by its input: the first maximum of a window takes it';

CREATE FUNCTION avg_pool1d_backward(grad_output bytea, input_shape int[], kernel_size int[],
    stride int[] DEFAULT NULL, padding int[] DEFAULT '{0}', ceil_mode boolean DEFAULT false,
    count_include_pad boolean DEFAULT true)
RETURNS bytea
AS 'MODULE_PATHNAME', 'avg_pool1d_backward'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION avg_pool1d_backward(bytea, int[], int[], int[], int[], boolean, boolean) IS
'gradient of avg_pool1d by its input, of shape input_shape';

CREATE FUNCTION max_pool2d(input bytea, kernel_size int[], stride int[] DEFAULT NULL,
    padding int[] DEFAULT '{0}', dilation int[] DEFAULT '{1}', ceil_mode boolean DEFAULT false)
RETURNS bytea
AS 'MODULE_PATHNAME', 'max_pool2d'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION max_pool2d(bytea, int[], int[], int[], int[], boolean) IS
'2-d max pooling: (N, C, H, W) -> (N, C, H, W); stride is kernel_size unless given; padding never wins, NaN propagates';

CREATE FUNCTION avg_pool2d(input bytea, kernel_size int[], stride int[] DEFAULT NULL,
    padding int[] DEFAULT '{0}', ceil_mode boolean DEFAULT false,
    count_include_pad boolean DEFAULT true)
RETURNS bytea
AS 'MODULE_PATHNAME', 'avg_pool2d'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION avg_pool2d(bytea, int[], int[], int[], boolean, boolean) IS
'2-d average pooling: (N, C, H, W) -> (N, C, H, W); stride is kernel_size unless given';

CREATE FUNCTION max_pool2d_backward(grad_output bytea, input bytea, output bytea,
    kernel_size int[], stride int[] DEFAULT NULL, padding int[] DEFAULT '{0}',
    dilation int[] DEFAULT '{1}', ceil_mode boolean DEFAULT false)
RETURNS bytea
AS 'MODULE_PATHNAME', 'max_pool2d_backward'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION max_pool2d_backward(bytea, bytea, bytea, int[], int[], int[], int[], boolean) IS
'gradient of max_pool2d by its input: the first maximum of a window takes it';

CREATE FUNCTION avg_pool2d_backward(grad_output bytea, input_shape int[], kernel_size int[],
    stride int[] DEFAULT NULL, padding int[] DEFAULT '{0}', ceil_mode boolean DEFAULT false,
    count_include_pad boolean DEFAULT true)
RETURNS bytea
AS 'MODULE_PATHNAME', 'avg_pool2d_backward'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION avg_pool2d_backward(bytea, int[], int[], int[], int[], boolean, boolean) IS
'gradient of avg_pool2d by its input, of shape input_shape';

CREATE FUNCTION max_pool3d(input bytea, kernel_size int[], stride int[] DEFAULT NULL,
    padding int[] DEFAULT '{0}', dilation int[] DEFAULT '{1}', ceil_mode boolean DEFAULT false)
RETURNS bytea
AS 'MODULE_PATHNAME', 'max_pool3d'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION max_pool3d(bytea, int[], int[], int[], int[], boolean) IS
'3-d max pooling: (N, C, D, H, W) -> (N, C, D, H, W); stride is kernel_size unless given; padding never wins, NaN propagates';

CREATE FUNCTION avg_pool3d(input bytea, kernel_size int[], stride int[] DEFAULT NULL,
    padding int[] DEFAULT '{0}', ceil_mode boolean DEFAULT false,
    count_include_pad boolean DEFAULT true)
RETURNS bytea
AS 'MODULE_PATHNAME', 'avg_pool3d'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION avg_pool3d(bytea, int[], int[], int[], boolean, boolean) IS
'3-d average pooling: (N, C, D, H, W) -> (N, C, D, H, W); stride is kernel_size unless given';

CREATE FUNCTION max_pool3d_backward(grad_output bytea, input bytea, output bytea,
    kernel_size int[], stride int[] DEFAULT NULL, padding int[] DEFAULT '{0}',
    dilation int[] DEFAULT '{1}', ceil_mode boolean DEFAULT false)
RETURNS bytea
AS 'MODULE_PATHNAME', 'max_pool3d_backward'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION max_pool3d_backward(bytea, bytea, bytea, int[], int[], int[], int[], boolean) IS
'gradient of max_pool3d by its input: the first maximum of a window takes it';

CREATE FUNCTION avg_pool3d_backward(grad_output bytea, input_shape int[], kernel_size int[],
    stride int[] DEFAULT NULL, padding int[] DEFAULT '{0}', ceil_mode boolean DEFAULT false,
    count_include_pad boolean DEFAULT true)
RETURNS bytea
AS 'MODULE_PATHNAME', 'avg_pool3d_backward'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION avg_pool3d_backward(bytea, int[], int[], int[], int[], boolean, boolean) IS
'gradient of avg_pool3d by its input, of shape input_shape';

CREATE FUNCTION global_avg_pool(input bytea)
RETURNS bytea
AS 'MODULE_PATHNAME', 'global_avg_pool'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION global_avg_pool(bytea) IS
'mean over all spatial axes: (N, C, spatial axes) -> (N, C, 1..)';

CREATE FUNCTION global_max_pool(input bytea)
RETURNS bytea
AS 'MODULE_PATHNAME', 'global_max_pool'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION global_max_pool(bytea) IS
'maximum over all spatial axes: (N, C, spatial axes) -> (N, C, 1..)';

-- Batch normalization

CREATE FUNCTION batch_norm(input bytea, running_mean bytea, running_var bytea,
    weight bytea DEFAULT NULL, bias bytea DEFAULT NULL, eps float8 DEFAULT 1e-5)
RETURNS bytea
AS 'MODULE_PATHNAME', 'batch_norm'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION batch_norm(bytea, bytea, bytea, bytea, bytea, float8) IS
'batch normalization with given statistics: (input - running_mean) / sqrt(running_var + eps) * weight + bias; parameters of shape (C) or (1, C, 1..) are per channel, (C, spatial axes) per activation';

CREATE FUNCTION batch_norm_train(input bytea, weight bytea DEFAULT NULL, bias bytea DEFAULT NULL,
    running_mean bytea DEFAULT NULL, running_var bytea DEFAULT NULL, momentum float8 DEFAULT 0.1,
    eps float8 DEFAULT 1e-5, OUT output bytea, OUT save_mean bytea, OUT save_invstd bytea,
    OUT running_mean bytea, OUT running_var bytea)
AS 'MODULE_PATHNAME', 'batch_norm_train'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION batch_norm_train(bytea, bytea, bytea, bytea, bytea, float8, float8) IS
'batch normalization with the statistics of the batch, which it returns with the new running statistics (unbiased variance)';

CREATE FUNCTION batch_norm_backward(grad_output bytea, input bytea, weight bytea, save_mean bytea,
    save_invstd bytea, OUT grad_input bytea, OUT grad_weight bytea, OUT grad_bias bytea)
AS 'MODULE_PATHNAME', 'batch_norm_backward'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION batch_norm_backward(bytea, bytea, bytea, bytea, bytea) IS
'gradients of batch_norm_train by its input, weight and bias; weight may be NULL';

-- Activation

CREATE FUNCTION relu(input bytea)
RETURNS bytea
AS 'MODULE_PATHNAME', 'relu'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION relu(bytea) IS
'max(input, 0), elementwise; NaN stays';

-- Administration

CREATE FUNCTION cudnn_ops_version()
RETURNS text
AS 'MODULE_PATHNAME', 'cudnn_ops_version'
LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION cudnn_ops_version() IS
'version of this extension';

CREATE FUNCTION cudnn_ops_providers(OUT name text, OUT available boolean, OUT version text,
    OUT device text, OUT reason text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'cudnn_ops_providers'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 3;
COMMENT ON FUNCTION cudnn_ops_providers() IS
'libraries that compute, in the order that auto prefers them; reason says why one is not available';

CREATE FUNCTION cudnn_ops_devices(OUT device int, OUT name text, OUT compute_capability text,
    OUT total_bytes bigint, OUT free_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'cudnn_ops_devices'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 4;
COMMENT ON FUNCTION cudnn_ops_devices() IS
'GPUs that this server can use; free_bytes is NULL where only a context on the device could tell';

CREATE FUNCTION cudnn_ops_stats(OUT op text, OUT provider text, OUT calls bigint,
    OUT total_ms float8, OUT bytes_to_device bigint, OUT bytes_to_host bigint,
    OUT plan_hits bigint, OUT plan_misses bigint, OUT fallbacks bigint,
    OUT last_fallback_reason text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'cudnn_ops_stats'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 10;
COMMENT ON FUNCTION cudnn_ops_stats() IS
'what this session computed, by operation and provider; total_ms is host time in milliseconds';

CREATE FUNCTION cudnn_ops_stats_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'cudnn_ops_stats_reset'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION cudnn_ops_stats_reset() IS
'zeroes cudnn_ops_stats()';

CREATE FUNCTION cudnn_ops_memory(OUT live_tensors bigint, OUT device_bytes bigint,
    OUT pinned_bytes bigint, OUT workspace_bytes bigint, OUT cached_plans bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'cudnn_ops_memory'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION cudnn_ops_memory() IS
'what this session holds: tensors on the device, bytes there, pinned host bytes, scratch memory, prepared operations';

CREATE FUNCTION cudnn_ops_release()
RETURNS void
AS 'MODULE_PATHNAME', 'cudnn_ops_release'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION cudnn_ops_release() IS
'gives back scratch memory, pooled device memory and prepared operations; tensors in use stay';

CREATE FUNCTION cudnn_ops_selftest(op text DEFAULT NULL, n int DEFAULT 100, seed bigint DEFAULT 1,
    OUT op text, OUT dtype text, OUT provider text, OUT problems bigint, OUT worst_error float8,
    OUT passed boolean, OUT reproducer text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'cudnn_ops_selftest'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 60;
COMMENT ON FUNCTION cudnn_ops_selftest(text, int, bigint) IS
'runs n random problems of each operation (or of one) and type on the provider in force and compares them with float64 on the reference provider; reproducer is the SQL of the worst one';

/*
 * Convolution and its gradients, through the graph API. All three relate the
 * same tensors: image (N, C, i..), filter (O, C/g, k..) and response (N, O, o..);
 * one of them is the result.
 */
#include "postgres.h"

#include "kernels.h"
#include "mem.h"
#include "plan.h"

/* In the graphs below. */
enum
{
	UID_IMAGE = 1,
	UID_FILTER,
	UID_RESPONSE,
	UID_BIAS,
	UID_SUM						/* the result before its bias */
};

/* How the graph API names what the three have in common. */
typedef struct ConvNames
{
	cudnnBackendDescriptorType_t operation;
	cudnnBackendAttributeName_t conv;
	cudnnBackendAttributeName_t alpha;
	cudnnBackendAttributeName_t beta;
	cudnnBackendAttributeName_t image;
	cudnnBackendAttributeName_t filter;
	cudnnBackendAttributeName_t response;
} ConvNames;

static const ConvNames conv_names[] = {
	[OP_CONV] = {
		CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
		CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
	},
	[OP_CONV_BACKWARD_INPUT] = {
		CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
	},
	[OP_CONV_BACKWARD_WEIGHT] = {
		CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
		CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
	},
};

static bool
is_asymmetric(const Window *window)
{
	return memcmp(window->pad_begin, window->pad_end, sizeof(window->pad_begin)) != 0;
}

static Descriptor
conv_window(Graph *graph, const Window *window, DType compute)
{
	Descriptor	conv = graph_new(graph, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
	cudnnDataType_t type = nv_type(compute);
	cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
	int64		nd = window->nd;

	descriptor_set(conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &nd);
	descriptor_set(conv, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
	descriptor_set(conv, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
	descriptor_set(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, nd, window->pad_begin);
	descriptor_set(conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, nd, window->pad_end);
	descriptor_set(conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, nd, window->stride);
	descriptor_set(conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, nd, window->dilation);
	descriptor_finish(conv);
	return conv;
}

/*
 * The convolution that a key asks for, and the bias (1, O, 1..) added to the
 * response where there is one. Groups follow from the filter's channels.
 */
static void
conv_graph(Graph *graph, const PlanKey *key)
{
	const ConvNames *names = &conv_names[key->op];
	DType		compute = nv_scalar_dtype(key->dtype);
	TensorLayout layout = key->layout;
	int			rank = key->params.window.nd + 2;
	cudnnBackendAttributeType_t scalar = compute == DT_FLOAT64 ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
	Descriptor	conv = conv_window(graph, &key->params.window, compute);
	Descriptor	image = graph_tensor(graph, UID_IMAGE, key->dtype, layout, rank, key->image, false);
	Descriptor	filter = graph_tensor(graph, UID_FILTER, key->dtype, layout, rank, key->filter, false);
	Descriptor	response = graph_tensor(graph, UID_RESPONSE, key->dtype, layout, rank, key->response, false);
	Descriptor	sum = key->with_bias ?
		graph_tensor(graph, UID_SUM, compute, layout, rank, key->response, true) : response;
	Descriptor	operation = graph_new(graph, names->operation);

	descriptor_set(operation, names->conv, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &conv);
	descriptor_set(operation, names->image, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &image);
	descriptor_set(operation, names->filter, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &filter);
	descriptor_set(operation, names->response, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &sum);
	descriptor_set(operation, names->alpha, scalar, 1, nv_one(compute));
	descriptor_set(operation, names->beta, scalar, 1, &nv_zero);
	graph_operation(graph, operation);

	if (key->with_bias)
	{
		int64		bias_dims[PLAN_MAX_AXES] = {1, key->response[1], 1, 1, 1};
		Descriptor	bias = graph_tensor(graph, UID_BIAS, key->dtype, layout, rank, bias_dims, false);

		graph_add(graph, compute, sum, bias, response);
	}
}

/* Plans and runs the task's operation on these tensors; no bias where NULL. */
static bool
conv_run(OpTask *task, const ConvParams *params, const TensorView *image, const TensorView *filter,
		 const TensorView *response, void *bias)
{
	PlanTensors tensors = {
		.count = bias != NULL ? 4 : 3,
		.uid = {UID_IMAGE, UID_FILTER, UID_RESPONSE, UID_BIAS},
		.ptr = {image->data, filter->data, response->data, bias},
	};
	PlanKey		key;
	Size		dims_size = image->shape.rank * sizeof(int64);

	memset(&key, 0, sizeof(key));
	key.params = *params;
	memcpy(key.image, image->shape.dims, dims_size);
	memcpy(key.filter, filter->shape.dims, dims_size);
	memcpy(key.response, response->shape.dims, dims_size);
	key.op = task->id;
	key.dtype = image->dtype;
	key.layout = task->layout;
	key.with_bias = bias != NULL;
	return plan_run(&key, conv_graph, &tensors);
}

/*
 * Tensor cores want channels last: in C order cuDNN brings its operands into that
 * layout and back in every call. Without them C order is the faster one, and so it
 * is for images of one channel. The numbers are in test/bench/README.md.
 */
TensorLayout
nv_conv_layout(const OpTask *task)
{
	const ConvParams *params = task->params;
	const TensorShape *image = task->id == OP_CONV ? &task->in[0].shape :
		task->id == OP_CONV_BACKWARD_INPUT ? &task->out[0].shape : &task->in[1].shape;

	return nv_uses_tensor_cores(task->in[0].dtype) && params->groups == 1 && image->dims[1] > 1 &&
		!(task->id == OP_CONV_BACKWARD_WEIGHT && is_asymmetric(&params->window)) ?
		LAYOUT_CHANNELS_LAST : LAYOUT_C_ORDER;
}

/* x (N,C,i..), w (O,C/g,k..), [b (O)] -> y (N,O,o..) */
OpOutcome
nv_conv(OpTask *task)
{
	OpOutcome	outcome = nv_begin(task);

	if (outcome != OP_DONE)
		return outcome;
	return nv_end(task, conv_run(task, task->params, &task->in[0], &task->in[1], &task->out[0], task->in[2].data));
}

/* x (N,C,i..) += bias (C); for the gradient, where cuDNN has no graph with one. */
static bool
add_bias(TensorLayout layout, const TensorView *x, const TensorView *bias)
{
	int			rank = Max(x->shape.rank, 4);
	int			x_dims[PLAN_MAX_AXES] = {1, 1, 1, 1, 1};
	int			bias_dims[PLAN_MAX_AXES] = {1, x->shape.dims[1], 1, 1, 1};

	for (int i = 0; i < x->shape.rank; i++)
		x_dims[i] = x->shape.dims[i];
	return nv_tensor(0, x->dtype, layout, rank, x_dims) &&
		nv_tensor(1, x->dtype, layout, rank, bias_dims) &&
		NV_DNN(cudnnAddTensor(nv.handle, nv_one(x->dtype), nv.tensor[1], bias->data,
							  nv_one(x->dtype), nv.tensor[0], x->data));
}

/* dy (N,O,o..), w (O,C/g,k..), [b (C)] -> dx (N,C,i..) */
OpOutcome
nv_conv_backward_input(OpTask *task)
{
	const TensorView *bias = &task->in[2];
	OpOutcome	outcome = nv_begin(task);

	if (outcome != OP_DONE)
		return outcome;
	return nv_end(task, conv_run(task, task->params, &task->out[0], &task->in[1], &task->in[0], NULL) &&
				  (bias->data == NULL || add_bias(task->layout, &task->out[0], bias)));
}

/*
 * Where padding is asymmetric: the image, in C order, becomes a copy of it in
 * scratch memory with zeros around it, and the padding nothing. Some engines for
 * the gradient of the weight take the padding at the begin for that at the end:
 * seen in cuDNN 9.19, in all types.
 */
static bool
pad_image(Window *window, TensorView *image)
{
	int			rank = Max(image->shape.rank, 4);
	int			dims[PLAN_MAX_AXES] = {1, 1, 1, 1, 1};
	int			from[PLAN_MAX_AXES] = {1, 1, 1, 1, 1};
	int			to[PLAN_MAX_AXES] = {1, 1, 1, 1, 1};
	TensorView	padded = *image;
	Size		offset = 0,
				size = dtype_size(image->dtype);
	int64		step = 1;

	if (!is_asymmetric(window))
		return true;
	for (int i = image->shape.rank - 1; i >= 0; i--)
	{
		int64		begin = i < 2 ? 0 : window->pad_begin[i - 2];

		dims[i] = image->shape.dims[i];
		from[i] = i == image->shape.rank - 1 ? 1 : from[i + 1] * dims[i + 1];
		to[i] = step;
		offset += begin * step * dtype_size(image->dtype);
		if (i >= 2)
			padded.shape.dims[i] += begin + window->pad_end[i - 2];
		step *= padded.shape.dims[i];
	}
	size *= step;
	if (step > NV_MAX_ELEMENTS)
		return nv_fault(OP_CANNOT, "the padded input has more than %d elements", NV_MAX_ELEMENTS);
	padded.data = mem_scratch(size);
	if (padded.data == NULL ||
		!NV_CUDA(cudaMemsetAsync(padded.data, 0, size, nv.stream)) ||
		!nv_tensor_strided(0, image->dtype, rank, dims, from) ||
		!nv_tensor_strided(1, image->dtype, rank, dims, to) ||
		!NV_DNN(cudnnTransformTensor(nv.handle, nv_one(image->dtype), nv.tensor[0], image->data,
									 &nv_zero, nv.tensor[1], (char *) padded.data + offset)))
		return false;
	memset(window->pad_begin, 0, sizeof(window->pad_begin));
	memset(window->pad_end, 0, sizeof(window->pad_end));
	*image = padded;
	return true;
}

/* dy (N,O,o..), x (N,C,i..) -> dw (O,C/g,k..) */
OpOutcome
nv_conv_backward_weight(OpTask *task)
{
	ConvParams	params = *(const ConvParams *) task->params;
	TensorView	x = task->in[1];
	OpOutcome	outcome = nv_begin(task);

	if (outcome != OP_DONE)
		return outcome;
	return nv_end(task, pad_image(&params.window, &x) &&
				  conv_run(task, &params, &x, &task->out[0], &task->in[0], NULL));
}

/* dy (N,O,S) -> db (O) */
OpOutcome
nv_conv_backward_bias(OpTask *task)
{
	const TensorView *dy = &task->in[0];
	const int64 *dims = dy->shape.dims;
	int			dy_dims[] = {dims[0], dims[1], dims[2], 1};
	int			db_dims[] = {1, dims[1], 1, 1};
	OpOutcome	outcome = nv_begin(task);

	if (outcome != OP_DONE)
		return outcome;
	return nv_end(task,
				  nv_tensor(0, dy->dtype, LAYOUT_C_ORDER, lengthof(dy_dims), dy_dims) &&
				  nv_tensor(1, dy->dtype, LAYOUT_C_ORDER, lengthof(db_dims), db_dims) &&
				  NV_DNN(cudnnConvolutionBackwardBias(nv.handle, nv_one(dy->dtype), nv.tensor[0], dy->data,
													  &nv_zero, nv.tensor[1], task->out[0].data)));
}

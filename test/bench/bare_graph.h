/*
 * What bare_conv.c and bare_layout.c have in common: a convolution, its bias and
 * a relu as one graph of cuDNN, and the plan of it that the extension would take:
 * the first of the heuristic's that is deterministic, ready to run and of the
 * numerics asked for.
 */
#ifndef BARE_GRAPH_H
#define BARE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime_api.h>
#include <cudnn.h>

#define MAX_CONFIGS 64
#define MAX_WORKSPACE (256 * 1024 * 1024)

#define DNN(call) dnn((call), #call)
#define CUDA(call) cuda((call), #call)
#define SET(d, name, type, n, values) DNN(cudnnBackendSetAttribute((d), CUDNN_ATTR_##name, CUDNN_TYPE_##type, (n), (values)))

typedef cudnnBackendDescriptor_t Descriptor;

/* The tensors of a graph. */
enum
{
	X = 1, W, BIAS, Y, SUM, BIASED
};

/* Of x and the window, from the outermost axis in. */
typedef struct Problem
{
	int64_t		x[4];
	int64_t		w[4];			/* (O, C/g, kh, kw) */
	int64_t		pad[2];
	int64_t		stride[2];
	int64_t		dilation[2];
	cudnnDataType_t type;
	bool		tensor_cores;	/* allowed for float32: TF32 */
	bool		channels_last;
} Problem;

static cudnnHandle_t handle;
static cudaStream_t stream;

static inline void
dnn(cudnnStatus_t status, const char *call)
{
	if (status == CUDNN_STATUS_SUCCESS)
		return;
	fprintf(stderr, "%s: %s\n", call, cudnnGetErrorString(status));
	exit(1);
}

static inline void
cuda(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
	exit(1);
}

static inline double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static inline void
start(void)
{
	DNN(cudnnCreate(&handle));
	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	DNN(cudnnSetStream(handle, stream));
}

/* Descriptors -------------------------------------------------------------- */

static inline Descriptor
new(cudnnBackendDescriptorType_t type)
{
	Descriptor	d;

	DNN(cudnnBackendCreateDescriptor(type, &d));
	return d;
}

static inline Descriptor
tensor(int64_t uid, cudnnDataType_t type, const int64_t n[4], bool channels_last, bool is_virtual)
{
	Descriptor	d = new(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	int64_t		c_order[4] = {n[1] * n[2] * n[3], n[2] * n[3], n[3], 1};
	int64_t		last[4] = {n[1] * n[2] * n[3], 1, n[3] * n[1], n[1]};
	int64_t		alignment = 16;

	SET(d, TENSOR_UNIQUE_ID, INT64, 1, &uid);
	SET(d, TENSOR_DATA_TYPE, DATA_TYPE, 1, &type);
	SET(d, TENSOR_BYTE_ALIGNMENT, INT64, 1, &alignment);
	SET(d, TENSOR_DIMENSIONS, INT64, 4, n);
	SET(d, TENSOR_STRIDES, INT64, 4, channels_last ? last : c_order);
	SET(d, TENSOR_IS_VIRTUAL, BOOLEAN, 1, &is_virtual);
	DNN(cudnnBackendFinalize(d));
	return d;
}

static inline Descriptor
convolution(const Problem *p, Descriptor in, Descriptor filter, Descriptor out)
{
	Descriptor	window = new(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
	Descriptor	d = new(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
	cudnnDataType_t type = CUDNN_DATA_FLOAT;
	cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
	int64_t		axes = 2;
	float		one = 1,
				zero = 0;

	SET(window, CONVOLUTION_SPATIAL_DIMS, INT64, 1, &axes);
	SET(window, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, &type);
	SET(window, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, &mode);
	SET(window, CONVOLUTION_PRE_PADDINGS, INT64, 2, p->pad);
	SET(window, CONVOLUTION_POST_PADDINGS, INT64, 2, p->pad);
	SET(window, CONVOLUTION_FILTER_STRIDES, INT64, 2, p->stride);
	SET(window, CONVOLUTION_DILATIONS, INT64, 2, p->dilation);
	DNN(cudnnBackendFinalize(window));

	SET(d, OPERATION_CONVOLUTION_FORWARD_CONV_DESC, BACKEND_DESCRIPTOR, 1, &window);
	SET(d, OPERATION_CONVOLUTION_FORWARD_X, BACKEND_DESCRIPTOR, 1, &in);
	SET(d, OPERATION_CONVOLUTION_FORWARD_W, BACKEND_DESCRIPTOR, 1, &filter);
	SET(d, OPERATION_CONVOLUTION_FORWARD_Y, BACKEND_DESCRIPTOR, 1, &out);
	SET(d, OPERATION_CONVOLUTION_FORWARD_ALPHA, FLOAT, 1, &one);
	SET(d, OPERATION_CONVOLUTION_FORWARD_BETA, FLOAT, 1, &zero);
	DNN(cudnnBackendFinalize(d));
	return d;
}

/* y of x, or of x and b. */
static inline Descriptor
pointwise(cudnnPointwiseMode_t mode, Descriptor x, Descriptor b, Descriptor y)
{
	Descriptor	operator = new(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
	Descriptor	d = new(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
	cudnnDataType_t type = CUDNN_DATA_FLOAT;

	SET(operator, POINTWISE_MODE, POINTWISE_MODE, 1, &mode);
	SET(operator, POINTWISE_MATH_PREC, DATA_TYPE, 1, &type);
	DNN(cudnnBackendFinalize(operator));

	SET(d, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, 1, &operator);
	SET(d, OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, 1, &x);
	if (b != NULL)
		SET(d, OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR, 1, &b);
	SET(d, OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR, 1, &y);
	DNN(cudnnBackendFinalize(d));
	return d;
}

/* Shape of the result. */
static inline void
result_shape(const Problem *p, int64_t y[4])
{
	y[0] = p->x[0];
	y[1] = p->w[0];
	for (int i = 0; i < 2; i++)
		y[2 + i] = (p->x[2 + i] + 2 * p->pad[i] - p->dilation[i] * (p->w[2 + i] - 1) - 1) / p->stride[i] + 1;
}

/* The convolution alone, with bias, or with bias and relu. */
static inline Descriptor
graph(const Problem *p, bool with_bias, bool with_relu)
{
	Descriptor	d = new(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	bool		last = p->channels_last;
	int64_t		shape[4];
	Descriptor	operations[3];
	Descriptor	y,
				sum,
				biased;
	int			n = 0;

	result_shape(p, shape);
	y = tensor(Y, p->type, shape, last, false);
	biased = with_relu ? tensor(BIASED, CUDNN_DATA_FLOAT, shape, last, true) : y;
	sum = with_bias ? tensor(SUM, CUDNN_DATA_FLOAT, shape, last, true) : biased;
	operations[n++] = convolution(p, tensor(X, p->type, p->x, last, false), tensor(W, p->type, p->w, last, false), sum);
	if (with_bias)
		operations[n++] = pointwise(CUDNN_POINTWISE_ADD, sum,
									tensor(BIAS, p->type, (int64_t[]) {1, shape[1], 1, 1}, last, false), biased);
	if (with_relu)
		operations[n++] = pointwise(CUDNN_POINTWISE_RELU_FWD, biased, NULL, y);
	SET(d, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, n, operations);
	DNN(cudnnBackendFinalize(d));
	return d;
}

/* Plan --------------------------------------------------------------------- */

static inline bool
numerics_allowed(const Problem *p, cudnnBackendNumericalNote_t note)
{
	bool		strict = p->type == CUDNN_DATA_FLOAT && !p->tensor_cores;

	switch (note)
	{
		case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
		case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
		case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
			return false;
		case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
			return true;
		case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
			return !strict;
		default:
			return p->type == CUDNN_DATA_FLOAT && p->tensor_cores;
	}
}

static inline bool
allowed(const Problem *p, Descriptor config)
{
	Descriptor	engine = new(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
	cudnnBackendNumericalNote_t numerical[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
	cudnnBackendBehaviorNote_t behaviour[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
	int64_t		n;

	DNN(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine));
	DNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
								 CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &n, behaviour));
	for (int64_t i = 0; i < n; i++)
		if (behaviour[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)
			return false;
	DNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
								 CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, numerical));
	for (int64_t i = 0; i < n; i++)
		if (!numerics_allowed(p, numerical[i]))
			return false;
	return true;
}

/* The first allowed plan of the heuristic's first `want` configurations, or NULL. */
static inline Descriptor
plan(const Problem *p, Descriptor operations, Descriptor device, cudnnBackendHeurMode_t mode, int want, int64_t *workspace)
{
	Descriptor	heuristic = new(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
	Descriptor	config[MAX_CONFIGS];
	int64_t		got,
				n;

	for (int i = 0; i < want; i++)
		config[i] = new(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
	SET(heuristic, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &operations);
	SET(heuristic, ENGINEHEUR_MODE, HEUR_MODE, 1, &mode);
	SET(heuristic, ENGINEHEUR_DEVICEPROP, BACKEND_DESCRIPTOR, 1, &device);
	DNN(cudnnBackendFinalize(heuristic));
	DNN(cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, want, &got, config));
	for (int i = 0; i < got && i < want; i++)
	{
		Descriptor	d;

		if (!allowed(p, config[i]))
			continue;
		d = new(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
		SET(d, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1, &config[i]);
		if (cudnnBackendFinalize(d) != CUDNN_STATUS_SUCCESS)
			continue;
		DNN(cudnnBackendGetAttribute(d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, workspace));
		if (*workspace <= MAX_WORKSPACE)
			return d;
	}
	return NULL;
}

/* NULL where there is none. */
static inline Descriptor
find_plan(const Problem *p, bool with_bias, bool with_relu, int64_t *workspace)
{
	Descriptor	device = new(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
	Descriptor	operations = graph(p, with_bias, with_relu);
	Descriptor	found;

	SET(device, DEVICEPROP_HANDLE, HANDLE, 1, &handle);
	DNN(cudnnBackendFinalize(device));
	found = plan(p, operations, device, CUDNN_HEUR_MODE_A, 1, workspace);
	if (found == NULL)
		found = plan(p, operations, device, CUDNN_HEUR_MODE_A, MAX_CONFIGS, workspace);
	if (found == NULL)
		found = plan(p, operations, device, CUDNN_HEUR_MODE_FALLBACK, MAX_CONFIGS, workspace);
	return found;
}

/* Where the tensors are, in the order of X, W, Y and, with one, BIAS. */
static inline Descriptor
variant_pack(int count, void *const ptr[], void *workspace)
{
	Descriptor	pack = new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
	const int64_t uid[4] = {X, W, Y, BIAS};

	SET(pack, VARIANT_PACK_UNIQUE_IDS, INT64, count, uid);
	SET(pack, VARIANT_PACK_DATA_POINTERS, VOID_PTR, count, ptr);
	SET(pack, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, &workspace);
	DNN(cudnnBackendFinalize(pack));
	return pack;
}

static inline void *
on_device(size_t size)
{
	void	   *device;

	CUDA(cudaMalloc(&device, size > 0 ? size : 1));
	return device;
}

#endif							/* BARE_GRAPH_H */

/*
 * A small convolution with cuDNN alone, as a C program calls it through the
 * graph API: x (1, 1, 28, 28), w (8, 1, 5, 5), bias (8), strict float32. The
 * weights stay on the device; x goes up and the result comes down in every call,
 * through pinned memory, from and to ordinary memory.
 *
 * With its CUDA context alone it prints its memory in KB, `context RSS ANON`, and
 * waits for a line; after its first call `first MS`, since it began, and `memory
 * RSS ANON`. Then for each number of its input it makes as many calls and prints
 * microseconds a call; for a negative one it chains as many activations and prints
 * those of the host.
 */
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

enum
{
	X = 1, W, BIAS, Y, SUM
};

enum
{
	IMAGE = 28, KERNEL = 5, FILTERS = 8, RESULT = IMAGE - KERNEL + 1,
	NX = IMAGE * IMAGE, NW = FILTERS * KERNEL * KERNEL, NY = FILTERS * RESULT * RESULT
};

static cudnnHandle_t handle;
static cudaStream_t stream;
static float x[NX],
			w[NW],
			bias[FILTERS],
			y[NY];

static void
dnn(cudnnStatus_t status, const char *call)
{
	if (status == CUDNN_STATUS_SUCCESS)
		return;
	fprintf(stderr, "%s: %s\n", call, cudnnGetErrorString(status));
	exit(1);
}

static void
cuda(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
	exit(1);
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* Resident and anonymous KB of this process. */
static void
memory(long kb[2])
{
	FILE	   *file = fopen("/proc/self/status", "r");
	char		line[256];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "VmRSS: %ld", &kb[0]) != 1)
			sscanf(line, "RssAnon: %ld", &kb[1]);
	if (file != NULL)
		fclose(file);
}

/* Descriptors -------------------------------------------------------------- */

static Descriptor
new(cudnnBackendDescriptorType_t type)
{
	Descriptor	d;

	DNN(cudnnBackendCreateDescriptor(type, &d));
	return d;
}

static Descriptor
tensor(int64_t uid, const int64_t dims[4], bool is_virtual)
{
	Descriptor	d = new(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	cudnnDataType_t type = CUDNN_DATA_FLOAT;
	int64_t		strides[4] = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
	int64_t		alignment = 16;

	SET(d, TENSOR_UNIQUE_ID, INT64, 1, &uid);
	SET(d, TENSOR_DATA_TYPE, DATA_TYPE, 1, &type);
	SET(d, TENSOR_BYTE_ALIGNMENT, INT64, 1, &alignment);
	SET(d, TENSOR_DIMENSIONS, INT64, 4, dims);
	SET(d, TENSOR_STRIDES, INT64, 4, strides);
	SET(d, TENSOR_IS_VIRTUAL, BOOLEAN, 1, &is_virtual);
	DNN(cudnnBackendFinalize(d));
	return d;
}

static Descriptor
convolution(Descriptor in, Descriptor filter, Descriptor out)
{
	Descriptor	window = new(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
	Descriptor	d = new(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
	cudnnDataType_t type = CUDNN_DATA_FLOAT;
	cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
	int64_t		axes = 2,
				zeros[2] = {0, 0},
				ones[2] = {1, 1};
	double		one = 1,
				zero = 0;

	SET(window, CONVOLUTION_SPATIAL_DIMS, INT64, 1, &axes);
	SET(window, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, &type);
	SET(window, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, &mode);
	SET(window, CONVOLUTION_PRE_PADDINGS, INT64, 2, zeros);
	SET(window, CONVOLUTION_POST_PADDINGS, INT64, 2, zeros);
	SET(window, CONVOLUTION_FILTER_STRIDES, INT64, 2, ones);
	SET(window, CONVOLUTION_DILATIONS, INT64, 2, ones);
	DNN(cudnnBackendFinalize(window));

	SET(d, OPERATION_CONVOLUTION_FORWARD_CONV_DESC, BACKEND_DESCRIPTOR, 1, &window);
	SET(d, OPERATION_CONVOLUTION_FORWARD_X, BACKEND_DESCRIPTOR, 1, &in);
	SET(d, OPERATION_CONVOLUTION_FORWARD_W, BACKEND_DESCRIPTOR, 1, &filter);
	SET(d, OPERATION_CONVOLUTION_FORWARD_Y, BACKEND_DESCRIPTOR, 1, &out);
	SET(d, OPERATION_CONVOLUTION_FORWARD_ALPHA, DOUBLE, 1, &one);
	SET(d, OPERATION_CONVOLUTION_FORWARD_BETA, DOUBLE, 1, &zero);
	DNN(cudnnBackendFinalize(d));
	return d;
}

static Descriptor
addition(Descriptor a, Descriptor b, Descriptor sum)
{
	Descriptor	add = new(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
	Descriptor	d = new(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
	cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
	cudnnDataType_t type = CUDNN_DATA_FLOAT;

	SET(add, POINTWISE_MODE, POINTWISE_MODE, 1, &mode);
	SET(add, POINTWISE_MATH_PREC, DATA_TYPE, 1, &type);
	DNN(cudnnBackendFinalize(add));

	SET(d, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, 1, &add);
	SET(d, OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, 1, &a);
	SET(d, OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR, 1, &b);
	SET(d, OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR, 1, &sum);
	DNN(cudnnBackendFinalize(d));
	return d;
}

static Descriptor
graph(void)
{
	Descriptor	d = new(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	const int64_t out[4] = {1, FILTERS, RESULT, RESULT};
	Descriptor	sum = tensor(SUM, out, true);
	Descriptor	operations[2] = {
		convolution(tensor(X, (int64_t[]) {1, 1, IMAGE, IMAGE}, false),
					tensor(W, (int64_t[]) {FILTERS, 1, KERNEL, KERNEL}, false), sum),
		addition(sum, tensor(BIAS, (int64_t[]) {1, FILTERS, 1, 1}, false), tensor(Y, out, false)),
	};

	SET(d, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 2, operations);
	DNN(cudnnBackendFinalize(d));
	return d;
}

/* Plan --------------------------------------------------------------------- */

/* Direct sums in float32, the same every time, ready to run. */
static bool
allowed(Descriptor config)
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
		if (numerical[i] != CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP)
			return false;
	return true;
}

/* The first allowed plan of the heuristic's first `want` configurations, or NULL. */
static Descriptor
plan(Descriptor operations, Descriptor device, cudnnBackendHeurMode_t mode, int want, int64_t *workspace)
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

		if (!allowed(config[i]))
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

static Descriptor
find_plan(int64_t *workspace)
{
	Descriptor	device = new(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
	Descriptor	operations = graph();
	Descriptor	found;

	SET(device, DEVICEPROP_HANDLE, HANDLE, 1, &handle);
	DNN(cudnnBackendFinalize(device));
	found = plan(operations, device, CUDNN_HEUR_MODE_A, 1, workspace);
	if (found == NULL)
		found = plan(operations, device, CUDNN_HEUR_MODE_A, MAX_CONFIGS, workspace);
	if (found == NULL)
		found = plan(operations, device, CUDNN_HEUR_MODE_FALLBACK, MAX_CONFIGS, workspace);
	if (found == NULL)
	{
		fprintf(stderr, "no plan\n");
		exit(1);
	}
	return found;
}

/* Running ------------------------------------------------------------------ */

static void *
on_device(const void *host, size_t size)
{
	void	   *device;

	CUDA(cudaMalloc(&device, size > 0 ? size : 1));
	if (host != NULL)
		CUDA(cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice, stream));
	return device;
}

static Descriptor
variant_pack(void *dx, void *dy, int64_t workspace)
{
	Descriptor	pack = new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
	const int64_t uid[4] = {X, W, BIAS, Y};
	void	   *ptr[4] = {dx, on_device(w, sizeof(w)), on_device(bias, sizeof(bias)), dy};
	void	   *scratch = on_device(NULL, workspace);

	SET(pack, VARIANT_PACK_UNIQUE_IDS, INT64, 4, uid);
	SET(pack, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 4, ptr);
	SET(pack, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, &scratch);
	DNN(cudnnBackendFinalize(pack));
	return pack;
}

/*
 * Host microseconds of an activation whose result is allocated and whose input is
 * freed, in the stream's order, before the queue is full.
 */
static double
relu(int calls)
{
	const float one = 1,
				zero = 0;
	cudnnTensorDescriptor_t tensor;
	cudnnActivationDescriptor_t activation;
	void	   *in,
			   *out;
	double		begin,
				us;

	DNN(cudnnCreateTensorDescriptor(&tensor));
	DNN(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, NX));
	DNN(cudnnCreateActivationDescriptor(&activation));
	DNN(cudnnSetActivationDescriptor(activation, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
	CUDA(cudaMallocAsync(&in, sizeof(x), stream));
	CUDA(cudaStreamSynchronize(stream));
	begin = now();
	for (int i = 0; i < calls; i++)
	{
		CUDA(cudaMallocAsync(&out, sizeof(x), stream));
		DNN(cudnnActivationForward(handle, activation, &one, tensor, in, &zero, tensor, out));
		CUDA(cudaFreeAsync(in, stream));
		in = out;
	}
	us = (now() - begin) / calls;
	CUDA(cudaFreeAsync(in, stream));
	CUDA(cudaStreamSynchronize(stream));
	DNN(cudnnDestroyActivationDescriptor(activation));
	DNN(cudnnDestroyTensorDescriptor(tensor));
	return us;
}

int
main(void)
{
	double		begin = now();
	long		kb[2] = {0, 0};
	int64_t		workspace;
	Descriptor	found,
				pack;
	void	   *dx,
			   *dy,
			   *pinned;
	int			calls = 1;

	for (int i = 0; i < NX; i++)
		x[i] = rand() / (float) RAND_MAX - 0.5f;
	for (int i = 0; i < NW; i++)
		w[i] = rand() / (float) RAND_MAX - 0.5f;
	CUDA(cudaFree(NULL));		/* makes the context */
	memory(kb);
	printf("context %ld %ld\n", kb[0], kb[1]);
	fflush(stdout);
	while (getchar() != '\n')
		;
	DNN(cudnnCreate(&handle));
	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	DNN(cudnnSetStream(handle, stream));
	found = find_plan(&workspace);
	dx = on_device(NULL, sizeof(x));
	dy = on_device(NULL, sizeof(y));
	pack = variant_pack(dx, dy, workspace);
	CUDA(cudaMallocHost(&pinned, sizeof(y)));

	for (bool first = true; calls != 0; first = false)
	{
		double		batch = now();

		for (int i = 0; i < calls; i++)
		{
			memcpy(pinned, x, sizeof(x));
			CUDA(cudaMemcpyAsync(dx, pinned, sizeof(x), cudaMemcpyHostToDevice, stream));
			DNN(cudnnBackendExecute(handle, found, pack));
			CUDA(cudaMemcpyAsync(pinned, dy, sizeof(y), cudaMemcpyDeviceToHost, stream));
			CUDA(cudaStreamSynchronize(stream));
			memcpy(y, pinned, sizeof(y));
		}
		if (first)
		{
			memory(kb);
			printf("first %.1f\nmemory %ld %ld\n", (now() - begin) / 1e3, kb[0], kb[1]);
		}
		else
			printf("%.3f\n", calls > 0 ? (now() - batch) / calls : relu(-calls));
		fflush(stdout);
		if (scanf("%d", &calls) != 1)
			break;
	}
	return 0;
}

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
#include "bare_graph.h"

enum
{
	IMAGE = 28, KERNEL = 5, FILTERS = 8, RESULT = IMAGE - KERNEL + 1,
	NX = IMAGE * IMAGE, NW = FILTERS * KERNEL * KERNEL, NY = FILTERS * RESULT * RESULT
};

static const Problem problem = {
	.x = {1, 1, IMAGE, IMAGE},
	.w = {FILTERS, 1, KERNEL, KERNEL},
	.stride = {1, 1},
	.dilation = {1, 1},
	.type = CUDNN_DATA_FLOAT,
};

static float x[NX],
			w[NW],
			bias[FILTERS],
			y[NY];

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

/* A copy in device memory. */
static void *
copied(const void *host, size_t size)
{
	void	   *device = on_device(size);

	CUDA(cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice, stream));
	return device;
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
	for (int c = getchar(); c != '\n'; c = getchar())
		if (c == EOF)
			return 1;
	start();
	found = find_plan(&problem, true, false, &workspace);
	if (found == NULL)
	{
		fprintf(stderr, "no plan\n");
		return 1;
	}
	dx = on_device(sizeof(x));
	dy = on_device(sizeof(y));
	pack = variant_pack(4, (void *[]) {dx, copied(w, sizeof(w)), dy, copied(bias, sizeof(bias))}, on_device(workspace));
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

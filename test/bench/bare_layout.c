/*
 * What layout and fusion give a convolution, with cuDNN alone. For each line of
 * its input, N C H W K R S padding padding stride stride dilation dilation groups
 * and strict, tf32 or bf16, it prints device microseconds of
 *
 *		the convolution in C order, and with channels last (0: no plan)
 *		bringing its input from C order to channels last
 *		convolution and bias, in the faster layout; convolution, bias and relu
 *		the relu alone
 */
#include "bare_graph.h"

#define ROUNDS 20
#define MAX_ELEMENTS (32 * 1024 * 1024)

static cudaEvent_t begin,
			end;

static double
elapsed(void)
{
	float		ms;

	CUDA(cudaEventRecord(end, stream));
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaEventElapsedTime(&ms, begin, end));
	return ms * 1000 / ROUNDS;
}

static int64_t
elements(const int64_t shape[4])
{
	return shape[0] * shape[1] * shape[2] * shape[3];
}

static int64_t
result_elements(const Problem *p)
{
	int64_t		shape[4];

	result_shape(p, shape);
	return elements(shape);
}

/* Tensors of every problem: random small numbers in every type, and what is made of them. */
typedef struct Data
{
	void	   *ptr[4];			/* X, W, Y, BIAS */
	void	   *other;
	void	   *workspace;
} Data;

static void
make_data(Data *data)
{
	size_t		size = MAX_ELEMENTS * sizeof(float);
	uint16_t   *host = malloc(size);

	for (size_t i = 0; i < size / sizeof(*host); i++)
		host[i] = 0x3c00 | (rand() & 0x837f);
	data->ptr[0] = data->ptr[1] = data->ptr[3] = on_device(size);
	data->ptr[2] = on_device(size);
	data->other = on_device(size);
	data->workspace = on_device(MAX_WORKSPACE);
	CUDA(cudaMemcpy(data->ptr[0], host, size, cudaMemcpyHostToDevice));
	free(host);
}

/* Microseconds of the graph, 0 where there is no plan. */
static double
time_graph(const Problem *p, const Data *data, bool with_bias, bool with_relu)
{
	int64_t		workspace;
	Descriptor	found = find_plan(p, with_bias, with_relu, &workspace);
	Descriptor	pack;

	if (found == NULL)
		return 0;
	pack = variant_pack(with_bias ? 4 : 3, data->ptr, data->workspace);
	for (int i = -2; i < ROUNDS; i++)
	{
		if (i == 0)
			CUDA(cudaEventRecord(begin, stream));
		DNN(cudnnBackendExecute(handle, found, pack));
	}
	return elapsed();
}

static double
time_reorder(const Problem *p, const Data *data, cudnnTensorDescriptor_t from, cudnnTensorDescriptor_t to)
{
	const float one = 1,
				zero = 0;

	DNN(cudnnSetTensor4dDescriptor(from, CUDNN_TENSOR_NCHW, p->type, p->x[0], p->x[1], p->x[2] * p->x[3], 1));
	DNN(cudnnSetTensor4dDescriptor(to, CUDNN_TENSOR_NHWC, p->type, p->x[0], p->x[1], p->x[2] * p->x[3], 1));
	for (int i = -2; i < ROUNDS; i++)
	{
		if (i == 0)
			CUDA(cudaEventRecord(begin, stream));
		DNN(cudnnTransformTensor(handle, &one, from, data->ptr[0], &zero, to, data->other));
	}
	return elapsed();
}

static double
time_relu(const Problem *p, const Data *data, cudnnTensorDescriptor_t tensor, cudnnActivationDescriptor_t activation)
{
	const float one = 1,
				zero = 0;

	DNN(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, p->type, 1, 1, 1, result_elements(p)));
	for (int i = -2; i < ROUNDS; i++)
	{
		if (i == 0)
			CUDA(cudaEventRecord(begin, stream));
		DNN(cudnnActivationForward(handle, activation, &one, tensor, data->ptr[2], &zero, tensor, data->other));
	}
	return elapsed();
}

int
main(void)
{
	Problem		p;
	Data		data;
	long		groups;
	char		mode[16];
	cudnnTensorDescriptor_t tensor[2];
	cudnnActivationDescriptor_t activation;

	start();
	CUDA(cudaEventCreate(&begin));
	CUDA(cudaEventCreate(&end));
	DNN(cudnnCreateTensorDescriptor(&tensor[0]));
	DNN(cudnnCreateTensorDescriptor(&tensor[1]));
	DNN(cudnnCreateActivationDescriptor(&activation));
	DNN(cudnnSetActivationDescriptor(activation, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
	make_data(&data);

	while (scanf("%ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %15s", &p.x[0], &p.x[1], &p.x[2], &p.x[3],
				 &p.w[0], &p.w[2], &p.w[3], &p.pad[0], &p.pad[1], &p.stride[0], &p.stride[1],
				 &p.dilation[0], &p.dilation[1], &groups, mode) == 15)
	{
		double		us[2];

		p.w[1] = p.x[1] / groups;
		p.type = strcmp(mode, "bf16") == 0 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
		p.tensor_cores = strcmp(mode, "tf32") == 0;
		if (elements(p.x) > MAX_ELEMENTS || result_elements(&p) > MAX_ELEMENTS)
		{
			puts("error: a tensor is too large");
			return 1;
		}
		for (int last = 0; last < 2; last++)
		{
			p.channels_last = last == 1;
			us[last] = time_graph(&p, &data, false, false);
		}
		p.channels_last = us[0] == 0 || (us[1] > 0 && us[1] < us[0]);
		printf("%.2f %.2f %.2f ", us[0], us[1], time_reorder(&p, &data, tensor[0], tensor[1]));
		printf("%.2f ", time_graph(&p, &data, true, false));
		printf("%.2f ", time_graph(&p, &data, true, true));
		printf("%.2f\n", time_relu(&p, &data, tensor[0], activation));
		fflush(stdout);
	}
	return 0;
}

/*
 * Batch normalization, through the classic API. Tensors are (N, C, S) and go to
 * cuDNN as (N, C, S, 1); parameters and statistics as (1, C, 1, 1).
 */
#include "postgres.h"

#include "kernels.h"
#include "mem.h"

/* Batches beyond these fail inside cuDNN, as PyTorch found. */
#define MAX_BATCH_PER_ACTIVATION 131070
#define MAX_BATCH_SPATIAL 880801
#define MAX_BATCH_SPATIAL_INFERENCE 65535

/* From this batch on inference is not slower with channels last. */
#define CHANNELS_LAST_BATCH 8

/* Tensor descriptors. */
enum
{
	SLOT_DATA,
	SLOT_PARAM
};

typedef struct Norm
{
	cudnnBatchNormMode_t mode;
	DType		dtype;
	DType		param_dtype;
	int64		channels;
	bool		single;			/* one element a channel */
	double		eps;
	double		momentum;
} Norm;

/*
 * Begins the task and describes its tensors; x is (N, C, S). On OP_DONE *ok says
 * whether to go on, and nv_end must follow.
 */
static OpOutcome
norm_begin(OpTask *task, const TensorView *x, Norm *norm, bool *ok)
{
	const NormParams *params = task->params;
	const int64 *dims = x->shape.dims;
	int			data_dims[] = {dims[0], dims[1], dims[2], 1};
	int			param_dims[] = {1, dims[1], 1, 1};
	int64		most;
	OpOutcome	outcome = nv_begin(task);

	if (outcome != OP_DONE)
		return outcome;
	norm->mode = dims[2] == 1 ? CUDNN_BATCHNORM_PER_ACTIVATION : CUDNN_BATCHNORM_SPATIAL;
	norm->dtype = x->dtype;
	norm->param_dtype = nv_scalar_dtype(x->dtype);
	norm->channels = dims[1];
	norm->single = dims[0] == 1 && dims[2] == 1;
	norm->eps = params->eps;
	norm->momentum = params->momentum;

	most = norm->mode == CUDNN_BATCHNORM_PER_ACTIVATION ? MAX_BATCH_PER_ACTIVATION :
		task->id == OP_BATCH_NORM ? MAX_BATCH_SPATIAL_INFERENCE : MAX_BATCH_SPATIAL;
	if (dims[0] > most)
		*ok = nv_fault(OP_CANNOT, "cuDNN normalizes batches of at most " INT64_FORMAT, most);
	else if (norm->eps < CUDNN_BN_MIN_EPSILON)
		*ok = nv_fault(OP_CANNOT, "cuDNN needs an eps of at least %g", CUDNN_BN_MIN_EPSILON);
	else
		*ok = nv_tensor(SLOT_DATA, norm->dtype, task->layout, lengthof(data_dims), data_dims) &&
			nv_tensor(SLOT_PARAM, norm->param_dtype, LAYOUT_C_ORDER, lengthof(param_dims), param_dims);
	return OP_DONE;
}

/*
 * The layout that a convolution leaves, where that is not the slower one. cuDNN
 * rounds otherwise in the other layout: therefore it depends on nothing else.
 */
TensorLayout
nv_batch_norm_layout(const OpTask *task)
{
	const TensorView *x = &task->in[0];
	int64		batch = x->shape.dims[0];

	return nv_uses_tensor_cores(x->dtype) && x->shape.dims[2] > 1 &&
		batch >= CHANNELS_LAST_BATCH && batch <= MAX_BATCH_SPATIAL_INFERENCE ?
		LAYOUT_CHANNELS_LAST : LAYOUT_C_ORDER;
}

static Size
param_size(const Norm *norm)
{
	return norm->channels * dtype_size(norm->param_dtype);
}

/* The parameter, or scratch memory full of `value` where it is absent; NULL with a fault. */
static const void *
param_or(const Norm *norm, const TensorView *param, const void *value)
{
	void	   *filled;

	if (param->data != NULL)
		return param->data;
	filled = mem_scratch(param_size(norm));
	return filled != NULL &&
		NV_DNN(cudnnSetTensor(nv.handle, nv.tensor[SLOT_PARAM], filled, value)) ? filled : NULL;
}

/* x (N,C,S), mean (C), var (C), [weight (C)], [bias (C)] -> y */
OpOutcome
nv_batch_norm(OpTask *task)
{
	const TensorView *x = &task->in[0];
	const void *weight,
			   *bias;
	Norm		norm;
	bool		ok;
	OpOutcome	outcome = norm_begin(task, x, &norm, &ok);

	if (outcome != OP_DONE)
		return outcome;
	return nv_end(task, ok &&
				  (weight = param_or(&norm, &task->in[3], nv_one(x->dtype))) != NULL &&
				  (bias = param_or(&norm, &task->in[4], &nv_zero)) != NULL &&
				  NV_DNN(cudnnBatchNormalizationForwardInference(nv.handle, norm.mode, nv_one(x->dtype), &nv_zero,
																 nv.tensor[SLOT_DATA], x->data,
																 nv.tensor[SLOT_DATA], task->out[0].data,
																 nv.tensor[SLOT_PARAM], weight, bias,
																 task->in[1].data, task->in[2].data, norm.eps)));
}

/* Copies a running statistic to where its new value goes. */
static bool
copy_statistic(const Norm *norm, const TensorView *from, const TensorView *to)
{
	return NV_CUDA(cudaMemcpyAsync(to->data, from->data, param_size(norm), cudaMemcpyDeviceToDevice, nv.stream));
}

/*
 * Running statistics after a batch of one element a channel, where cuDNN would
 * give NaN: mean moves to the element, variance to 0.
 */
static bool
update_single(const Norm *norm, const void *batch_mean, void *mean, void *var)
{
	bool		is_double = norm->param_dtype == DT_FLOAT64;
	float		momentum = norm->momentum,
				rest = 1 - norm->momentum;
	double		momentum_double = norm->momentum,
				rest_double = 1 - norm->momentum;
	const void *alpha = is_double ? (const void *) &momentum_double : &momentum;
	const void *beta = is_double ? (const void *) &rest_double : &rest;

	return NV_DNN(cudnnAddTensor(nv.handle, alpha, nv.tensor[SLOT_PARAM], batch_mean,
								 beta, nv.tensor[SLOT_PARAM], mean)) &&
		NV_DNN(cudnnScaleTensor(nv.handle, nv.tensor[SLOT_PARAM], var, beta));
}

/*
 * x (N,C,S), [weight (C)], [bias (C)], [running_mean (C)], [running_var (C)] ->
 * y, mean (C), invstd (C), [running_mean (C)], [running_var (C)]; the running
 * statistics are both there or both absent.
 */
OpOutcome
nv_batch_norm_train(OpTask *task)
{
	const TensorView *x = &task->in[0];
	void	   *mean = task->out[3].data;
	void	   *var = task->out[4].data;
	const void *weight,
			   *bias;
	Norm		norm;
	bool		ok,
				running,
				by_cudnn;
	OpOutcome	outcome = norm_begin(task, x, &norm, &ok);

	if (outcome != OP_DONE)
		return outcome;
	running = mean != NULL && var != NULL;
	by_cudnn = running && !norm.single;
	if (running)
		ok = ok && copy_statistic(&norm, &task->in[3], &task->out[3]) &&
			copy_statistic(&norm, &task->in[4], &task->out[4]);

	ok = ok && (weight = param_or(&norm, &task->in[1], nv_one(x->dtype))) != NULL &&
		(bias = param_or(&norm, &task->in[2], &nv_zero)) != NULL &&
		NV_DNN(cudnnBatchNormalizationForwardTraining(nv.handle, norm.mode, nv_one(x->dtype), &nv_zero,
													  nv.tensor[SLOT_DATA], x->data,
													  nv.tensor[SLOT_DATA], task->out[0].data,
													  nv.tensor[SLOT_PARAM], weight, bias, norm.momentum,
													  by_cudnn ? mean : NULL, by_cudnn ? var : NULL, norm.eps,
													  task->out[1].data, task->out[2].data));
	if (running && !by_cudnn)
		ok = ok && update_single(&norm, task->out[1].data, mean, var);
	return nv_end(task, ok);
}

/* dy (N,C,S), x (N,C,S), [weight (C)], mean (C), invstd (C) -> dx, dweight (C), dbias (C) */
OpOutcome
nv_batch_norm_backward(OpTask *task)
{
	const TensorView *dy = &task->in[0];
	const void *one = nv_one(dy->dtype);
	const void *weight;
	Norm		norm;
	bool		ok;
	OpOutcome	outcome = norm_begin(task, dy, &norm, &ok);

	if (outcome != OP_DONE)
		return outcome;
	return nv_end(task, ok &&
				  (weight = param_or(&norm, &task->in[2], one)) != NULL &&
				  NV_DNN(cudnnBatchNormalizationBackward(nv.handle, norm.mode, one, &nv_zero, one, &nv_zero,
														 nv.tensor[SLOT_DATA], task->in[1].data,
														 nv.tensor[SLOT_DATA], dy->data,
														 nv.tensor[SLOT_DATA], task->out[0].data,
														 nv.tensor[SLOT_PARAM], weight,
														 task->out[1].data, task->out[2].data, norm.eps,
														 task->in[3].data, task->in[4].data)));
}

/*
 * Pooling, through the classic API. Its descriptor pads an axis alike at both
 * ends, but the number of positions is that of the output's descriptor, so that
 * the padding at the begin is all that has to be said: seen in cuDNN 9.19, in
 * both directions. Only where an average counts padding that is not the same at
 * both ends, cuDNN's divisor is not ours; then the result is multiplied by
 * cuDNN's divisor / ours.
 */
#include "postgres.h"

#include "half.h"
#include "kernels.h"
#include "mem.h"

#define POOL_MAX_RANK (MAX_SPATIAL + 2)

/* Tensor descriptors. */
enum
{
	SLOT_X,						/* x or dx */
	SLOT_Y,						/* y or dy */
	SLOT_FACTOR
};

/* Rank, dims and strides are cuDNN's: at least two spatial axes. */
typedef struct Pool
{
	DType		dtype;
	cudnnPoolingMode_t mode;
	int			rank;
	int			kernel[MAX_SPATIAL];
	int			stride[MAX_SPATIAL];
	int			pad[MAX_SPATIAL];
	int			x[POOL_MAX_RANK];
	int			y[POOL_MAX_RANK];
	void	   *factor;			/* (1, 1, o..) of dtype in host memory, or NULL */
} Pool;

/* Divisors ------------------------------------------------------------------ */

/* Elements of window `i` that count where so much padding at the end does. */
static int64
axis_count(const Window *w, int axis, int64 in, int64 pad_end, int64 i)
{
	int64		start = i * w->stride[axis] - w->pad_begin[axis];

	return Min(w->kernel[axis], in + pad_end - start);
}

/*
 * cuDNN's divisor / ours at every position, of the tensors' type, in palloc'd
 * memory; NULL where it is 1 everywhere. x and y are the spatial sizes.
 */
static void *
make_factor(const PoolParams *params, DType dtype, const int64 *x, const int64 *y)
{
	const Window *w = &params->window;
	int64		n = 1;
	void	   *factor;

	if (params->mode != POOL_AVG_INCLUDE_PAD ||
		memcmp(w->pad_begin, w->pad_end, sizeof(w->pad_begin)) == 0)
		return NULL;

	for (int axis = 0; axis < w->nd; axis++)
		n *= y[axis];
	factor = MemoryContextAllocHuge(CurrentMemoryContext, n * dtype_size(dtype));
	for (int64 i = 0; i < n; i++)
	{
		int64		rest = i;
		double		value = 1;

		for (int axis = w->nd - 1; axis >= 0; axis--)
		{
			int64		position = rest % y[axis];

			value *= (double) axis_count(w, axis, x[axis], w->pad_begin[axis], position) /
				axis_count(w, axis, x[axis], w->pad_end[axis], position);
			rest /= y[axis];
		}
		float_set(dtype, factor, i, value);
	}
	return factor;
}

/* to = from * factor; both are shaped like y, and may be the same. */
static bool
apply_factor(const Pool *pool, const void *from, void *to)
{
	DType		compute = nv_scalar_dtype(pool->dtype);
	int			dims[POOL_MAX_RANK];
	Size		size = dtype_size(pool->dtype);
	void	   *factor;

	memcpy(dims, pool->y, sizeof(dims));
	dims[0] = dims[1] = 1;
	for (int i = 2; i < pool->rank; i++)
		size *= dims[i];
	factor = mem_scratch_copy(pool->factor, size);
	return factor != NULL &&
		nv_tensor(SLOT_FACTOR, pool->dtype, LAYOUT_C_ORDER, pool->rank, dims) &&
		NV_DNN(cudnnOpTensor(nv.handle, nv.multiply[compute == DT_FLOAT64 ? 1 : 0],
							 nv_one(compute), nv.tensor[SLOT_Y], from,
							 nv_one(compute), nv.tensor[SLOT_FACTOR], factor,
							 &nv_zero, nv.tensor[SLOT_Y], to));
}

/* Geometry ------------------------------------------------------------------ */

/* What cuDNN is to do for this pooling of x (N,C,i..) to y (N,C,o..). */
static void
pool_setup(Pool *pool, const PoolParams *params, const TensorView *x, const TensorView *y)
{
	static const cudnnPoolingMode_t modes[] = {
		[POOL_MAX] = CUDNN_POOLING_MAX_DETERMINISTIC,
		[POOL_AVG_INCLUDE_PAD] = CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING,
		[POOL_AVG_EXCLUDE_PAD] = CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
	};
	const Window *w = &params->window;
	int			extra = w->nd == 1 ? 1 : 0; /* cuDNN has at least two spatial axes */

	memset(pool, 0, sizeof(*pool));
	pool->dtype = x->dtype;
	pool->mode = modes[params->mode];
	pool->rank = w->nd + extra + 2;
	pool->kernel[0] = pool->stride[0] = 1;
	for (int i = 0; i < 2 + extra; i++)
		pool->x[i] = pool->y[i] = i < 2 ? x->shape.dims[i] : 1;
	for (int axis = 0; axis < w->nd; axis++)
	{
		int			i = axis + extra;

		pool->kernel[i] = w->kernel[axis];
		pool->stride[i] = w->stride[axis];
		pool->pad[i] = w->pad_begin[axis];
		pool->x[i + 2] = x->shape.dims[axis + 2];
		pool->y[i + 2] = y->shape.dims[axis + 2];
	}
	pool->factor = make_factor(params, x->dtype, x->shape.dims + 2, y->shape.dims + 2);
}

/*
 * Begins a task on x and y, which may be the gradients; *ok as in nv_begin's
 * OP_DONE.
 */
static OpOutcome
pool_begin(OpTask *task, Pool *pool, const TensorView *x, const TensorView *y, bool *ok)
{
	const PoolParams *params = task->params;
	OpOutcome	outcome;

	for (int axis = 0; axis < params->window.nd; axis++)
		if (params->window.dilation[axis] != 1 && params->window.kernel[axis] != 1)
		{
			strlcpy(task->reason, "cuDNN has no dilated pooling", sizeof(task->reason));
			return OP_CANNOT;
		}
	pool_setup(pool, params, x, y);
	outcome = nv_begin(task);
	if (outcome != OP_DONE)
		return outcome;
	*ok = NV_DNN(cudnnSetPoolingNdDescriptor(nv.pooling, pool->mode, CUDNN_PROPAGATE_NAN, pool->rank - 2,
											 pool->kernel, pool->pad, pool->stride)) &&
		nv_tensor(SLOT_X, pool->dtype, task->layout, pool->rank, pool->x) &&
		nv_tensor(SLOT_Y, pool->dtype, task->layout, pool->rank, pool->y);
	return OP_DONE;
}

/* Kernels ------------------------------------------------------------------- */

/* A maximum is the same in any order; averages are slow with channels last. */
TensorLayout
nv_pool_layout(const OpTask *task)
{
	const PoolParams *params = task->params;

	return params->mode == POOL_MAX ? task->layout : LAYOUT_C_ORDER;
}

/* x (N,C,i..) -> y (N,C,o..) */
OpOutcome
nv_pool(OpTask *task)
{
	void	   *y = task->out[0].data;
	Pool		pool;
	bool		ok;
	OpOutcome	outcome = pool_begin(task, &pool, &task->in[0], &task->out[0], &ok);

	if (outcome != OP_DONE)
		return outcome;
	return nv_end(task, ok &&
				  NV_DNN(cudnnPoolingForward(nv.handle, nv.pooling, nv_one(pool.dtype),
											 nv.tensor[SLOT_X], task->in[0].data,
											 &nv_zero, nv.tensor[SLOT_Y], y)) &&
				  (pool.factor == NULL || apply_factor(&pool, y, y)));
}

/* The gradient with all that cuDNN wants prepared, into dx. */
static bool
pool_backward(const Pool *pool, OpTask *task)
{
	const TensorView *dy = &task->in[0];
	void	   *dx = task->out[0].data;
	const void *grad = dy->data;
	const void *x = task->in[1].data;
	const void *y = task->in[2].data;

	if (pool->factor != NULL)
	{
		Size		size = dtype_size(pool->dtype);
		void	   *scaled;

		for (int i = 0; i < pool->rank; i++)
			size *= pool->y[i];
		scaled = mem_scratch(size);
		if (scaled == NULL || !apply_factor(pool, grad, scaled))
			return false;
		grad = scaled;
	}
	if (pool->mode != CUDNN_POOLING_MAX_DETERMINISTIC)
	{
		x = dx;					/* an average looks at neither, but null they must not be */
		y = grad;
	}
	return NV_DNN(cudnnPoolingBackward(nv.handle, nv.pooling, nv_one(pool->dtype), nv.tensor[SLOT_Y], y,
									   nv.tensor[SLOT_Y], grad, nv.tensor[SLOT_X], x,
									   &nv_zero, nv.tensor[SLOT_X], dx));
}

/* dy (N,C,o..), [x (N,C,i..), y (N,C,o..): max only] -> dx (N,C,i..) */
OpOutcome
nv_pool_backward(OpTask *task)
{
	Pool		pool;
	bool		ok;
	OpOutcome	outcome = pool_begin(task, &pool, &task->out[0], &task->in[0], &ok);

	if (outcome != OP_DONE)
		return outcome;
	return nv_end(task, ok && pool_backward(&pool, task));
}

/*
 * Pooling, through the classic API, which pads all axes alike at both ends and
 * counts positions by a formula of its own. Where that is not what is asked for,
 * x is copied into a padded buffer of just the size that the windows cover and
 * pooled there without padding; averages whose divisor is not the whole window
 * are then multiplied by kernel size / divisor. The gradient goes the same way
 * back.
 */
#include "postgres.h"

#include <math.h>

#include "kernels.h"
#include "mem.h"

#define POOL_MAX_RANK (MAX_SPATIAL + 2)

/* Tensor descriptors. */
enum
{
	SLOT_X,						/* x or dx, padded where it is */
	SLOT_Y,						/* y or dy */
	SLOT_FACTOR,
	SLOT_PART,					/* the part of x that windows reach */
	SLOT_PART_PADDED			/* and where it is in the padded buffer */
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
	bool		padded;			/* by us */
	int			whole[POOL_MAX_RANK];	/* x with padding */
	int			part[POOL_MAX_RANK];	/* x without what no window reaches */
	int			begin[MAX_SPATIAL]; /* where the part starts in the whole */
	void	   *factor;			/* (1, 1, o..) of nv_scalar_dtype in host memory, or NULL */
} Pool;

/* One spatial axis ---------------------------------------------------------- */

/* Does cuDNN's formula with padding `pad_begin` at both ends give `out` positions? */
static bool
axis_fits(const Window *w, int axis, int64 in, int64 out)
{
	return (in + 2 * w->pad_begin[axis] - w->kernel[axis]) / w->stride[axis] + 1 == out;
}

/* Elements of window `i` that count in an average. */
static int64
axis_count(const Window *w, int axis, int64 in, PoolMode mode, int64 i)
{
	int64		start = i * w->stride[axis] - w->pad_begin[axis];
	int64		end = start + w->kernel[axis];
	int64		first = mode == POOL_AVG_INCLUDE_PAD ? -w->pad_begin[axis] : 0;
	int64		last = mode == POOL_AVG_INCLUDE_PAD ? in + w->pad_end[axis] : in;

	return Min(end, last) - Max(start, first);
}

/* Is every window of the axis as large as the kernel when it is averaged? */
static bool
axis_whole(const Window *w, int axis, int64 in, PoolMode mode, int64 out)
{
	return axis_count(w, axis, in, mode, 0) == w->kernel[axis] &&
		axis_count(w, axis, in, mode, out - 1) == w->kernel[axis];
}

/* Geometry ------------------------------------------------------------------ */

/*
 * Kernel size / divisor of every position, in palloc'd memory; x and y are the
 * spatial sizes.
 */
static void *
make_factor(const PoolParams *params, DType dtype, const int64 *x, const int64 *y)
{
	const Window *w = &params->window;
	int64		n = 1;
	double	   *factor;

	for (int axis = 0; axis < w->nd; axis++)
		n *= y[axis];
	factor = MemoryContextAllocHuge(CurrentMemoryContext, n * sizeof(double));
	for (int64 i = 0; i < n; i++)
	{
		int64		rest = i;

		factor[i] = 1;
		for (int axis = w->nd - 1; axis >= 0; axis--)
		{
			factor[i] *= (double) w->kernel[axis] /
				axis_count(w, axis, x[axis], params->mode, rest % y[axis]);
			rest /= y[axis];
		}
	}
	if (dtype != DT_FLOAT64)
		for (int64 i = 0; i < n; i++)	/* in place: a float is no larger */
			((float *) factor)[i] = factor[i];
	return factor;
}

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
	const int64 *in = x->shape.dims + 2;
	const int64 *out = y->shape.dims + 2;
	int			skip = w->nd == 1 ? 1 : 0;	/* cuDNN's extra axis */
	bool		whole = true;

	memset(pool, 0, sizeof(*pool));
	pool->dtype = x->dtype;
	pool->mode = modes[params->mode];
	pool->rank = w->nd + skip + 2;
	for (int axis = 0; axis < w->nd; axis++)
	{
		whole &= params->mode == POOL_MAX || axis_whole(w, axis, in[axis], params->mode, out[axis]);
		pool->padded |= !axis_fits(w, axis, in[axis], out[axis]);
	}
	pool->padded |= params->mode == POOL_AVG_INCLUDE_PAD && !whole;

	pool->kernel[0] = pool->stride[0] = 1;
	for (int i = 0; i < 2 + skip; i++)
	{
		pool->x[i] = pool->whole[i] = pool->part[i] = i < 2 ? x->shape.dims[i] : 1;
		pool->y[i] = pool->x[i];
	}
	for (int axis = 0; axis < w->nd; axis++)
	{
		int			i = axis + skip;

		pool->kernel[i] = w->kernel[axis];
		pool->stride[i] = w->stride[axis];
		pool->pad[i] = pool->padded ? 0 : w->pad_begin[axis];
		pool->begin[i] = w->pad_begin[axis];
		pool->x[i + 2] = in[axis];
		pool->y[i + 2] = out[axis];
		pool->whole[i + 2] = pool->padded ? (out[axis] - 1) * w->stride[axis] + w->kernel[axis] : in[axis];
		pool->part[i + 2] = Min(in[axis], pool->whole[i + 2] - pool->begin[i]);
	}
	if (pool->padded && !whole)
		pool->factor = make_factor(params, x->dtype, in, out);
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
		nv_tensor(SLOT_X, pool->dtype, pool->rank, pool->whole) &&
		nv_tensor(SLOT_Y, pool->dtype, pool->rank, pool->y);
	return OP_DONE;
}

/* Padded copies ------------------------------------------------------------- */

/* Packed strides; gives the number of elements. */
static int64
packed_strides(int rank, const int *dims, int *strides)
{
	int64		n = 1;

	for (int i = rank - 1; i >= 0; i--)
	{
		strides[i] = n;
		n *= dims[i];
	}
	return n;
}

/*
 * Describes the part of x that is copied, as it lies in x and in the padded
 * buffer; gives the size of that buffer and where in it the part starts, in bytes.
 */
static bool
part_describe(const Pool *pool, Size *size, Size *offset)
{
	int			x_strides[POOL_MAX_RANK],
				whole_strides[POOL_MAX_RANK];
	int64		n = packed_strides(pool->rank, pool->whole, whole_strides);

	if (n > NV_MAX_ELEMENTS)
		return nv_fault(OP_CANNOT, "the padded input has more than %d elements", NV_MAX_ELEMENTS);
	packed_strides(pool->rank, pool->x, x_strides);
	*size = n * nv_size(pool->dtype);
	*offset = 0;
	for (int i = 0; i < pool->rank - 2; i++)
		*offset += (Size) pool->begin[i] * whole_strides[i + 2] * nv_size(pool->dtype);
	return nv_tensor_strided(SLOT_PART, pool->dtype, pool->rank, pool->part, x_strides) &&
		nv_tensor_strided(SLOT_PART_PADDED, pool->dtype, pool->rank, pool->part, whole_strides);
}

/* Fills the padded buffer with what never wins or adds nothing. */
static bool
fill_whole(const Pool *pool, void *whole, Size size)
{
	static const float inf_float = -INFINITY;
	static const double inf_double = -INFINITY;
	static const uint16 inf_half = 0xfc00,
				inf_bfloat16 = 0xff80;
	static const void *const minus_infinity[] = {
		[DT_FLOAT32] = &inf_float,
		[DT_FLOAT64] = &inf_double,
		[DT_FLOAT16] = &inf_half,
		[DT_BFLOAT16] = &inf_bfloat16,
	};

	if (pool->mode == CUDNN_POOLING_MAX_DETERMINISTIC)
		return NV_DNN(cudnnSetTensor(nv.handle, nv.tensor[SLOT_X], whole, minus_infinity[pool->dtype]));
	return NV_CUDA(cudaMemsetAsync(whole, 0, size, nv.stream));
}

/* x, or a padded copy of it in scratch memory; NULL with a fault. */
static const void *
padded_input(const Pool *pool, const void *x)
{
	Size		size,
				offset;
	char	   *whole;

	if (!pool->padded)
		return x;
	if (!part_describe(pool, &size, &offset) || (whole = mem_scratch(size)) == NULL)
		return NULL;
	return fill_whole(pool, whole, size) &&
		NV_DNN(cudnnTransformTensor(nv.handle, nv_one(pool->dtype), nv.tensor[SLOT_PART], x,
									&nv_zero, nv.tensor[SLOT_PART_PADDED], whole + offset)) ? whole : NULL;
}

/* Copies the gradient out of its padded buffer; what no window reaches is 0. */
static bool
crop_gradient(const Pool *pool, const char *whole, const TensorView *dx)
{
	Size		size,
				offset;
	int			strides[POOL_MAX_RANK];

	return part_describe(pool, &size, &offset) &&
		NV_CUDA(cudaMemsetAsync(dx->data, 0, packed_strides(pool->rank, pool->x, strides) * nv_size(pool->dtype),
								nv.stream)) &&
		NV_DNN(cudnnTransformTensor(nv.handle, nv_one(pool->dtype), nv.tensor[SLOT_PART_PADDED], whole + offset,
									&nv_zero, nv.tensor[SLOT_PART], dx->data));
}

/* to = from * factor; both are shaped like y, and may be the same. */
static bool
apply_factor(const Pool *pool, const void *from, void *to)
{
	DType		type = nv_scalar_dtype(pool->dtype);
	int			dims[POOL_MAX_RANK],
				strides[POOL_MAX_RANK];
	void	   *factor;

	memcpy(dims, pool->y, sizeof(dims));
	dims[0] = dims[1] = 1;
	factor = mem_scratch_copy(pool->factor, packed_strides(pool->rank, dims, strides) * nv_size(type));
	return factor != NULL &&
		nv_tensor(SLOT_FACTOR, type, pool->rank, dims) &&
		NV_DNN(cudnnOpTensor(nv.handle, nv.multiply[type == DT_FLOAT64 ? 1 : 0],
							 nv_one(type), nv.tensor[SLOT_Y], from,
							 nv_one(type), nv.tensor[SLOT_FACTOR], factor,
							 &nv_zero, nv.tensor[SLOT_Y], to));
}

/* Kernels ------------------------------------------------------------------- */

/* x (N,C,i..) -> y (N,C,o..) */
OpOutcome
nv_pool(OpTask *task)
{
	void	   *y = task->out[0].data;
	const void *x;
	Pool		pool;
	bool		ok;
	OpOutcome	outcome = pool_begin(task, &pool, &task->in[0], &task->out[0], &ok);

	if (outcome != OP_DONE)
		return outcome;
	return nv_end(task, ok &&
				  (x = padded_input(&pool, task->in[0].data)) != NULL &&
				  NV_DNN(cudnnPoolingForward(nv.handle, nv.pooling, nv_one(pool.dtype), nv.tensor[SLOT_X], x,
											 &nv_zero, nv.tensor[SLOT_Y], y)) &&
				  (pool.factor == NULL || apply_factor(&pool, y, y)));
}

/* The gradient with all that cuDNN wants prepared, into dx. */
static bool
pool_backward(const Pool *pool, OpTask *task)
{
	const TensorView *dx = &task->out[0];
	const void *dy = task->in[0].data;
	const void *x = task->in[1].data;
	const void *y = task->in[2].data;
	void	   *whole = dx->data;
	int			strides[POOL_MAX_RANK];

	if (pool->factor != NULL)
	{
		void	   *scaled = mem_scratch(packed_strides(pool->rank, pool->y, strides) * nv_size(pool->dtype));

		if (scaled == NULL || !apply_factor(pool, dy, scaled))
			return false;
		dy = scaled;
	}
	if (pool->padded)
	{
		whole = mem_scratch(packed_strides(pool->rank, pool->whole, strides) * nv_size(pool->dtype));
		if (whole == NULL)
			return false;
	}
	if (pool->mode == CUDNN_POOLING_MAX_DETERMINISTIC)
	{
		x = padded_input(pool, x);
		if (x == NULL)
			return false;
	}
	else
	{
		x = whole;				/* an average looks at neither, but null they must not be */
		y = dy;
	}
	return NV_DNN(cudnnPoolingBackward(nv.handle, nv.pooling, nv_one(pool->dtype), nv.tensor[SLOT_Y], y,
									   nv.tensor[SLOT_Y], dy, nv.tensor[SLOT_X], x,
									   &nv_zero, nv.tensor[SLOT_X], whole)) &&
		(!pool->padded || crop_gradient(pool, whole, dx));
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

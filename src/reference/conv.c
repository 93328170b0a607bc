/* Convolution and its gradients, as their definition says. */
#include "postgres.h"

#include "miscadmin.h"

#include "ref.h"

/*
 * A row of products that belong together: count elements of y, as many of x that
 * lie `step` apart, and the one weight between them.
 */
typedef void (*RowProduct) (double *x, int64 step, double *y, double *w, int64 count);

static void
row_forward(double *x, int64 step, double *y, double *w, int64 count)
{
	for (int64 i = 0; i < count; i++)
		y[i] += *w * x[i * step];
}

static void
row_input(double *x, int64 step, double *y, double *w, int64 count)
{
	for (int64 i = 0; i < count; i++)
		x[i * step] += *w * y[i];
}

static void
row_weight(double *x, int64 step, double *y, double *w, int64 count)
{
	double		sum = 0;

	for (int64 i = 0; i < count; i++)
		sum += y[i] * x[i * step];
	*w += sum;
}

/*
 * Window positions first to last (excluded) at which kernel element k of an axis
 * lies on the input, and the input element that it meets at the first.
 */
static bool
meets(const RefWindow *r, int axis, int64 k, int64 *first, int64 *last, int64 *at)
{
	int64		stride = r->w.stride[axis];
	int64		offset = k * r->w.dilation[axis] - r->w.pad_begin[axis];

	*first = offset < 0 ? (-offset + stride - 1) / stride : 0;
	*last = r->in[axis] - 1 < offset ? 0 : Min(r->out[axis], (r->in[axis] - 1 - offset) / stride + 1);
	*at = *first * stride + offset;
	return *first < *last;
}

/* All rows of one channel of x, one of y and the kernel between them. */
static void
conv_channel(const RefWindow *r, double *x, double *y, double *w, RowProduct product)
{
	int64		first[MAX_SPATIAL],
				last[MAX_SPATIAL],
				at[MAX_SPATIAL];

	for (int64 d = 0; d < r->w.kernel[0]; d++)
		for (int64 h = 0; h < r->w.kernel[1]; h++)
			for (int64 k = 0; k < r->w.kernel[2]; k++, w++)
			{
				CHECK_FOR_INTERRUPTS();
				if (!meets(r, 0, d, &first[0], &last[0], &at[0]) ||
					!meets(r, 1, h, &first[1], &last[1], &at[1]) ||
					!meets(r, 2, k, &first[2], &last[2], &at[2]))
					continue;
				for (int64 p = first[0]; p < last[0]; p++)
					for (int64 q = first[1]; q < last[1]; q++)
					{
						int64		xd = at[0] + (p - first[0]) * r->w.stride[0];
						int64		xh = at[1] + (q - first[1]) * r->w.stride[1];

						product(x + (xd * r->in[1] + xh) * r->in[2] + at[2], r->w.stride[2],
								y + (p * r->out[1] + q) * r->out[2] + first[2], w,
								last[2] - first[2]);
					}
			}
}

/* x (N,C,i..), y (N,O,o..), w (O,C/g,k..): whichever of them the product changes. */
static void
conv_walk(const OpTask *task, const TensorShape *xshape, const TensorShape *yshape,
		  double *x, double *y, double *w, RowProduct product)
{
	const ConvParams *params = task->params;
	int64		channels = xshape->dims[1] / params->groups;	/* of a group */
	int64		filters = yshape->dims[1] / params->groups;
	RefWindow	r;

	ref_window(&r, &params->window, xshape, yshape);
	for (int64 n = 0; n < xshape->dims[0]; n++)
		for (int64 o = 0; o < yshape->dims[1]; o++)
			for (int64 c = 0; c < channels; c++)
			{
				int64		xc = o / filters * channels + c;

				conv_channel(&r, x + (n * xshape->dims[1] + xc) * r.in_size,
							 y + (n * yshape->dims[1] + o) * r.out_size,
							 w + (o * channels + c) * r.kernel_size, product);
			}
}

/* Adds bias (C) to values (N,C,s..). */
static void
add_bias(double *values, const TensorShape *shape, const double *bias)
{
	int64		channels = shape->dims[0] * shape->dims[1];
	int64		size = channels == 0 ? 0 : shape_numel(shape) / channels;

	if (bias == NULL)
		return;
	for (int64 i = 0; i < channels; i++)
		for (int64 j = 0; j < size; j++)
			values[i * size + j] += bias[i % shape->dims[1]];
}

void
ref_conv(OpTask *task)
{
	const TensorView *x = &task->in[0];
	const TensorView *y = &task->out[0];
	double	   *values = ref_result(y);

	conv_walk(task, &x->shape, &y->shape, (double *) ref_load(x), values,
			  (double *) ref_load(&task->in[1]), row_forward);
	add_bias(values, &y->shape, ref_load(&task->in[2]));
	ref_store(y, values);
}

void
ref_conv_backward_input(OpTask *task)
{
	const TensorView *dy = &task->in[0];
	const TensorView *dx = &task->out[0];
	double	   *values = ref_result(dx);

	conv_walk(task, &dx->shape, &dy->shape, values, (double *) ref_load(dy),
			  (double *) ref_load(&task->in[1]), row_input);
	add_bias(values, &dx->shape, ref_load(&task->in[2]));
	ref_store(dx, values);
}

void
ref_conv_backward_weight(OpTask *task)
{
	const TensorView *dy = &task->in[0];
	const TensorView *x = &task->in[1];
	double	   *values = ref_result(&task->out[0]);

	conv_walk(task, &x->shape, &dy->shape, (double *) ref_load(x), (double *) ref_load(dy),
			  values, row_weight);
	ref_store(&task->out[0], values);
}

void
ref_conv_backward_bias(OpTask *task)
{
	const TensorShape *shape = &task->in[0].shape;
	const double *dy = ref_load(&task->in[0]);
	double	   *values = ref_result(&task->out[0]);

	for (int64 i = 0; i < shape->dims[0] * shape->dims[1]; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int64 j = 0; j < shape->dims[2]; j++)
			values[i % shape->dims[1]] += dy[i * shape->dims[2] + j];
	}
	ref_store(&task->out[0], values);
}

/* Max pooling by plain loops, for channels that oneDNN would treat otherwise. */
#include "postgres.h"

#include <math.h>

#include "element.h"
#include "pool_max.h"

#define LOWEST_FLOAT32 (-0x1.fffffep127f)
#define LOWEST_BFLOAT16 (-0x1.fep127f)

/* Three spatial axes, those that are missing of size 1 and first. */
typedef struct Axes
{
	int64		in[MAX_SPATIAL];
	int64		out[MAX_SPATIAL];
	int64		kernel[MAX_SPATIAL];
	int64		stride[MAX_SPATIAL];
	int64		dilation[MAX_SPATIAL];
	int64		pad_begin[MAX_SPATIAL];
	int64		in_size;		/* elements of a channel */
	int64		out_size;
} Axes;

static void
set_axes(Axes *a, const Window *w, const TensorShape *in, const TensorShape *out)
{
	memset(a, 0, sizeof(*a));
	for (int i = 0, from = w->nd - MAX_SPATIAL; i < MAX_SPATIAL; i++, from++)
	{
		a->in[i] = from < 0 ? 1 : in->dims[2 + from];
		a->out[i] = from < 0 ? 1 : out->dims[2 + from];
		a->kernel[i] = from < 0 ? 1 : w->kernel[from];
		a->stride[i] = from < 0 ? 1 : w->stride[from];
		a->dilation[i] = from < 0 ? 1 : w->dilation[from];
		a->pad_begin[i] = from < 0 ? 0 : w->pad_begin[from];
	}
	a->in_size = elements_from(in, 2);
	a->out_size = elements_from(out, 2);
}

/* Kernel elements first to last (excluded) of the window at o lie on the input. */
static void
on_input(const Axes *a, int axis, int64 o, int64 *first, int64 *last)
{
	int64		start = o * a->stride[axis] - a->pad_begin[axis];
	int64		left = a->in[axis] - start;

	*first = start < 0 ? (-start + a->dilation[axis] - 1) / a->dilation[axis] : 0;
	*last = left <= 0 ? 0 : Min(a->kernel[axis], (left - 1) / a->dilation[axis] + 1);
}

static bool
has_empty_window(const Axes *a)
{
	for (int axis = 0; axis < MAX_SPATIAL; axis++)
		for (int64 o = 0; o < a->out[axis]; o++)
		{
			int64		first,
						last;

			on_input(a, axis, o, &first, &last);
			if (first >= last)
				return true;
		}
	return false;
}

/* Has the channel from element `base` on one that oneDNN passes over? */
static bool
is_odd(const TensorView *x, int64 base, int64 size)
{
	bool		odd = false;

	if (x->dtype == DT_FLOAT32)
	{
		const float *values = (const float *) x->data + base;

#pragma omp simd reduction(|:odd)
		for (int64 i = 0; i < size; i++)
			odd |= !(values[i] > LOWEST_FLOAT32);
	}
	else
		for (int64 i = 0; i < size && !odd; i++)
			odd = !(element_get(x, base + i) > LOWEST_BFLOAT16);
	return odd;
}

/* The first maximum of the window at o, or its first NaN; -1 where it has no element. */
static int64
find_max(const Axes *a, const int64 *o, const TensorView *x, int64 base)
{
	int64		first[MAX_SPATIAL],
				last[MAX_SPATIAL];
	int64		best = -1;
	float		max = 0;

	for (int axis = 0; axis < MAX_SPATIAL; axis++)
		on_input(a, axis, o[axis], &first[axis], &last[axis]);
	for (int64 d = first[0]; d < last[0]; d++)
		for (int64 h = first[1]; h < last[1]; h++)
			for (int64 w = first[2]; w < last[2]; w++)
			{
				int64		xd = o[0] * a->stride[0] - a->pad_begin[0] + d * a->dilation[0];
				int64		xh = o[1] * a->stride[1] - a->pad_begin[1] + h * a->dilation[1];
				int64		xw = o[2] * a->stride[2] - a->pad_begin[2] + w * a->dilation[2];
				int64		i = base + (xd * a->in[1] + xh) * a->in[2] + xw;
				float		value = element_get(x, i);

				if (best < 0 || value > max || (isnan(value) && !isnan(max)))
				{
					best = i;
					max = value;
				}
			}
	return best;
}

/* A channel: y from its maxima, or where dy is given dx. */
static void
pool_channel(const Axes *a, int64 channel, const TensorView *x, const TensorView *y,
			 const TensorView *dy, const TensorView *dx)
{
	int64		base = channel * a->in_size;
	int64		out = channel * a->out_size;
	int64		o[MAX_SPATIAL];

	for (int64 i = 0; dy != NULL && i < a->in_size; i++)
		element_set(dx, base + i, 0);
	for (o[0] = 0; o[0] < a->out[0]; o[0]++)
		for (o[1] = 0; o[1] < a->out[1]; o[1]++)
			for (o[2] = 0; o[2] < a->out[2]; o[2]++, out++)
			{
				int64		best = find_max(a, o, x, base);

				if (dy == NULL)
					element_set(y, out, best < 0 ? -INFINITY : element_get(x, best));
				else if (best >= 0)
					element_set(dx, best, element_get(dx, best) + element_get(dy, out));
			}
}

static void
mend(const Axes *a, const TensorView *x, const TensorView *y, const TensorView *dy, const TensorView *dx)
{
	bool		all = has_empty_window(a);
	int64		channels = x->shape.dims[0] * x->shape.dims[1];

#pragma omp parallel for schedule(static)
	for (int64 c = 0; c < channels; c++)
		if (all || is_odd(x, c * a->in_size, a->in_size))
			pool_channel(a, c, x, y, dy, dx);
}

void
mend_max_pool(const Window *window, const TensorView *x, const TensorView *y)
{
	Axes		a;

	set_axes(&a, window, &x->shape, &y->shape);
	mend(&a, x, y, NULL, NULL);
}

void
mend_max_pool_backward(const Window *window, const TensorView *dy, const TensorView *x, const TensorView *dx)
{
	Axes		a;

	set_axes(&a, window, &x->shape, &dy->shape);
	mend(&a, x, NULL, dy, dx);
}

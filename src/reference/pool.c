/* Pooling and its gradients, as their definition says. */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "ref.h"

/* One position of the window on the input. */
typedef struct Place
{
	int64		start[MAX_SPATIAL]; /* input element under kernel element 0, may be < 0 */
	int64		first[MAX_SPATIAL]; /* kernel elements first to last (excluded) are on the input */
	int64		last[MAX_SPATIAL];
	double		divisor;		/* of an average */
} Place;

static void
find_place(const RefWindow *r, int64 mode, const int64 *o, Place *place)
{
	place->divisor = 1;
	for (int i = 0; i < MAX_SPATIAL; i++)
	{
		int64		start = o[i] * r->w.stride[i] - r->w.pad_begin[i];
		int64		dilation = r->w.dilation[i];
		int64		left = r->in[i] - start;	/* elements from the start to the end of the input */
		int64		first = start < 0 ? (-start + dilation - 1) / dilation : 0;
		int64		last = left <= 0 ? 0 : Min(r->w.kernel[i], (left - 1) / dilation + 1);

		place->start[i] = start;
		place->first[i] = first;
		place->last[i] = last;
		place->divisor *= mode == POOL_AVG_INCLUDE_PAD ?
			Min(r->w.kernel[i], left + r->w.pad_end[i]) : Max(last - first, 0);
	}
}

/* Index of an input element of the place. */
static inline int64
element(const RefWindow *r, const Place *place, int64 d, int64 h, int64 w)
{
	return ((place->start[0] + d * r->w.dilation[0]) * r->in[1] +
			place->start[1] + h * r->w.dilation[1]) * r->in[2] +
		place->start[2] + w * r->w.dilation[2];
}

#define for_each_element(place, d, h, w) \
	for (int64 d = (place)->first[0]; d < (place)->last[0]; d++) \
		for (int64 h = (place)->first[1]; h < (place)->last[1]; h++) \
			for (int64 w = (place)->first[2]; w < (place)->last[2]; w++)

/* The first maximum, or the first NaN; -1 where the place has no element. */
static int64
find_max(const RefWindow *r, const Place *place, const double *x)
{
	int64		best = -1;

	for_each_element(place, d, h, w)
	{
		int64		i = element(r, place, d, h, w);

		if (best < 0 || x[i] > x[best] || (isnan(x[i]) && !isnan(x[best])))
			best = i;
	}
	return best;
}

static double
average(const RefWindow *r, const Place *place, const double *x)
{
	double		sum = 0;

	for_each_element(place, d, h, w)
		sum += x[element(r, place, d, h, w)];
	return sum / place->divisor;
}

static void
spread(const RefWindow *r, const Place *place, double *dx, double dy)
{
	for_each_element(place, d, h, w)
		dx[element(r, place, d, h, w)] += dy / place->divisor;
}

/* One channel, forward (dx == NULL) or backward. */
static void
pool_channel(const RefWindow *r, int64 mode, const double *x, double *y, double *dx, const double *dy)
{
	int64		o[MAX_SPATIAL];
	int64		i = 0;

	for (o[0] = 0; o[0] < r->out[0]; o[0]++)
		for (o[1] = 0; o[1] < r->out[1]; o[1]++)
			for (o[2] = 0; o[2] < r->out[2]; o[2]++, i++)
			{
				Place		place;
				int64		best;

				CHECK_FOR_INTERRUPTS();
				find_place(r, mode, o, &place);
				if (mode != POOL_MAX)
				{
					if (dx == NULL)
						y[i] = average(r, &place, x);
					else
						spread(r, &place, dx, dy[i]);
					continue;
				}
				best = find_max(r, &place, x);
				if (dx == NULL)
					y[i] = best < 0 ? -INFINITY : x[best];
				else if (best >= 0)
					dx[best] += dy[i];
			}
}

void
ref_pool(OpTask *task)
{
	const PoolParams *params = task->params;
	const TensorShape *shape = &task->in[0].shape;
	const double *x = ref_load(&task->in[0]);
	double	   *y = ref_result(&task->out[0]);
	RefWindow	r;

	ref_window(&r, &params->window, shape, &task->out[0].shape);
	for (int64 c = 0; c < shape->dims[0] * shape->dims[1]; c++)
		pool_channel(&r, params->mode, x + c * r.in_size, y + c * r.out_size, NULL, NULL);
	ref_store(&task->out[0], y);
}

void
ref_pool_backward(OpTask *task)
{
	const PoolParams *params = task->params;
	const TensorShape *shape = &task->out[0].shape;
	const double *dy = ref_load(&task->in[0]);
	const double *x = ref_load(&task->in[1]);
	double	   *dx = ref_result(&task->out[0]);
	RefWindow	r;

	ref_window(&r, &params->window, shape, &task->in[0].shape);
	for (int64 c = 0; c < shape->dims[0] * shape->dims[1]; c++)
		pool_channel(&r, params->mode, x == NULL ? NULL : x + c * r.in_size, NULL,
					 dx + c * r.in_size, dy + c * r.out_size);
	ref_store(&task->out[0], dx);
}

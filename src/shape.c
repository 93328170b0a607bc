/* Window arithmetic; see shape.h. */
#include "postgres.h"

#include "common/int.h"

#include "shape.h"

static int64
add(int64 a, int64 b)
{
	int64		sum;

	if (pg_add_s64_overflow(a, b, &sum))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("sizes are too big")));
	return sum;
}

static int64
multiply(int64 a, int64 b)
{
	int64		product;

	if (pg_mul_s64_overflow(a, b, &product))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("sizes are too big")));
	return product;
}

int64
window_span(const Window *w, int axis)
{
	return add(multiply(w->dilation[axis], w->kernel[axis] - 1), 1);
}

int64
window_output(const Window *w, int axis, int64 in, bool ceil_mode)
{
	int64		stride = w->stride[axis];
	int64		inside = add(in, w->pad_begin[axis]);
	int64		room = add(inside, w->pad_end[axis]) - window_span(w, axis);
	int64		slides = room / stride;

	if (room % stride < 0)
		slides--;
	if (ceil_mode && slides * stride < room)
		slides++;
	if (ceil_mode && slides * stride >= inside)
		slides--;
	return slides + 1;
}

int64
window_input(const Window *w, int axis, int64 out, int64 output_padding)
{
	int64		slides = multiply(out - 1, w->stride[axis]);
	int64		padding = add(w->pad_begin[axis], w->pad_end[axis]);

	return add(add(slides, add(window_span(w, axis), output_padding)), -padding);
}

/*
 * Window arithmetic of convolution and pooling, in int64, pure. What a size
 * means is said here and nowhere else. ERROR 54000 on overflow.
 */
#ifndef SHAPE_H
#define SHAPE_H

#define MAX_SPATIAL 3

/*
 * A window that slides over up to three spatial axes. Zeroed before it is
 * filled, so that it can be compared and hashed as bytes.
 */
typedef struct Window
{
	int64		nd;				/* spatial axes in use, 1 to 3 */
	int64		kernel[MAX_SPATIAL];
	int64		stride[MAX_SPATIAL];
	int64		dilation[MAX_SPATIAL];
	int64		pad_begin[MAX_SPATIAL];
	int64		pad_end[MAX_SPATIAL];
} Window;

/* Input elements that a window spans on an axis: dilation * (kernel - 1) + 1. */
extern int64 window_span(const Window *w, int axis);

/*
 * Positions of the window on an axis of `in` elements: (in + pad_begin +
 * pad_end - span) / stride + 1, rounded down, or up with ceil_mode (then a last
 * window that would start beyond input and begin padding is dropped). Less than
 * 1 where the window does not fit.
 */
extern int64 window_output(const Window *w, int axis, int64 in, bool ceil_mode);

/*
 * The input size that a transposed convolution gives: (out - 1) * stride -
 * pad_begin - pad_end + span + output_padding.
 */
extern int64 window_input(const Window *w, int axis, int64 out, int64 output_padding);

#endif							/* SHAPE_H */

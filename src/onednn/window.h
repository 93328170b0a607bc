/* Windows, as oneDNN counts them. */
#ifndef ONEDNN_WINDOW_H
#define ONEDNN_WINDOW_H

#include "compat.h"
#include "shape.h"

typedef struct DnWindow
{
	dnnl_dims_t kernel;
	dnnl_dims_t stride;
	dnnl_dims_t dilation;		/* 0 where elements are neighbours */
	dnnl_dims_t pad_begin;
	dnnl_dims_t pad_end;
} DnWindow;

/* window_span() of shape.h. */
static inline int64
dn_span(const DnWindow *w, int axis)
{
	return (w->dilation[axis] + 1) * (w->kernel[axis] - 1) + 1;
}

static inline void
dn_window(DnWindow *to, const Window *from)
{
	memset(to, 0, sizeof(*to));
	for (int i = 0; i < from->nd; i++)
	{
		to->kernel[i] = from->kernel[i];
		to->stride[i] = from->stride[i];
		to->dilation[i] = from->dilation[i] - 1;
		to->pad_begin[i] = from->pad_begin[i];
		to->pad_end[i] = from->pad_end[i];
	}
}

/*
 * Can the library count it? It has 32 bits for the elements of a window, for
 * those of the padded input, of shape (N, C, i..), and for a step into the
 * padding.
 */
static inline bool
dn_window_is_countable(const DnWindow *w, int nd, const int64 *dims)
{
	int64		elements = 1;

	for (int i = 0; i < nd; i++)
	{
		elements *= w->kernel[i];
		if (elements > PG_INT32_MAX ||
			w->pad_begin[i] + dims[2 + i] + w->pad_end[i] > PG_INT32_MAX ||
			w->pad_end[i] + w->stride[i] > PG_INT32_MAX)
			return false;
	}
	return true;
}

#define DN_UNCOUNTABLE "oneDNN counts windows and padding in 32 bits"

#endif							/* ONEDNN_WINDOW_H */

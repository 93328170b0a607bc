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

#endif							/* ONEDNN_WINDOW_H */

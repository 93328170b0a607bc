/*
 * What differs between releases of oneDNN, and the only place that asks which it
 * is: primitive descriptors, which release 2 makes of an operation descriptor
 * first and release 3 at once. Each function gives the status of the library.
 */
#ifndef ONEDNN_COMPAT_H
#define ONEDNN_COMPAT_H

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include "shape.h"

#if DNNL_VERSION_MAJOR != 2 || DNNL_VERSION_MINOR < 4
#error "the onednn provider is written for oneDNN 2.4 or a later 2"
#endif

typedef dnnl_memory_desc_t DnShape;

/* A window as the library counts: a dilation of 1 is 0 there. */
typedef struct DnWindow
{
	dnnl_dims_t kernel;
	dnnl_dims_t stride;
	dnnl_dims_t dilation;
	dnnl_dims_t pad_begin;
	dnnl_dims_t pad_end;
} DnWindow;

/* How a primitive is made, whatever it computes. */
typedef struct DnMaker
{
	dnnl_engine_t engine;
	dnnl_primitive_attr_t attr;
} DnMaker;

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

/* Elements in C order. */
static inline dnnl_status_t
dn_shape_plain(DnShape *shape, dnnl_data_type_t type, int rank, const dnnl_dims_t dims)
{
	return dnnl_memory_desc_init_by_strides(shape, rank, dims, type, NULL);
}

/* Elements in the order that the primitive likes best. */
static inline dnnl_status_t
dn_shape_any(DnShape *shape, dnnl_data_type_t type, int rank, const dnnl_dims_t dims)
{
	return dnnl_memory_desc_init_by_tag(shape, rank, dims, type, dnnl_format_tag_any);
}

/* (N, C, s..) with the channels of a place side by side. */
static inline dnnl_status_t
dn_shape_channels_last(DnShape *shape, dnnl_data_type_t type, int rank, const dnnl_dims_t dims)
{
	static const dnnl_format_tag_t tags[] = {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc};

	return dnnl_memory_desc_init_by_tag(shape, rank, dims, type, tags[rank - 3]);
}

static inline dnnl_status_t
dn_make(dnnl_primitive_desc_t *made, dnnl_status_t status, const void *operation,
		const DnMaker *maker, const_dnnl_primitive_desc_t forward)
{
	return status != dnnl_success ? status :
		dnnl_primitive_desc_create(made, operation, maker->attr, maker->engine, forward);
}

static inline dnnl_status_t
dn_make_conv(dnnl_primitive_desc_t *made, const DnMaker *maker, const DnShape *x, const DnShape *w,
			 const DnShape *bias, const DnShape *y, const DnWindow *window)
{
	dnnl_convolution_desc_t op;
	dnnl_status_t status;

	status = dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_direct,
														x, w, bias, y, window->stride, window->dilation,
														window->pad_begin, window->pad_end);
	return dn_make(made, status, &op, maker, NULL);
}

static inline dnnl_status_t
dn_make_conv_input(dnnl_primitive_desc_t *made, const DnMaker *maker, const DnShape *dx, const DnShape *w,
				   const DnShape *dy, const DnWindow *window, const_dnnl_primitive_desc_t forward)
{
	dnnl_convolution_desc_t op;
	dnnl_status_t status;

	status = dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, dx, w, dy,
															  window->stride, window->dilation,
															  window->pad_begin, window->pad_end);
	return dn_make(made, status, &op, maker, forward);
}

static inline dnnl_status_t
dn_make_conv_weight(dnnl_primitive_desc_t *made, const DnMaker *maker, const DnShape *x, const DnShape *dw,
					const DnShape *dy, const DnWindow *window, const_dnnl_primitive_desc_t forward)
{
	dnnl_convolution_desc_t op;
	dnnl_status_t status;

	status = dnnl_dilated_convolution_backward_weights_desc_init(&op, dnnl_convolution_direct, x, dw, NULL, dy,
																 window->stride, window->dilation,
																 window->pad_begin, window->pad_end);
	return dn_make(made, status, &op, maker, forward);
}

static inline dnnl_status_t
dn_make_pool(dnnl_primitive_desc_t *made, const DnMaker *maker, dnnl_prop_kind_t kind, dnnl_alg_kind_t mode,
			 const DnShape *x, const DnShape *y, const DnWindow *window)
{
	dnnl_pooling_v2_desc_t op;
	dnnl_status_t status;

	status = dnnl_pooling_v2_forward_desc_init(&op, kind, mode, x, y, window->stride, window->kernel,
											   window->dilation, window->pad_begin, window->pad_end);
	return dn_make(made, status, &op, maker, NULL);
}

static inline dnnl_status_t
dn_make_pool_backward(dnnl_primitive_desc_t *made, const DnMaker *maker, dnnl_alg_kind_t mode,
					  const DnShape *dx, const DnShape *dy, const DnWindow *window,
					  const_dnnl_primitive_desc_t forward)
{
	dnnl_pooling_v2_desc_t op;
	dnnl_status_t status;

	status = dnnl_pooling_v2_backward_desc_init(&op, mode, dx, dy, window->stride, window->kernel,
												window->dilation, window->pad_begin, window->pad_end);
	return dn_make(made, status, &op, maker, forward);
}

static inline dnnl_status_t
dn_make_norm(dnnl_primitive_desc_t *made, const DnMaker *maker, dnnl_prop_kind_t kind, const DnShape *x,
			 float eps, unsigned flags)
{
	dnnl_batch_normalization_desc_t op;

	return dn_make(made, dnnl_batch_normalization_forward_desc_init(&op, kind, x, eps, flags),
				   &op, maker, NULL);
}

#endif							/* ONEDNN_COMPAT_H */

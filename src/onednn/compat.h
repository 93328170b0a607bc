/*
 * What differs between releases of oneDNN, and the only place that asks which it
 * is. The provider is written for release 3; for release 2 its functions are made
 * here of those that release 2 has.
 */
#ifndef ONEDNN_COMPAT_H
#define ONEDNN_COMPAT_H

#include <stdlib.h>

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#if DNNL_VERSION_MAJOR > 3 || DNNL_VERSION_MAJOR < 2 || (DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR < 4)
#error "the onednn provider is written for oneDNN 2.4 to 3"
#endif

/*
 * The shape, type and layout of a tensor: to look at, and as the owner has it who
 * must destroy it.
 */
#if DNNL_VERSION_MAJOR == 3
typedef const_dnnl_memory_desc_t DnShape;
typedef dnnl_memory_desc_t DnOwnedShape;
#else
typedef const dnnl_memory_desc_t *DnShape;
typedef dnnl_memory_desc_t *DnOwnedShape;

static inline dnnl_status_t
dnnl_memory_desc_create_with_tag(DnOwnedShape *made, int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
								 dnnl_format_tag_t tag)
{
	DnOwnedShape shape = malloc(sizeof(*shape));
	dnnl_status_t status;

	if (shape == NULL)
		return dnnl_out_of_memory;
	status = dnnl_memory_desc_init_by_tag(shape, rank, dims, type, tag);
	if (status == dnnl_success)
		*made = shape;
	else
		free(shape);
	return status;
}

static inline dnnl_status_t
dnnl_memory_desc_destroy(DnOwnedShape shape)
{
	free(shape);
	return dnnl_success;
}

/* The primitive descriptor of an operation descriptor, if that one's status is good. */
static inline dnnl_status_t
dn_describe(dnnl_primitive_desc_t *made, dnnl_engine_t engine, dnnl_status_t status, const void *operation,
			const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr)
{
	return status != dnnl_success ? status : dnnl_primitive_desc_create(made, operation, attr, engine, forward);
}

static inline dnnl_status_t
dnnl_convolution_forward_primitive_desc_create(dnnl_primitive_desc_t *made, dnnl_engine_t engine,
											   dnnl_prop_kind_t kind, dnnl_alg_kind_t algorithm, DnShape x,
											   DnShape w, DnShape bias, DnShape y, const dnnl_dims_t stride,
											   const dnnl_dims_t dilation, const dnnl_dims_t pad_begin,
											   const dnnl_dims_t pad_end, const_dnnl_primitive_attr_t attr)
{
	dnnl_convolution_desc_t op;
	dnnl_status_t status;

	status = dnnl_dilated_convolution_forward_desc_init(&op, kind, algorithm, x, w, bias, y, stride, dilation,
														pad_begin, pad_end);
	return dn_describe(made, engine, status, &op, NULL, attr);
}

static inline dnnl_status_t
dnnl_convolution_backward_data_primitive_desc_create(dnnl_primitive_desc_t *made, dnnl_engine_t engine,
													 dnnl_alg_kind_t algorithm, DnShape dx, DnShape w, DnShape dy,
													 const dnnl_dims_t stride, const dnnl_dims_t dilation,
													 const dnnl_dims_t pad_begin, const dnnl_dims_t pad_end,
													 const_dnnl_primitive_desc_t forward,
													 const_dnnl_primitive_attr_t attr)
{
	dnnl_convolution_desc_t op;
	dnnl_status_t status;

	status = dnnl_dilated_convolution_backward_data_desc_init(&op, algorithm, dx, w, dy, stride, dilation,
															  pad_begin, pad_end);
	return dn_describe(made, engine, status, &op, forward, attr);
}

static inline dnnl_status_t
dnnl_convolution_backward_weights_primitive_desc_create(dnnl_primitive_desc_t *made, dnnl_engine_t engine,
														dnnl_alg_kind_t algorithm, DnShape x, DnShape dw,
														DnShape dbias, DnShape dy, const dnnl_dims_t stride,
														const dnnl_dims_t dilation, const dnnl_dims_t pad_begin,
														const dnnl_dims_t pad_end,
														const_dnnl_primitive_desc_t forward,
														const_dnnl_primitive_attr_t attr)
{
	dnnl_convolution_desc_t op;
	dnnl_status_t status;

	status = dnnl_dilated_convolution_backward_weights_desc_init(&op, algorithm, x, dw, dbias, dy, stride,
																 dilation, pad_begin, pad_end);
	return dn_describe(made, engine, status, &op, forward, attr);
}

static inline dnnl_status_t
dnnl_pooling_forward_primitive_desc_create(dnnl_primitive_desc_t *made, dnnl_engine_t engine,
										   dnnl_prop_kind_t kind, dnnl_alg_kind_t algorithm, DnShape x, DnShape y,
										   const dnnl_dims_t stride, const dnnl_dims_t kernel,
										   const dnnl_dims_t dilation, const dnnl_dims_t pad_begin,
										   const dnnl_dims_t pad_end, const_dnnl_primitive_attr_t attr)
{
	dnnl_pooling_v2_desc_t op;
	dnnl_status_t status;

	status = dnnl_pooling_v2_forward_desc_init(&op, kind, algorithm, x, y, stride, kernel, dilation, pad_begin,
											   pad_end);
	return dn_describe(made, engine, status, &op, NULL, attr);
}

static inline dnnl_status_t
dnnl_pooling_backward_primitive_desc_create(dnnl_primitive_desc_t *made, dnnl_engine_t engine,
											dnnl_alg_kind_t algorithm, DnShape dx, DnShape dy,
											const dnnl_dims_t stride, const dnnl_dims_t kernel,
											const dnnl_dims_t dilation, const dnnl_dims_t pad_begin,
											const dnnl_dims_t pad_end, const_dnnl_primitive_desc_t forward,
											const_dnnl_primitive_attr_t attr)
{
	dnnl_pooling_v2_desc_t op;
	dnnl_status_t status;

	status = dnnl_pooling_v2_backward_desc_init(&op, algorithm, dx, dy, stride, kernel, dilation, pad_begin,
												pad_end);
	return dn_describe(made, engine, status, &op, forward, attr);
}

static inline dnnl_status_t
dnnl_batch_normalization_forward_primitive_desc_create(dnnl_primitive_desc_t *made, dnnl_engine_t engine,
													   dnnl_prop_kind_t kind, DnShape x, DnShape y, float eps,
													   unsigned flags, const_dnnl_primitive_attr_t attr)
{
	dnnl_batch_normalization_desc_t op;
	dnnl_status_t status;

	(void) y;
	status = dnnl_batch_normalization_forward_desc_init(&op, kind, x, eps, flags);
	return dn_describe(made, engine, status, &op, NULL, attr);
}
#endif

#endif							/* ONEDNN_COMPAT_H */

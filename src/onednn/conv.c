/*
 * Convolution and its gradients. All three relate the same tensors: image
 * (N, C, i..), filter (O, C/g, k..) and response (N, O, o..); one of them is the
 * result.
 */
#include "postgres.h"

#include "element.h"
#include "kernels.h"
#include "plan.h"
#include "window.h"

/* A sum of more products than that, one after the other in float32, is off by more than 9e-7. */
#define LONG_SUM 2400

/* From so many products and positions on, reorders are little against a strided product of matrices. */
#define MEDIUM_SUM 1024
#define MANY_POSITIONS 2048

/* The three tensors, the layouts that the primitive may choose, and the window. */
typedef struct Conv
{
	PlanTensor *image;
	PlanTensor *filter;
	PlanTensor *response;
	PlanTensor *bias;			/* of the response; NULL: none */
	DnShape		image_layout;
	DnShape		filter_layout;
	DnShape		response_layout;
	DnWindow	window;
	bool		odd;			/* as is_odd says of some axis */
} Conv;

/* The filter, (O, C/g, k..) or with groups (g, O/g, C/g, k..). */
static PlanTensor *
filter_tensor(Plan *plan, const OpTask *task, int place, const TensorShape *shape, int64 groups)
{
	int64		dims[MAX_SPATIAL + 3] = {groups, shape->dims[0] / groups};

	if (groups == 1)
		return dn_tensor(plan, task, place);
	memcpy(dims + 2, shape->dims + 1, (shape->rank - 1) * sizeof(int64));
	return dn_tensor_as(plan, task, place, shape->rank + 1, dims);
}

/* A window of one element without padding, whatever its stride: a product of matrices. */
static bool
is_matrix_product(const Window *w, bool *strided)
{
	*strided = false;
	for (int i = 0; i < w->nd; i++)
	{
		if (w->kernel[i] != 1 || w->pad_begin[i] + w->pad_end[i] > 0)
			return false;
		*strided |= w->stride[i] != 1;
	}
	return true;
}

/* How many products are added up to an element of the result. */
static int64
sum_length(const OpTask *task)
{
	const ConvParams *params = task->params;

	switch (task->id)
	{
		case OP_CONV:
			return elements_from(&task->in[1].shape, 1);
		case OP_CONV_BACKWARD_WEIGHT:
			return task->in[0].shape.dims[0] * elements_from(&task->in[0].shape, 2);
		default:
			return task->in[1].shape.dims[0] / params->groups * elements_from(&task->in[1].shape, 2);
	}
}

/* Are sums and positions of the first input so many that reorders are little against the products? */
static bool
is_big(const OpTask *task)
{
	const TensorShape *in = &task->in[0].shape;

	return sum_length(task) >= MEDIUM_SUM && in->dims[0] * elements_from(in, 2) >= MANY_POSITIONS;
}

/*
 * C order is best where a product of matrices needs no reorders (a big strided one
 * is worth them), and where sums are long: there oneDNN multiplies matrices block
 * by block, while in a layout of its own choice it would add up one product after
 * the other and lose more than float32 should.
 */
static bool
prefers_c_order(const OpTask *task)
{
	const ConvParams *params = task->params;
	bool		strided;

	return (params->groups == 1 && is_matrix_product(&params->window, &strided) && !(strided && is_big(task))) ||
		sum_length(task) > LONG_SUM;
}

/*
 * Where an axis of `in` elements has one position, its stride means nothing: it
 * becomes the shortest that leaves one, for oneDNN adds to it in 32 bits.
 */
static void
shorten_stride(DnWindow *w, int axis, int64 in, int64 out)
{
	if (out == 1)
		w->stride[axis] = w->pad_begin[axis] + in + w->pad_end[axis] - dn_span(w, axis) + 1;
}

/*
 * Is the window larger than the image, or all in the padding somewhere, or are
 * there elements beside an only position? There oneDNN 3.7 in its own layouts gives
 * wrong sums or reads where nothing is: seen on AVX-512, most of it in bfloat16.
 */
static bool
is_odd(const DnWindow *w, int axis, int64 in, int64 out)
{
	return in < dn_span(w, axis) || Max(w->pad_begin[axis], w->pad_end[axis]) >= dn_span(w, axis) ||
		(out == 1 && w->stride[axis] > 1);
}

/* The tensors of a task, by their places. */
static bool
conv_tensors(Plan *plan, const OpTask *task, int image, int filter, const TensorShape *filter_shape,
			 int response, Conv *conv)
{
	const ConvParams *params = task->params;

	conv->image = dn_tensor(plan, task, image);
	conv->filter = filter_tensor(plan, task, filter, filter_shape, params->groups);
	conv->response = dn_tensor(plan, task, response);
	if (dn.fault.set)
		return false;
	dn_window(&conv->window, &params->window);
	for (int i = 0; i < params->window.nd; i++)
	{
		int64		in = conv->image->dims[2 + i],
					out = conv->response->dims[2 + i];

		shorten_stride(&conv->window, i, in, out);
		conv->odd |= is_odd(&conv->window, i, in, out);
	}
	return dn_window_is_countable(&conv->window, params->window.nd, conv->image->dims) ||
		dn_fault(OP_CANNOT, DN_UNCOUNTABLE);
}

/* Makes a primitive of the tensors in their layouts: the plan's, or NULL with a fault. */
typedef dnnl_primitive_desc_t *(*ConvMaker) (Plan *plan, const Conv *conv);

static dnnl_primitive_desc_t *
make_in(Plan *plan, Conv *conv, dnnl_format_tag_t layout, ConvMaker make)
{
	conv->image_layout = dn_layout(plan, conv->image, layout);
	conv->filter_layout = dn_layout(plan, conv->filter, layout);
	conv->response_layout = dn_layout(plan, conv->response, layout);
	return dn.fault.set ? NULL : make(plan, conv);
}

/* Is it one of the plain loops, or made of one? These are a hundred times slower than the others. */
static bool
is_plain(const_dnnl_primitive_desc_t made)
{
	const char *name;

	return DN(dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, &name)) &&
		strstr(name, "ref:") != NULL;
}

/* Makes the primitive in the best layout. In C order big kernels have only plain loops. */
static dnnl_primitive_desc_t *
make_best(Plan *plan, const OpTask *task, Conv *conv, ConvMaker make)
{
	dnnl_primitive_desc_t *made;

	if (conv->odd || prefers_c_order(task))
	{
		made = make_in(plan, conv, PLAN_C_ORDER, make);
		if (made == NULL || conv->odd || !is_plain(*made))
			return made;
	}
	return make_in(plan, conv, dnnl_format_tag_any, make);
}

/* The forward convolution, with [bias (O)]. */
static dnnl_primitive_desc_t *
make_forward(Plan *plan, const Conv *conv)
{
	dnnl_primitive_desc_t *made = dn_primitive(plan);
	const DnWindow *w = &conv->window;

	return DN(dnnl_convolution_forward_primitive_desc_create(
				  made, dn.engine, dnnl_forward_inference, dnnl_convolution_direct, conv->image_layout,
				  conv->filter_layout, conv->bias == NULL ? NULL : conv->bias->shape, conv->response_layout,
				  w->stride, w->dilation, w->pad_begin, w->pad_end, dn.attr)) ? made : NULL;
}

static bool
write_conv(Plan *plan, const OpTask *task)
{
	Conv		conv = {.bias = dn_tensor(plan, task, PLAN_IN(2))};
	dnnl_primitive_desc_t *made;

	if (!conv_tensors(plan, task, PLAN_IN(0), PLAN_IN(1), &task->in[1].shape, PLAN_OUT(0), &conv))
		return false;
	made = make_best(plan, task, &conv, make_forward);
	return made != NULL && dn_step(plan, *made, (PlanArg[]) {
				{DNNL_ARG_SRC, conv.image},
				{DNNL_ARG_WEIGHTS, conv.filter},
				{DNNL_ARG_BIAS, conv.bias},
				{DNNL_ARG_DST, conv.response},
				}, 4);
}

/* x (N,C,i..), w (O,C/g,k..), [b (O)] -> y (N,O,o..) */
OpOutcome
dn_conv(OpTask *task)
{
	return dn_run(task, write_conv);
}

/*
 * The gradients want to know a forward convolution of the same tensors; it never
 * runs.
 */
static dnnl_primitive_desc_t *
make_input(Plan *plan, const Conv *conv)
{
	dnnl_primitive_desc_t *forward = make_forward(plan, conv);
	dnnl_primitive_desc_t *made = dn_primitive(plan);
	const DnWindow *w = &conv->window;

	return forward != NULL && DN(dnnl_convolution_backward_data_primitive_desc_create(
			made, dn.engine, dnnl_convolution_direct, conv->image_layout, conv->filter_layout, conv->response_layout,
			w->stride, w->dilation, w->pad_begin, w->pad_end, *forward, dn.attr)) ? made : NULL;
}

static bool
write_conv_input(Plan *plan, const OpTask *task)
{
	Conv		conv = {0};
	dnnl_primitive_desc_t *made;

	if (!conv_tensors(plan, task, PLAN_OUT(0), PLAN_IN(1), &task->in[1].shape, PLAN_IN(0), &conv))
		return false;
	made = make_best(plan, task, &conv, make_input);
	return made != NULL && dn_step(plan, *made, (PlanArg[]) {
				{DNNL_ARG_DIFF_DST, conv.response},
				{DNNL_ARG_WEIGHTS, conv.filter},
				{DNNL_ARG_DIFF_SRC, conv.image},
				}, 3);
}

/* x (N,C,s..) += bias (C) */
static void
add_bias(const TensorView *x, const TensorView *bias)
{
	int64		channels = x->shape.dims[0] * x->shape.dims[1];
	int64		size = elements_from(&x->shape, 2);

	for (int64 c = 0; c < channels; c++)
	{
		float		b = element_get(bias, c % x->shape.dims[1]);

		for (int64 i = c * size; i < (c + 1) * size; i++)
			element_set(x, i, element_get(x, i) + b);
	}
}

/* dy (N,O,o..), w (O,C/g,k..), [b (C)] -> dx (N,C,i..) (+ b) */
OpOutcome
dn_conv_backward_input(OpTask *task)
{
	const TensorView *bias = &task->in[2];
	OpOutcome	outcome = dn_run(task, write_conv_input);

	if (outcome == OP_DONE && bias->data != NULL)
		add_bias(&task->out[0], bias);
	return outcome;
}

static dnnl_primitive_desc_t *
make_weight(Plan *plan, const Conv *conv)
{
	dnnl_primitive_desc_t *forward = make_forward(plan, conv);
	dnnl_primitive_desc_t *made = dn_primitive(plan);
	const DnWindow *w = &conv->window;

	return forward != NULL && DN(dnnl_convolution_backward_weights_primitive_desc_create(
			made, dn.engine, dnnl_convolution_direct, conv->image_layout, conv->filter_layout, NULL,
			conv->response_layout, w->stride, w->dilation, w->pad_begin, w->pad_end, *forward, dn.attr)) ? made : NULL;
}

static bool
write_conv_weight(Plan *plan, const OpTask *task)
{
	Conv		conv = {0};
	dnnl_primitive_desc_t *made;

	if (!conv_tensors(plan, task, PLAN_IN(1), PLAN_OUT(0), &task->out[0].shape, PLAN_IN(0), &conv))
		return false;
	/* seen in oneDNN 2.6 on AVX512_BF16: short rows are summed with what is beside them */
	plan->clean_scratch = task->in[0].dtype == DT_BFLOAT16;
	made = make_best(plan, task, &conv, make_weight);
	return made != NULL && dn_step(plan, *made, (PlanArg[]) {
				{DNNL_ARG_SRC, conv.image},
				{DNNL_ARG_DIFF_DST, conv.response},
				{DNNL_ARG_DIFF_WEIGHTS, conv.filter},
				}, 3);
}

/* dy (N,O,o..), x (N,C,i..) -> dw (O,C/g,k..) */
OpOutcome
dn_conv_backward_weight(OpTask *task)
{
	return dn_run(task, write_conv_weight);
}

/* dy (N,O,S) -> db (O), where oneDNN's sums in float lose too much. */
OpOutcome
dn_conv_backward_bias(OpTask *task)
{
	const TensorView *dy = &task->in[0];
	const int64 *dims = dy->shape.dims;
	OpOutcome	outcome = dn_begin(task);

	if (outcome != OP_DONE)
		return outcome;
#pragma omp parallel for schedule(static)
	for (int64 o = 0; o < dims[1]; o++)
	{
		double		sum = 0;

		for (int64 n = 0; n < dims[0]; n++)
			sum += element_sum(dy, (n * dims[1] + o) * dims[2], dims[2]);
		element_set(&task->out[0], o, sum);
	}
	return dn_end(task, true);
}

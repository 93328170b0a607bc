/*
 * Convolution: conv{n}d, conv_transpose{n}d and their gradients, n = 1 to 3.
 * What the shapes must be, and nothing of how they are computed. Convolution is
 * cross-correlation, as in PyTorch, whose names and defaults these are.
 */
#include "postgres.h"

#include "fmgr.h"

#include "op.h"

/*
 * Checks what input and weight are before any option is read: one type, ranks
 * for n spatial axes, no empty axis but the batch.
 */
static void
conv_check_operands(int nd, const char *xname, const TensorView *x, const char *wname, const TensorView *w)
{
	check_float(xname, x);
	check_same_dtype(xname, x, wname, w);
	check_rank(xname, x, nd + 2, spatial_layout(nd));
	check_rank(wname, w, nd + 2, "out channels, in channels / groups, kernel");
	check_not_empty(xname, &x->shape, 1);
	check_not_empty(wname, &w->shape, 0);
}

static void
conv_check_bias(const TensorView *x, const TensorView *bias, int64 channels)
{
	TensorShape shape = {1, {channels}};

	if (bias == NULL)
		return;
	check_same_dtype("input", x, "bias", bias);
	check_shape("bias", bias, &shape, "the output channels");
}

/*
 * Shape of conv(x, w): (N, O, o..). ERROR 22023 when groups do not divide the
 * channels or the window does not fit, 22000 when the channels differ.
 */
static void
conv_check(const ConvParams *params, const TensorShape *x, const TensorShape *w, TensorShape *y)
{
	const Window *window = &params->window;

	if (params->groups < 1 || w->dims[0] % params->groups != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("groups must divide the output channels"),
				 errdetail("groups is " INT64_FORMAT ", the shape of weight is %s.",
						   params->groups, shape_text(w))));
	if (x->dims[1] % params->groups != 0 || x->dims[1] / params->groups != w->dims[1])
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("channels of input and weight do not fit"),
				 errdetail("input %s has " INT64_FORMAT " channels, weight %s wants " INT64_FORMAT " in each of " INT64_FORMAT " groups.",
						   shape_text(x), x->dims[1], shape_text(w), w->dims[1], params->groups)));

	y->rank = x->rank;
	y->dims[0] = x->dims[0];
	y->dims[1] = w->dims[0];
	for (int i = 0; i < window->nd; i++)
		y->dims[2 + i] = window_output(window, i, x->dims[2 + i], false);
	check_window_fits(window, x, y);
}

/*
 * output_padding of a transposed convolution: elements added at the end of an
 * axis, less than its stride (more would be rows that no input reaches); 0 when
 * NULL.
 */
static void
arg_output_padding(FunctionCallInfo fcinfo, int argno, const Window *window, int64 *output_padding)
{
	if (!arg_spatial(fcinfo, argno, "output_padding", window->nd, 0, output_padding))
		memset(output_padding, 0, MAX_SPATIAL * sizeof(int64));
	for (int i = 0; i < window->nd; i++)
		if (output_padding[i] >= window->stride[i])
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("output_padding must be less than stride"),
					 errdetail("On spatial axis %d output_padding is " INT64_FORMAT ", stride is " INT64_FORMAT ".",
							   i, output_padding[i], window->stride[i])));
}

/* conv{n}d(input, weight, bias, stride, padding, dilation, groups) */
static Datum
conv_forward(FunctionCallInfo fcinfo, int nd)
{
	OpCall		call;
	ConvParams	params = {0};
	TensorShape shape;
	TensorView *x,
			   *w,
			   *b;

	op_begin(&call, OP_CONV, &params, fcinfo);
	x = op_input(&call, 0, "input");
	w = op_input(&call, 1, "weight");
	b = op_input(&call, 2, "bias");
	if (x == NULL || w == NULL)
		PG_RETURN_NULL();

	conv_check_operands(nd, "input", x, "weight", w);
	arg_window(fcinfo, nd, w->shape.dims + 2, 3, false, 4, 5, &params.window);
	params.groups = arg_int(fcinfo, 6, 1);
	conv_check(&params, &x->shape, &w->shape, &shape);
	conv_check_bias(x, b, shape.dims[1]);

	op_output(&call, x->dtype, &shape);
	op_execute(&call);
	return op_datum(&call, 0);
}

/*
 * conv_transpose{n}d(input, weight, bias, stride, padding, output_padding,
 * groups, dilation): input (N, I, i..), weight (I, O/groups, k..), bias (O) ->
 * (N, O, o..), o = (i - 1) * stride - pad_begin - pad_end + dilation * (k - 1) +
 * 1 + output_padding: the gradient of a convolution that would make i of o.
 */
static Datum
conv_transpose(FunctionCallInfo fcinfo, int nd)
{
	OpCall		call;
	ConvParams	params = {0};
	TensorShape shape,
				back;
	int64		output_padding[MAX_SPATIAL];
	TensorView *x,
			   *w,
			   *b;

	op_begin(&call, OP_CONV_BACKWARD_INPUT, &params, fcinfo);
	x = op_input(&call, 0, "input");
	w = op_input(&call, 1, "weight");
	b = op_input(&call, 2, "bias");
	if (x == NULL || w == NULL)
		PG_RETURN_NULL();

	conv_check_operands(nd, "input", x, "weight", w);
	arg_window(fcinfo, nd, w->shape.dims + 2, 3, false, 4, 7, &params.window);
	arg_output_padding(fcinfo, 5, &params.window, output_padding);
	params.groups = arg_int(fcinfo, 6, 1);

	shape.rank = x->shape.rank;
	shape.dims[0] = x->shape.dims[0];
	shape.dims[1] = w->shape.dims[1] * Max(params.groups, 1);
	for (int i = 0; i < nd; i++)
		shape.dims[2 + i] = window_input(&params.window, i, x->shape.dims[2 + i], output_padding[i]);
	check_window_fits(&params.window, &x->shape, &shape);
	conv_check(&params, &shape, &w->shape, &back);
	check_shape("input", x, &back, "weight");
	conv_check_bias(x, b, shape.dims[1]);

	op_output(&call, x->dtype, &shape);
	op_execute(&call);
	return op_datum(&call, 0);
}

/*
 * conv{n}d_backward_input(grad_output, weight, input_shape, stride, padding,
 * dilation, groups): gradient of conv{n}d by its input.
 */
static Datum
conv_backward_input(FunctionCallInfo fcinfo, int nd)
{
	OpCall		call;
	ConvParams	params = {0};
	TensorShape xshape,
				yshape;
	TensorView *dy,
			   *w;

	op_begin(&call, OP_CONV_BACKWARD_INPUT, &params, fcinfo);
	dy = op_input(&call, 0, "grad_output");
	w = op_input(&call, 1, "weight");
	if (dy == NULL || w == NULL || !arg_shape(fcinfo, 2, "input_shape", &xshape))
		PG_RETURN_NULL();

	conv_check_operands(nd, "grad_output", dy, "weight", w);
	check_rank("input_shape", &(TensorView) {.shape = xshape}, nd + 2, spatial_layout(nd));
	check_not_empty("input_shape", &xshape, 1);
	arg_window(fcinfo, nd, w->shape.dims + 2, 3, false, 4, 5, &params.window);
	params.groups = arg_int(fcinfo, 6, 1);
	conv_check(&params, &xshape, &w->shape, &yshape);
	check_shape("grad_output", dy, &yshape, "what the convolution gives");

	op_output(&call, dy->dtype, &xshape);
	op_execute(&call);
	return op_datum(&call, 0);
}

/*
 * conv{n}d_backward_weight(grad_output, input, weight_shape, stride, padding,
 * dilation, groups): gradient of conv{n}d by its weight.
 */
static Datum
conv_backward_weight(FunctionCallInfo fcinfo, int nd)
{
	OpCall		call;
	ConvParams	params = {0};
	TensorShape wshape,
				yshape;
	TensorView *dy,
			   *x;

	op_begin(&call, OP_CONV_BACKWARD_WEIGHT, &params, fcinfo);
	dy = op_input(&call, 0, "grad_output");
	x = op_input(&call, 1, "input");
	if (dy == NULL || x == NULL || !arg_shape(fcinfo, 2, "weight_shape", &wshape))
		PG_RETURN_NULL();

	conv_check_operands(nd, "input", x, "weight_shape", &(TensorView) {.dtype = x->dtype, .shape = wshape});
	check_same_dtype("grad_output", dy, "input", x);
	arg_window(fcinfo, nd, wshape.dims + 2, 3, false, 4, 5, &params.window);
	params.groups = arg_int(fcinfo, 6, 1);
	conv_check(&params, &x->shape, &wshape, &yshape);
	check_shape("grad_output", dy, &yshape, "what the convolution gives");

	op_output(&call, dy->dtype, &wshape);
	op_execute(&call);
	return op_datum(&call, 0);
}

#define CONV_ENTRY_POINTS(n) \
PG_FUNCTION_INFO_V1(conv##n##d); \
Datum conv##n##d(PG_FUNCTION_ARGS) { return conv_forward(fcinfo, n); } \
PG_FUNCTION_INFO_V1(conv_transpose##n##d); \
Datum conv_transpose##n##d(PG_FUNCTION_ARGS) { return conv_transpose(fcinfo, n); } \
PG_FUNCTION_INFO_V1(conv##n##d_backward_input); \
Datum conv##n##d_backward_input(PG_FUNCTION_ARGS) { return conv_backward_input(fcinfo, n); } \
PG_FUNCTION_INFO_V1(conv##n##d_backward_weight); \
Datum conv##n##d_backward_weight(PG_FUNCTION_ARGS) { return conv_backward_weight(fcinfo, n); }

CONV_ENTRY_POINTS(1)
CONV_ENTRY_POINTS(2)
CONV_ENTRY_POINTS(3)

/*
 * conv_backward_bias(grad_output): (N, O, o..) -> (O), the gradient of a
 * convolution by its bias: the sum over all axes but the channels.
 */
PG_FUNCTION_INFO_V1(conv_backward_bias);
Datum
conv_backward_bias(PG_FUNCTION_ARGS)
{
	OpCall		call;
	TensorView *dy;
	TensorShape channels = {1, {0}};

	op_begin(&call, OP_CONV_BACKWARD_BIAS, NULL, fcinfo);
	dy = op_input(&call, 0, "grad_output");
	if (dy == NULL)
		PG_RETURN_NULL();

	check_float("grad_output", dy);
	check_spatial_rank("grad_output", dy, 3);
	check_not_empty("grad_output", &dy->shape, 1);
	channels.dims[0] = dy->shape.dims[1];
	merge_spatial(&dy->shape);

	op_output(&call, dy->dtype, &channels);
	op_execute(&call);
	return op_datum(&call, 0);
}

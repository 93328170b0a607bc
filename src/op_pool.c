/*
 * Pooling: max_pool{n}d, avg_pool{n}d, their gradients, and pooling over all of
 * an image, n = 1 to 3. What the shapes must be, and nothing of how they are
 * computed.
 */
#include "postgres.h"

#include "fmgr.h"

#include "op.h"

/* Numbers of the arguments of an entry point; -1 where it has no such option. */
typedef struct PoolArgs
{
	int			kernel_size;
	int			stride;
	int			padding;
	int			dilation;
	int			ceil_mode;
	int			count_include_pad;
} PoolArgs;

static const PoolArgs max_args = {1, 2, 3, 4, 5, -1};
static const PoolArgs avg_args = {1, 2, 3, -1, 4, 5};
static const PoolArgs max_backward_args = {3, 4, 5, 6, 7, -1};
static const PoolArgs avg_backward_args = {2, 3, 4, -1, 5, 6};

/* ERROR 22023 when a padding could hold a whole window. */
static void
pool_check_padding(const Window *window)
{
	for (int i = 0; i < window->nd; i++)
		if (Max(window->pad_begin[i], window->pad_end[i]) >= window->kernel[i])
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("padding must be less than kernel_size"),
					 errdetail("On spatial axis %d padding is " INT64_FORMAT " and " INT64_FORMAT ", kernel_size is " INT64_FORMAT ".",
							   i, window->pad_begin[i], window->pad_end[i], window->kernel[i])));
}

/*
 * Reads the options into params and gives the shape of the result, (N, C, o..).
 * False when kernel_size is NULL.
 */
static bool
pool_options(FunctionCallInfo fcinfo, const PoolArgs *args, int nd, const TensorShape *x,
			 PoolParams *params, TensorShape *y)
{
	Window	   *window = &params->window;
	bool		ceil_mode = arg_bool(fcinfo, args->ceil_mode, false);
	int64		kernel[MAX_SPATIAL];

	if (!arg_spatial(fcinfo, args->kernel_size, "kernel_size", nd, 1, kernel))
		return false;
	arg_window(fcinfo, nd, kernel, args->stride, true, args->padding, args->dilation, window);
	pool_check_padding(window);
	if (args == &max_args || args == &max_backward_args)
		params->mode = POOL_MAX;
	else
		params->mode = arg_bool(fcinfo, args->count_include_pad, true) ?
			POOL_AVG_INCLUDE_PAD : POOL_AVG_EXCLUDE_PAD;

	*y = *x;
	for (int i = 0; i < nd; i++)
		y->dims[2 + i] = window_output(window, i, x->dims[2 + i], ceil_mode);
	check_window_fits(window, x, y);
	return true;
}

static void
pool_check_input(int nd, const char *name, const TensorView *x)
{
	check_rank(name, x, nd + 2, spatial_layout(nd));
	check_not_empty(name, &x->shape, 1);
}

/* max_pool{n}d(...) and avg_pool{n}d(...) */
static Datum
pool_forward(FunctionCallInfo fcinfo, int nd, const PoolArgs *args)
{
	OpCall		call;
	PoolParams	params = {0};
	TensorShape shape;
	TensorView *x;

	op_begin(&call, OP_POOL, &params, fcinfo);
	x = op_input(&call, 0, "input");
	if (x == NULL)
		PG_RETURN_NULL();
	check_float("input", x);
	pool_check_input(nd, "input", x);
	if (!pool_options(fcinfo, args, nd, &x->shape, &params, &shape))
		PG_RETURN_NULL();

	op_output(&call, x->dtype, &shape);
	op_execute(&call);
	return op_datum(&call, 0);
}

/*
 * max_pool{n}d_backward(grad_output, input, output, ...): the gradient goes to
 * the first maximum of each window.
 */
static Datum
max_pool_backward(FunctionCallInfo fcinfo, int nd)
{
	OpCall		call;
	PoolParams	params = {0};
	TensorShape shape;
	TensorView *dy,
			   *x,
			   *y;

	op_begin(&call, OP_POOL_BACKWARD, &params, fcinfo);
	dy = op_input(&call, 0, "grad_output");
	x = op_input(&call, 1, "input");
	y = op_input(&call, 2, "output");
	if (dy == NULL || x == NULL || y == NULL)
		PG_RETURN_NULL();
	check_float("grad_output", dy);
	check_same_dtype("grad_output", dy, "input", x);
	check_same_dtype("grad_output", dy, "output", y);
	pool_check_input(nd, "input", x);
	if (!pool_options(fcinfo, &max_backward_args, nd, &x->shape, &params, &shape))
		PG_RETURN_NULL();
	check_shape("grad_output", dy, &shape, "what the pooling gives");
	check_shape("output", y, &shape, "what the pooling gives");

	op_output(&call, x->dtype, &x->shape);
	op_execute(&call);
	return op_datum(&call, 0);
}

/* avg_pool{n}d_backward(grad_output, input_shape, ...) */
static Datum
avg_pool_backward(FunctionCallInfo fcinfo, int nd)
{
	OpCall		call;
	PoolParams	params = {0};
	TensorView	x = {0};
	TensorShape shape;
	TensorView *dy;

	op_begin(&call, OP_POOL_BACKWARD, &params, fcinfo);
	dy = op_input(&call, 0, "grad_output");
	if (dy == NULL || !arg_shape(fcinfo, 1, "input_shape", &x.shape))
		PG_RETURN_NULL();
	check_float("grad_output", dy);
	pool_check_input(nd, "input_shape", &x);
	if (!pool_options(fcinfo, &avg_backward_args, nd, &x.shape, &params, &shape))
		PG_RETURN_NULL();
	check_shape("grad_output", dy, &shape, "what the pooling gives");

	op_output(&call, dy->dtype, &x.shape);
	op_execute(&call);
	return op_datum(&call, 0);
}

/* global_{avg,max}_pool(input): (N, C, i..) -> (N, C, 1..), one window over it all. */
static Datum
global_pool(FunctionCallInfo fcinfo, PoolMode mode)
{
	OpCall		call;
	PoolParams	params = {.mode = mode};
	Window	   *window = &params.window;
	TensorShape shape;
	TensorView *x;

	op_begin(&call, OP_POOL, &params, fcinfo);
	x = op_input(&call, 0, "input");
	if (x == NULL)
		PG_RETURN_NULL();
	check_float("input", x);
	check_spatial_rank("input", x, 3);
	check_not_empty("input", &x->shape, 1);

	shape = x->shape;
	window->nd = shape.rank - 2;
	for (int i = 0; i < window->nd; i++)
	{
		window->kernel[i] = shape.dims[2 + i];
		window->stride[i] = 1;
		window->dilation[i] = 1;
		shape.dims[2 + i] = 1;
	}

	op_output(&call, x->dtype, &shape);
	op_execute(&call);
	return op_datum(&call, 0);
}

#define POOL_ENTRY_POINTS(n) \
PG_FUNCTION_INFO_V1(max_pool##n##d); \
Datum max_pool##n##d(PG_FUNCTION_ARGS) { return pool_forward(fcinfo, n, &max_args); } \
PG_FUNCTION_INFO_V1(avg_pool##n##d); \
Datum avg_pool##n##d(PG_FUNCTION_ARGS) { return pool_forward(fcinfo, n, &avg_args); } \
PG_FUNCTION_INFO_V1(max_pool##n##d_backward); \
Datum max_pool##n##d_backward(PG_FUNCTION_ARGS) { return max_pool_backward(fcinfo, n); } \
PG_FUNCTION_INFO_V1(avg_pool##n##d_backward); \
Datum avg_pool##n##d_backward(PG_FUNCTION_ARGS) { return avg_pool_backward(fcinfo, n); }

POOL_ENTRY_POINTS(1)
POOL_ENTRY_POINTS(2)
POOL_ENTRY_POINTS(3)

PG_FUNCTION_INFO_V1(global_avg_pool);
Datum
global_avg_pool(PG_FUNCTION_ARGS)
{
	return global_pool(fcinfo, POOL_AVG_EXCLUDE_PAD);
}

PG_FUNCTION_INFO_V1(global_max_pool);
Datum
global_max_pool(PG_FUNCTION_ARGS)
{
	return global_pool(fcinfo, POOL_MAX);
}

/* Activations: elementwise, any shape of a float type to the same shape. */
#include "postgres.h"

#include "fmgr.h"

#include "op.h"

/* y = f(x); the kernel sees the elements as one axis. */
static Datum
activation_forward(FunctionCallInfo fcinfo, ActivationKind kind, double alpha)
{
	OpCall		call;
	ActivationParams params = {.kind = kind, .alpha = alpha};
	TensorView *x,
			   *y;

	op_begin(&call, OP_ACTIVATION, &params, fcinfo);
	x = op_input(&call, 0, "input");
	if (x == NULL)
		PG_RETURN_NULL();
	check_float("input", x);

	y = op_output(&call, x->dtype, &x->shape);
	x->shape = y->shape = (TensorShape) {1, {shape_numel(&x->shape)}};
	op_execute(&call);
	return op_datum(&call, 0);
}

/* relu(input) = max(input, 0); NaN stays. */
PG_FUNCTION_INFO_V1(relu);
Datum
relu(PG_FUNCTION_ARGS)
{
	return activation_forward(fcinfo, ACTIVATION_RELU, 0);
}

/* Changing the shape, the type or the place of a tensor. */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "op.h"

/* The elements of argument 0 as they are, where the provider in force has them, in `shape` or (NULL) their own. */
static Datum
copy_in_place(FunctionCallInfo fcinfo, const TensorShape *shape)
{
	OpCall		call;
	TensorView *x,
			   *y;

	op_begin(&call, OP_COPY, NULL, fcinfo);
	x = op_input(&call, 0, "input");
	y = op_output(&call, x->dtype, shape != NULL ? shape : &x->shape);
	x->shape = y->shape = (TensorShape) {1, {shape_numel(&x->shape)}};
	op_execute(&call);
	return op_datum(&call, 0);
}

/*
 * tensor_reshape(x, shape): the same elements; one size may be -1. ERROR 22000
 * when they do not fit. A resident tensor stays where it is.
 */
PG_FUNCTION_INFO_V1(tensor_reshape);
Datum
tensor_reshape(PG_FUNCTION_ARGS)
{
	ResidentTensor *resident = resident_from_datum(PG_GETARG_DATUM(0));
	TensorView	x;
	TensorShape shape;
	void	   *data;
	struct varlena *flat;

	if (resident != NULL)
	{
		(void) arg_shape_of(fcinfo, 1, "shape", shape_numel(&resident->view.shape), &shape);
		return copy_in_place(fcinfo, &shape);
	}
	(void) arg_tensor(fcinfo, 0, "input", &x);
	(void) arg_shape_of(fcinfo, 1, "shape", shape_numel(&x.shape), &shape);
	flat = tensor_new_flat(x.dtype, &shape, &data);
	memcpy(data, x.data, tensor_payload_size(x.dtype, &x.shape));
	PG_RETURN_POINTER(flat);
}

/*
 * Elements from x to y, x * scale + shift. A float gets the nearest value, an
 * integer what is left of the point; ERROR 22003 for an integer out of range.
 */
static void
cast_elements(const TensorView *x, const TensorView *y, double scale, double shift)
{
	int64		n = shape_numel(&x->shape);
	bool		to_float = dtype_is_float(y->dtype);
	bool		same = scale == 1 && shift == 0;

	if (same && x->dtype == y->dtype && x->dtype != DT_BOOL)
	{
		memcpy(y->data, x->data, n * dtype_size(x->dtype));
		return;
	}
	for (int64 i = 0; i < n; i++)
	{
		double		value = tensor_get_double(x, i);

		/* adding 0 would lose the sign of -0 */
		if (!same)
			value = value * scale + shift;
		if (i % 1048576 == 0)
			CHECK_FOR_INTERRUPTS();
		if (!to_float)
			check_holds(y->dtype, value);
		tensor_set_double(y, i, value);
	}
}

/* tensor_cast(x, dtype, scale, shift): x * scale + shift in another type. */
PG_FUNCTION_INFO_V1(tensor_cast);
Datum
tensor_cast(PG_FUNCTION_ARGS)
{
	TensorView	x,
				y;
	struct varlena *flat;

	if (PG_ARGISNULL(1) || !arg_tensor(fcinfo, 0, "input", &x))
		PG_RETURN_NULL();
	y.dtype = dtype_by_name(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	y.shape = x.shape;
	flat = tensor_new_flat(y.dtype, &y.shape, &y.data);
	cast_elements(&x, &y, arg_float8(fcinfo, 2, 1), arg_float8(fcinfo, 3, 0));
	PG_RETURN_POINTER(flat);
}

/*
 * tensor_to_device(x): the same tensor, resident where the provider in force has
 * a device, so that a PL/pgSQL variable keeps it there.
 */
PG_FUNCTION_INFO_V1(tensor_to_device);
Datum
tensor_to_device(PG_FUNCTION_ARGS)
{
	if (resident_from_datum(PG_GETARG_DATUM(0)) != NULL)
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	return copy_in_place(fcinfo, NULL);
}

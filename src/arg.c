/*
 * Arguments of SQL functions, from Datum to C. A NULL option means its default.
 * Argument number -1 is an option that the function does not have.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "fmgr.h"
#include "utils/array.h"

#include "compat.h"
#include "npy.h"
#include "op.h"

bool
arg_given(FunctionCallInfo fcinfo, int argno)
{
	return argno >= 0 && argno < fcinfo->nargs && !fcinfo->args[argno].isnull;
}

int32
arg_int(FunctionCallInfo fcinfo, int argno, int32 dflt)
{
	return arg_given(fcinfo, argno) ? DatumGetInt32(fcinfo->args[argno].value) : dflt;
}

bool
arg_bool(FunctionCallInfo fcinfo, int argno, bool dflt)
{
	return arg_given(fcinfo, argno) ? DatumGetBool(fcinfo->args[argno].value) : dflt;
}

double
arg_float8(FunctionCallInfo fcinfo, int argno, double dflt)
{
	return arg_given(fcinfo, argno) ? DatumGetFloat8(fcinfo->args[argno].value) : dflt;
}

/* Lists of integers ------------------------------------------------------- */

/*
 * The elements of an int[], in palloc'd or the argument's memory: how many there
 * are, or -1 when it is NULL. ERROR 22004 for a NULL element, 22023 for more than
 * one axis; `name` is the argument's.
 */
static int
int_list(FunctionCallInfo fcinfo, int argno, const char *name, const int32 **values)
{
	ArrayType  *array;

	if (!arg_given(fcinfo, argno))
		return -1;
	array = DatumGetArrayTypeP(fcinfo->args[argno].value);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be a list of integers, not an array of %d axes", name, ARR_NDIM(array))));
	if (array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not contain NULL", name)));
	*values = (const int32 *) ARR_DATA_PTR(array);
	return ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
}

/* The same into values[max]; ERROR 22023 also for more than `max` elements. */
static int
arg_ints(FunctionCallInfo fcinfo, int argno, const char *name, int64 *values, int max)
{
	const int32 *given;
	int			n = int_list(fcinfo, argno, name, &given);

	if (n > max)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must have at most %d elements, not %d", name, max, n)));
	for (int i = 0; i < n; i++)
		values[i] = given[i];
	return n;
}

/* Shape from int[], in which `wildcards` sizes at most may be -1; false when NULL. */
static bool
shape_list(FunctionCallInfo fcinfo, int argno, const char *name, int wildcards, TensorShape *shape)
{
	const int32 *given;
	int			n = int_list(fcinfo, argno, name, &given);

	if (n < 0)
		return false;
	if (n > TENSOR_MAX_RANK)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s has %d axes, a tensor has at most %d", name, n, TENSOR_MAX_RANK)));
	shape->rank = n;
	for (int i = 0; i < n; i++)
	{
		shape->dims[i] = given[i];
		if (given[i] < 0 && (given[i] != -1 || wildcards-- == 0))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%s has size %d on axis %d", name, given[i], i)));
	}
	return true;
}

bool
arg_spatial(FunctionCallInfo fcinfo, int argno, const char *name, int nd, int64 least, int64 *values)
{
	int64		given[MAX_SPATIAL];
	int			n = arg_ints(fcinfo, argno, name, given, MAX_SPATIAL);

	if (n < 0)
		return false;
	if (n != 1 && n != nd)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must have 1 or %d elements, not %d", name, nd, n)));
	for (int i = 0; i < nd; i++)
	{
		values[i] = given[n == 1 ? 0 : i];
		if (values[i] < least)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%s must be at least " INT64_FORMAT ", but is " INT64_FORMAT,
							name, least, values[i])));
	}
	return true;
}

bool
arg_shape(FunctionCallInfo fcinfo, int argno, const char *name, TensorShape *shape)
{
	return shape_list(fcinfo, argno, name, 0, shape);
}

bool
arg_shape_of(FunctionCallInfo fcinfo, int argno, const char *name, int64 numel, TensorShape *shape)
{
	int			wildcard = -1;
	int64		known = 1;
	bool		fits = true;

	if (!shape_list(fcinfo, argno, name, 1, shape))
		return false;
	for (int i = 0; i < shape->rank && fits; i++)
		if (shape->dims[i] < 0)
			wildcard = i;
		else
			fits = !pg_mul_s64_overflow(known, shape->dims[i], &known);

	if (wildcard < 0)
		fits = fits && known == numel;
	else
	{
		fits = fits && known > 0 && numel % known == 0;
		if (fits)
			shape->dims[wildcard] = numel / known;
	}
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("%s %s does not fit " INT64_FORMAT " elements", name, shape_text(shape), numel)));
	return true;
}

/* Tensors ----------------------------------------------------------------- */

static void
argument_context(void *name)
{
	errcontext("argument \"%s\"", (const char *) name);
}

bool
arg_tensor(FunctionCallInfo fcinfo, int argno, const char *name, TensorView *view)
{
	ErrorContextCallback context = {error_context_stack, argument_context, unconstify(char *, name)};

	if (!arg_given(fcinfo, argno))
		return false;
	error_context_stack = &context;
	tensor_view_flat(PG_DETOAST_DATUM_PACKED(fcinfo->args[argno].value), view);
	error_context_stack = context.previous;
	return true;
}

bool
read_header(Datum value, NpyHeader *header, NpyError *err)
{
	Size		total = toast_raw_datum_size(value) - VARHDRSZ;
	Size		want = NPY_MAX_HEADER;

	for (;;)
	{
		struct varlena *prefix = PG_DETOAST_DATUM_SLICE(value, 0, want);
		bool		done = npy_read_header((const uint8 *) VARDATA_ANY(prefix), VARSIZE_ANY_EXHDR(prefix),
										   total, header, &want, err);

		if ((Pointer) prefix != DatumGetPointer(value))
			pfree(prefix);
		if (done || want == 0)
			return done;
	}
}

bool
arg_tensor_header(FunctionCallInfo fcinfo, int argno, const char *name, TensorView *view)
{
	ResidentTensor *resident;
	NpyHeader	header;
	NpyError	err;

	if (!arg_given(fcinfo, argno))
		return false;
	resident = resident_from_datum(fcinfo->args[argno].value);
	if (resident != NULL)
		*view = resident->view;
	else
	{
		if (!read_header(fcinfo->args[argno].value, &header, &err))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
					 errmsg("not a tensor: %s at byte %zu", err.what, err.at),
					 errcontext("argument \"%s\"", name)));
		view->dtype = header.dtype;
		view->shape = header.shape;
	}
	view->data = NULL;
	return true;
}

bool
datum_is_tensor(Datum value)
{
	NpyHeader	header;
	NpyError	err;

	return resident_from_datum(value) != NULL || read_header(value, &header, &err);
}

/* Windows ----------------------------------------------------------------- */

/*
 * padding: one element for both sides of all axes, one an axis for both of its
 * sides, or all begins and then all ends.
 */
static void
arg_padding(FunctionCallInfo fcinfo, int argno, Window *window)
{
	int			nd = window->nd;
	int64		given[2 * MAX_SPATIAL];
	int			n = arg_ints(fcinfo, argno, "padding", given, 2 * MAX_SPATIAL);

	if (n < 0)
		return;
	if (n != 1 && n != nd && n != 2 * nd)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 nd == 1 ? errmsg("padding must have 1 or 2 elements, not %d", n) :
				 errmsg("padding must have 1, %d or %d elements, not %d", nd, 2 * nd, n)));
	for (int i = 0; i < n; i++)
		if (given[i] < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("padding must be at least 0, but is " INT64_FORMAT, given[i])));
	for (int i = 0; i < nd; i++)
	{
		window->pad_begin[i] = given[n == 1 ? 0 : i];
		window->pad_end[i] = given[n == 1 ? 0 : n == nd ? i : nd + i];
	}
}

void
arg_window(FunctionCallInfo fcinfo, int nd, const int64 *kernel, int stride_arg,
		   bool stride_is_kernel, int padding_arg, int dilation_arg, Window *window)
{
	memset(window, 0, sizeof(*window));
	window->nd = nd;
	for (int i = 0; i < nd; i++)
	{
		window->kernel[i] = kernel[i];
		window->stride[i] = stride_is_kernel ? kernel[i] : 1;
		window->dilation[i] = 1;
	}
	arg_spatial(fcinfo, stride_arg, "stride", nd, 1, window->stride);
	arg_spatial(fcinfo, dilation_arg, "dilation", nd, 1, window->dilation);
	arg_padding(fcinfo, padding_arg, window);
}

/*
 * Reading tensors: what they are, their elements as arrays and text, and
 * comparing two. All of it on the host.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "compat.h"
#include "op.h"

/* What it is ---------------------------------------------------------------- */

/* tensor_is_valid(value): is it a tensor? Reads no more than its header. */
PG_FUNCTION_INFO_V1(tensor_is_valid);
Datum
tensor_is_valid(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(datum_is_tensor(PG_GETARG_DATUM(0)));
}

/* tensor_shape(x) */
PG_FUNCTION_INFO_V1(tensor_shape);
Datum
tensor_shape(PG_FUNCTION_ARGS)
{
	TensorView	x;
	Datum		dims[TENSOR_MAX_RANK];

	(void) arg_tensor_header(fcinfo, 0, "input", &x);
	for (int i = 0; i < x.shape.rank; i++)
	{
		if (x.shape.dims[i] > PG_INT32_MAX)
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("size " INT64_FORMAT " of axis %d is out of range for type integer",
							x.shape.dims[i], i)));
		dims[i] = Int32GetDatum(x.shape.dims[i]);
	}
	PG_RETURN_ARRAYTYPE_P(construct_array(dims, x.shape.rank, INT4OID, sizeof(int32), true, TYPALIGN_INT));
}

/* tensor_dtype(x) */
PG_FUNCTION_INFO_V1(tensor_dtype);
Datum
tensor_dtype(PG_FUNCTION_ARGS)
{
	TensorView	x;

	(void) arg_tensor_header(fcinfo, 0, "input", &x);
	PG_RETURN_TEXT_P(cstring_to_text(dtype_info[x.dtype].name));
}

/* tensor_rank(x) */
PG_FUNCTION_INFO_V1(tensor_rank);
Datum
tensor_rank(PG_FUNCTION_ARGS)
{
	TensorView	x;

	(void) arg_tensor_header(fcinfo, 0, "input", &x);
	PG_RETURN_INT32(x.shape.rank);
}

/* tensor_numel(x) */
PG_FUNCTION_INFO_V1(tensor_numel);
Datum
tensor_numel(PG_FUNCTION_ARGS)
{
	TensorView	x;

	(void) arg_tensor_header(fcinfo, 0, "input", &x);
	PG_RETURN_INT64(shape_numel(&x.shape));
}

/* Its elements -------------------------------------------------------------- */

/*
 * The elements as an array of float4 or float8 in the shape of the tensor (a
 * scalar gives one element, no elements an empty array). ERROR 54000 for more
 * axes than an array can have, or too many elements.
 */
static ArrayType *
tensor_to_array(const TensorView *x, Oid type)
{
	int			size = type == FLOAT4OID ? sizeof(float4) : sizeof(float8);
	int64		n = shape_numel(&x->shape);
	int			ndim = Max(x->shape.rank, 1);
	int			dims[MAXDIM] = {1};
	int			lower[MAXDIM];
	Size		bytes;
	ArrayType  *array;

	if (n == 0)
		return construct_empty_array(type);
	if (ndim > MAXDIM || n > (int64) (MaxAllocSize / size) - 16)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("tensor does not fit into an array"),
				 errdetail("The shape of the tensor is %s, an array has at most %d axes and 1 GB.",
						   shape_text(&x->shape), MAXDIM)));
	for (int i = 0; i < ndim; i++)
	{
		if (i < x->shape.rank)
			dims[i] = x->shape.dims[i];
		lower[i] = 1;
	}

	bytes = ARR_OVERHEAD_NONULLS(ndim) + n * size;
	array = palloc(bytes);
	SET_VARSIZE(array, bytes);
	array->ndim = ndim;
	array->dataoffset = 0;
	array->elemtype = type;
	memcpy(ARR_DIMS(array), dims, ndim * sizeof(int));
	memcpy(ARR_LBOUND(array), lower, ndim * sizeof(int));
	for (int64 i = 0; i < n; i++)
		if (type == FLOAT4OID)
			((float4 *) ARR_DATA_PTR(array))[i] = tensor_get_double(x, i);
		else
			((float8 *) ARR_DATA_PTR(array))[i] = tensor_get_double(x, i);
	return array;
}

/* tensor_to_real(x) */
PG_FUNCTION_INFO_V1(tensor_to_real);
Datum
tensor_to_real(PG_FUNCTION_ARGS)
{
	TensorView	x;

	(void) arg_tensor(fcinfo, 0, "input", &x);
	PG_RETURN_ARRAYTYPE_P(tensor_to_array(&x, FLOAT4OID));
}

/* tensor_to_float8(x) */
PG_FUNCTION_INFO_V1(tensor_to_float8);
Datum
tensor_to_float8(PG_FUNCTION_ARGS)
{
	TensorView	x;

	(void) arg_tensor(fcinfo, 0, "input", &x);
	PG_RETURN_ARRAYTYPE_P(tensor_to_array(&x, FLOAT8OID));
}

/* tensor_item(x): its one element. ERROR 22000 when there is not exactly one. */
PG_FUNCTION_INFO_V1(tensor_item);
Datum
tensor_item(PG_FUNCTION_ARGS)
{
	TensorView	x;

	(void) arg_tensor(fcinfo, 0, "input", &x);
	if (shape_numel(&x.shape) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("tensor must have one element, not " INT64_FORMAT, shape_numel(&x.shape)),
				 errdetail("The shape of the tensor is %s.", shape_text(&x.shape))));
	PG_RETURN_FLOAT8(tensor_get_double(&x, 0));
}

/* tensor_raw(x): the elements as bytes, little-endian, in C order. */
PG_FUNCTION_INFO_V1(tensor_raw);
Datum
tensor_raw(PG_FUNCTION_ARGS)
{
	TensorView	x;
	Size		size;
	bytea	   *raw;

	(void) arg_tensor(fcinfo, 0, "input", &x);
	size = tensor_payload_size(x.dtype, &x.shape);
	raw = palloc(VARHDRSZ + size);
	SET_VARSIZE(raw, VARHDRSZ + size);
	memcpy(VARDATA(raw), x.data, size);
	PG_RETURN_BYTEA_P(raw);
}

/* Comparing ----------------------------------------------------------------- */

/*
 * Two tensors of one shape and any types; false when one is NULL. ERROR 22000
 * when the shapes differ.
 */
static bool
arg_pair(FunctionCallInfo fcinfo, TensorView *a, TensorView *b)
{
	if (!arg_tensor(fcinfo, 0, "a", a) || !arg_tensor(fcinfo, 1, "b", b))
		return false;
	check_shape("b", b, &a->shape, "a");
	return true;
}

/* tensor_allclose(a, b, rtol, atol): is |a - b| <= atol + rtol * |b| everywhere? NaN never is. */
PG_FUNCTION_INFO_V1(tensor_allclose);
Datum
tensor_allclose(PG_FUNCTION_ARGS)
{
	double		rtol = arg_float8(fcinfo, 2, 1e-5);
	double		atol = arg_float8(fcinfo, 3, 1e-8);
	TensorView	a,
				b;
	int64		n;

	if (!arg_pair(fcinfo, &a, &b))
		PG_RETURN_NULL();
	n = shape_numel(&a.shape);
	for (int64 i = 0; i < n; i++)
	{
		double		x = tensor_get_double(&a, i);
		double		y = tensor_get_double(&b, i);

		if (x != y && !(isfinite(y) && fabs(x - y) <= atol + rtol * fabs(y)))
			PG_RETURN_BOOL(false);
	}
	PG_RETURN_BOOL(true);
}

/* tensor_max_abs_diff(a, b): the largest |a - b|, 0 of no elements, NaN when either has one. */
PG_FUNCTION_INFO_V1(tensor_max_abs_diff);
Datum
tensor_max_abs_diff(PG_FUNCTION_ARGS)
{
	double		worst = 0;
	TensorView	a,
				b;
	int64		n;

	if (!arg_pair(fcinfo, &a, &b))
		PG_RETURN_NULL();
	n = shape_numel(&a.shape);
	for (int64 i = 0; i < n; i++)
	{
		double		x = tensor_get_double(&a, i);
		double		y = tensor_get_double(&b, i);
		double		difference = x == y ? 0 : fabs(x - y);

		if (isnan(difference))
			PG_RETURN_FLOAT8(difference);
		worst = Max(worst, difference);
	}
	PG_RETURN_FLOAT8(worst);
}

/*
 * Making tensors: from arrays, from raw bytes, from a value, from a seed. All of
 * it on the host.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "op.h"
#include "splitmix.h"

/* The type that argument `argno` names, else dflt. */
static DType
arg_dtype(FunctionCallInfo fcinfo, int argno, DType dflt)
{
	return PG_ARGISNULL(argno) ? dflt : dtype_by_name(text_to_cstring(PG_GETARG_TEXT_PP(argno)));
}

/* A new tensor to fill. */
static struct varlena *
new_tensor(DType dtype, const TensorShape *shape, TensorView *view)
{
	view->dtype = dtype;
	view->shape = *shape;
	return tensor_new_flat(dtype, shape, &view->data);
}

/* Element i; ERROR 22003 when the type can't hold the value. */
static void
put_element(const TensorView *view, int64 i, double value)
{
	check_holds(view->dtype, value);
	tensor_set_double(view, i, value);
}

/* From arrays -------------------------------------------------------------- */

/* An element of a supported array type as double, for a tensor of type dtype. */
static double
element_value(Oid type, Datum element, DType dtype)
{
	switch (type)
	{
		case FLOAT4OID:
			return DatumGetFloat4(element);
		case FLOAT8OID:
			return DatumGetFloat8(element);
		case NUMERICOID:
			if (dtype == DT_FLOAT32)	/* rounded once */
				return DatumGetFloat4(DirectFunctionCall1(numeric_float4, element));
			return DatumGetFloat8(DirectFunctionCall1(numeric_float8, element));
		case INT2OID:
			return DatumGetInt16(element);
		case INT4OID:
			return DatumGetInt32(element);
		case INT8OID:
			return DatumGetInt64(element);
		default:
			return DatumGetBool(element);
	}
}

/* The type of a tensor made of such elements, when none is named; false when there is none. */
static bool
element_dtype(Oid type, DType *dtype)
{
	switch (type)
	{
		case FLOAT4OID:
		case NUMERICOID:
			*dtype = DT_FLOAT32;
			return true;
		case FLOAT8OID:
			*dtype = DT_FLOAT64;
			return true;
		case INT2OID:
		case INT4OID:
			*dtype = DT_INT32;
			return true;
		case INT8OID:
			*dtype = DT_INT64;
			return true;
		case BOOLOID:
			*dtype = DT_BOOL;
			return true;
		default:
			return false;
	}
}

/* Do elements of this array type lie in memory as in a tensor of type dtype? */
static bool
element_layout_fits(Oid type, DType dtype)
{
	DType		own;

	return type != NUMERICOID && type != INT2OID && element_dtype(type, &own) && own == dtype;
}

/* The elements of an array without NULLs, converted one by one. */
static void
put_elements(const TensorView *view, ArrayType *array, Oid type)
{
	ArrayIterator iterator = array_create_iterator(array, 0, NULL);
	Datum		element;
	bool		isnull;

	for (int64 i = 0; array_iterate(iterator, &element, &isnull); i++)
	{
		if (i % 1048576 == 0)
			CHECK_FOR_INTERRUPTS();
		if (type == NUMERICOID && view->dtype == DT_INT64)
		{
			/* a double would not hold all digits */
			Datum		whole = DirectFunctionCall2(numeric_trunc, element, Int32GetDatum(0));
			int64		exact = DatumGetInt64(DirectFunctionCall1(numeric_int8, whole));

			memcpy((char *) view->data + i * sizeof(exact), &exact, sizeof(exact));
		}
		else
			put_element(view, i, element_value(type, element, view->dtype));
	}
	array_free_iterator(iterator);
}

/*
 * tensor(data, shape, dtype): the elements of an array, in its shape or another
 * of as many elements. ERROR 42804 for another element type, 22004 for a NULL
 * element, 22003 for one that the type can't hold.
 */
PG_FUNCTION_INFO_V1(tensor_from_array);
Datum
tensor_from_array(PG_FUNCTION_ARGS)
{
	ArrayType  *array;
	Oid			type;
	int			n;
	TensorShape shape;
	TensorView	view;
	DType		dtype;
	struct varlena *flat;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	array = PG_GETARG_ARRAYTYPE_P(0);
	type = getBaseType(ARR_ELEMTYPE(array));
	n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	if (!element_dtype(type, &dtype))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("a tensor cannot be made of %s", format_type_be(ARR_ELEMTYPE(array))),
				 errhint("Elements are real, double precision, numeric, smallint, integer, bigint or boolean.")));
	if (array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("a tensor cannot hold NULL")));
	dtype = arg_dtype(fcinfo, 2, dtype);
	if (!arg_shape_of(fcinfo, 1, "shape", n, &shape))
	{
		/* an empty array has no axes in PostgreSQL, but it is a list of none */
		shape.rank = Max(ARR_NDIM(array), 1);
		shape.dims[0] = 0;
		for (int i = 0; i < ARR_NDIM(array); i++)
			shape.dims[i] = ARR_DIMS(array)[i];
	}

	flat = new_tensor(dtype, &shape, &view);
	if (element_layout_fits(type, dtype))
		memcpy(view.data, ARR_DATA_PTR(array), n * dtype_size(dtype));
	else
		put_elements(&view, array, type);
	PG_RETURN_POINTER(flat);
}

/*
 * tensor(raw, shape, dtype): little-endian elements in C order. ERROR 22000 when
 * shape and type want another number of bytes.
 */
PG_FUNCTION_INFO_V1(tensor_from_raw);
Datum
tensor_from_raw(PG_FUNCTION_ARGS)
{
	bytea	   *raw = PG_GETARG_BYTEA_PP(0);
	DType		dtype = arg_dtype(fcinfo, 2, DT_FLOAT32);
	Size		size = VARSIZE_ANY_EXHDR(raw);
	int			item = dtype_size(dtype);
	TensorShape shape;
	TensorView	view;
	struct varlena *flat;

	if (size % item != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("%zu bytes are no whole number of %s elements", size, dtype_info[dtype].name)));
	(void) arg_shape_of(fcinfo, 1, "shape", size / item, &shape);
	flat = new_tensor(dtype, &shape, &view);
	memcpy(view.data, VARDATA_ANY(raw), size);
	if (dtype == DT_BOOL)
		for (Size i = 0; i < size; i++)
			((uint8 *) view.data)[i] = ((uint8 *) view.data)[i] != 0;
	PG_RETURN_POINTER(flat);
}

/* From a value and from a seed --------------------------------------------- */

/* tensor_full(shape, value, dtype). ERROR 22003 when the type can't hold the value. */
PG_FUNCTION_INFO_V1(tensor_full);
Datum
tensor_full(PG_FUNCTION_ARGS)
{
	DType		dtype = arg_dtype(fcinfo, 2, DT_FLOAT32);
	TensorShape shape;
	TensorView	view;
	struct varlena *flat;
	Size		size,
				filled;

	if (!arg_shape(fcinfo, 0, "shape", &shape) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	flat = new_tensor(dtype, &shape, &view);
	size = tensor_payload_size(dtype, &shape);
	if (size == 0)
		PG_RETURN_POINTER(flat);
	put_element(&view, 0, PG_GETARG_FLOAT8(1));
	for (filled = dtype_size(dtype); filled < size; filled *= 2)
		memcpy((char *) view.data + filled, view.data, Min(filled, size - filled));
	PG_RETURN_POINTER(flat);
}

/* The bits of element `i` of a stream. */
static uint64
random_bits(uint64 seed, uint64 i)
{
	return splitmix_bits(seed + (i + 1) * SPLITMIX_STEP);
}

/*
 * tensor_random(shape, seed, dtype): uniform in [-1, 1), of as many random bits
 * as the type holds exactly, the same bytes everywhere. ERROR 22023 for a type
 * that is no float.
 */
PG_FUNCTION_INFO_V1(tensor_random);
Datum
tensor_random(PG_FUNCTION_ARGS)
{
	static const int bits[] = {[DT_FLOAT32] = 24, [DT_FLOAT64] = 53, [DT_FLOAT16] = 11, [DT_BFLOAT16] = 8};
	DType		dtype = arg_dtype(fcinfo, 2, DT_FLOAT32);
	TensorShape shape;
	TensorView	view;
	struct varlena *flat;
	uint64		seed;
	double		step;
	int64		n;

	if (!arg_shape(fcinfo, 0, "shape", &shape) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	if (!dtype_is_float(dtype))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("random values are of a float type, not %s", dtype_info[dtype].name)));
	flat = new_tensor(dtype, &shape, &view);
	n = shape_numel(&shape);
	/* mixed, so that the streams of seeds 1 and 2 do not overlap */
	seed = random_bits(PG_GETARG_INT64(1), 0);
	step = ldexp(1, 1 - bits[dtype]);
	for (int64 i = 0; i < n; i++)
	{
		if (i % 1048576 == 0)
			CHECK_FOR_INTERRUPTS();
		tensor_set_double(&view, i, (random_bits(seed, i) >> (64 - bits[dtype])) * step - 1);
	}
	PG_RETURN_POINTER(flat);
}

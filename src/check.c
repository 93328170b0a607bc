/*
 * Checks that several families of operations share. Each raises the error that
 * a user sees, naming both sides of the mismatch.
 */
#include "postgres.h"

#include "common/int.h"

#include "op.h"

void
check_float(const char *name, const TensorView *t)
{
	if (!dtype_is_float(t->dtype))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("%s must be of a float type, not %s", name, dtype_info[t->dtype].name),
				 errhint("tensor_cast(x, 'float32') converts it.")));
}

void
check_holds(DType dtype, double value)
{
	if (!dtype_holds(dtype, value))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("value %g is out of range for type %s", value, dtype_info[dtype].name)));
}

void
check_same_dtype(const char *aname, const TensorView *a, const char *bname, const TensorView *b)
{
	if (a->dtype != b->dtype)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("%s and %s must be of one type", aname, bname),
				 errdetail("%s is %s, %s is %s.", aname, dtype_info[a->dtype].name,
						   bname, dtype_info[b->dtype].name)));
}

const char *
spatial_layout(int nd)
{
	static const char *const layouts[] = {"", "N, C, L", "N, C, H, W", "N, C, D, H, W"};

	return layouts[nd];
}

void
check_rank(const char *name, const TensorView *t, int rank, const char *layout)
{
	if (t->shape.rank != rank)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("%s must have %d axes, not %d", name, rank, t->shape.rank),
				 errdetail("Wanted is (%s), the shape of %s is %s.", layout, name, shape_text(&t->shape))));
}

void
check_shape(const char *name, const TensorView *t, const TensorShape *shape, const char *expected)
{
	if (!shape_equal(&t->shape, shape))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("shape of %s does not fit %s", name, expected),
				 errdetail("The shape of %s is %s, wanted is %s.",
						   name, shape_text(&t->shape), shape_text(shape))));
}

void
check_not_empty(const char *name, const TensorShape *shape, int first)
{
	for (int i = first; i < shape->rank; i++)
		if (shape->dims[i] == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("axis %d of %s is empty", i, name),
					 errdetail("The shape of %s is %s.", name, shape_text(shape))));
}

void
check_size(DType dtype, const TensorShape *shape)
{
	int64		bytes = dtype_size(dtype);

	for (int i = 0; i < shape->rank; i++)
		if (shape->dims[i] == 0)
			return;
	for (int i = 0; i < shape->rank; i++)
		if (pg_mul_s64_overflow(bytes, shape->dims[i], &bytes))
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("tensor is too big"),
					 errdetail("A %s tensor of shape %s has more bytes than can be counted.",
							   dtype_info[dtype].name, shape_text(shape))));
}

void
check_spatial_rank(const char *name, const TensorView *t, int least)
{
	if (t->shape.rank < least || t->shape.rank > 2 + MAX_SPATIAL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("%s must have %d to %d axes, not %d", name, least, 2 + MAX_SPATIAL, t->shape.rank),
				 errdetail("Wanted is (N, C, spatial axes), the shape of %s is %s.", name, shape_text(&t->shape))));
}

void
check_window_fits(const Window *window, const TensorShape *in, const TensorShape *out)
{
	for (int i = 0; i < window->nd; i++)
	{
		int64		padded = in->dims[2 + i] + window->pad_begin[i] + window->pad_end[i];

		if (padded > PG_INT32_MAX)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("padded input is too big"),
					 errdetail("On spatial axis %d it has " INT64_FORMAT " elements, at most %d can be counted.",
							   i, padded, PG_INT32_MAX)));
		if (out->dims[2 + i] < 1)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("the result would be empty"),
					 errdetail("On spatial axis %d the input has " INT64_FORMAT " elements, padding " INT64_FORMAT " and " INT64_FORMAT ", the kernel spans " INT64_FORMAT ".",
							   i, in->dims[2 + i], window->pad_begin[i], window->pad_end[i],
							   window_span(window, i))));
	}
}

void
merge_spatial(TensorShape *shape)
{
	int64		spatial = 1;

	for (int i = 2; i < shape->rank; i++)
		spatial *= shape->dims[i];
	shape->rank = 3;
	shape->dims[2] = spatial;
}

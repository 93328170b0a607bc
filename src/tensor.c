/* Shapes, element types and views of flat values; see tensor.h. */
#include "postgres.h"

#include <malloc.h>
#include <math.h>

#include "common/int.h"
#include "port/pg_bswap.h"
#include "utils/memutils.h"

#include "compat.h"
#include "half.h"
#include "npy.h"
#include "tensor.h"

#define BIG_RESULT (32 * 1024 * 1024)
#define KEPT_HEAP (256 * 1024 * 1024)

#ifdef WORDS_BIGENDIAN
#error "tensors are little-endian and so must be the machine"
#endif

/* Shapes ------------------------------------------------------------------ */

bool
shape_equal(const TensorShape *a, const TensorShape *b)
{
	return a->rank == b->rank &&
		memcmp(a->dims, b->dims, a->rank * sizeof(a->dims[0])) == 0;
}

void
shape_append(StringInfo buf, const TensorShape *shape)
{
	appendStringInfoChar(buf, '{');
	for (int i = 0; i < shape->rank; i++)
		appendStringInfo(buf, "%s" INT64_FORMAT, i > 0 ? "," : "", shape->dims[i]);
	appendStringInfoChar(buf, '}');
}

char *
shape_text(const TensorShape *shape)
{
	StringInfoData buf;

	initStringInfo(&buf);
	shape_append(&buf, shape);
	return buf.data;
}

/* Types ------------------------------------------------------------------- */

DType
dtype_by_name(const char *name)
{
	StringInfoData names;

	for (DType dtype = 0; dtype < DT_COUNT; dtype++)
		if (strcmp(name, dtype_info[dtype].name) == 0)
			return dtype;

	initStringInfo(&names);
	for (DType dtype = 0; dtype < DT_COUNT; dtype++)
		appendStringInfo(&names, "%s%s", dtype > 0 ? ", " : "", dtype_info[dtype].name);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown dtype \"%s\"", name),
			 errhint("The types are %s.", names.data)));
}

bool
dtype_holds(DType dtype, double value)
{
	double		whole = trunc(value);

	switch (dtype)
	{
		case DT_FLOAT32:
			return !isfinite(value) || isfinite((float) value);
		case DT_FLOAT64:
		case DT_BOOL:
			return true;
		case DT_FLOAT16:
			return !isfinite(value) || isfinite(half_to_double(double_to_half(value)));
		case DT_BFLOAT16:
			return !isfinite(value) || isfinite(bfloat16_to_double(double_to_bfloat16(value)));
		case DT_UINT8:
			return whole >= 0 && whole <= PG_UINT8_MAX;
		case DT_INT8:
			return whole >= PG_INT8_MIN && whole <= PG_INT8_MAX;
		case DT_INT32:
			return whole >= PG_INT32_MIN && whole <= PG_INT32_MAX;
		case DT_INT64:
			return whole >= (double) PG_INT64_MIN && whole < -(double) PG_INT64_MIN;
	}
	pg_unreachable();
}

/* An element in memory, which results of 8-byte types are not aligned in. */
#define ELEMENT_ACCESS(type) \
static inline type \
get_##type(const TensorView *view, int64 i) \
{ \
	type		element; \
	memcpy(&element, (const char *) view->data + i * sizeof(type), sizeof(type)); \
	return element; \
} \
static inline void \
set_##type(const TensorView *view, int64 i, type element) \
{ \
	memcpy((char *) view->data + i * sizeof(type), &element, sizeof(type)); \
}

ELEMENT_ACCESS(float)
ELEMENT_ACCESS(double)
ELEMENT_ACCESS(uint16)
ELEMENT_ACCESS(uint8)
ELEMENT_ACCESS(int8)
ELEMENT_ACCESS(int32)
ELEMENT_ACCESS(int64)

double
tensor_get_double(const TensorView *view, int64 i)
{
	switch (view->dtype)
	{
		case DT_FLOAT32:
			return get_float(view, i);
		case DT_FLOAT64:
			return get_double(view, i);
		case DT_FLOAT16:
			return half_to_double(get_uint16(view, i));
		case DT_BFLOAT16:
			return bfloat16_to_double(get_uint16(view, i));
		case DT_UINT8:
			return get_uint8(view, i);
		case DT_INT8:
			return get_int8(view, i);
		case DT_INT32:
			return get_int32(view, i);
		case DT_INT64:
			return get_int64(view, i);
		case DT_BOOL:
			return get_uint8(view, i) != 0;
	}
	pg_unreachable();
}

void
tensor_set_double(const TensorView *view, int64 i, double value)
{
	switch (view->dtype)
	{
		case DT_FLOAT32:
			set_float(view, i, value);
			break;
		case DT_FLOAT64:
			set_double(view, i, value);
			break;
		case DT_FLOAT16:
			set_uint16(view, i, double_to_half(value));
			break;
		case DT_BFLOAT16:
			set_uint16(view, i, double_to_bfloat16(value));
			break;
		case DT_UINT8:
			set_uint8(view, i, value);
			break;
		case DT_INT8:
			set_int8(view, i, value);
			break;
		case DT_INT32:
			set_int32(view, i, value);
			break;
		case DT_INT64:
			set_int64(view, i, value);
			break;
		case DT_BOOL:
			set_uint8(view, i, value != 0);
			break;
	}
}

/* Views ------------------------------------------------------------------- */

Size
tensor_payload_size(DType dtype, const TensorShape *shape)
{
	char		header[NPY_MAX_HEADER];
	int64		size = dtype_size(dtype);
	bool		empty = false;
	bool		too_big = false;

	/* sizes beside a 0 count too: no reader would take an absurd one */
	for (int i = 0; i < shape->rank && !too_big; i++)
		if (shape->dims[i] == 0)
			empty = true;
		else
			too_big = pg_mul_s64_overflow(size, shape->dims[i], &size);
	if (!too_big && empty)
		return 0;
	if (too_big || size > (int64) TENSOR_MAX_FLAT ||
		VARHDRSZ + npy_write_header(header, dtype, shape) + size > TENSOR_MAX_FLAT)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("tensor is too big"),
				 errdetail("A %s tensor of shape %s does not fit into a value, which has at most %zu bytes.",
						   dtype_info[dtype].name, shape_text(shape), (Size) TENSOR_MAX_FLAT)));
	return size;
}

/* Copies elements from Fortran order (first axis fastest) to C order. */
static void
copy_from_fortran(char *dst, const char *src, Size item, const TensorShape *shape)
{
	int64		stride[TENSOR_MAX_RANK];
	int64		index[TENSOR_MAX_RANK] = {0};
	int64		from = 0;

	for (int i = 0; i < shape->rank; i++)
		stride[i] = i == 0 ? 1 : stride[i - 1] * shape->dims[i - 1];

	for (int64 n = shape_numel(shape); n > 0; n--)
	{
		memcpy(dst, src + from * item, item);
		dst += item;
		for (int i = shape->rank - 1; i >= 0; i--)
		{
			from += stride[i];
			if (++index[i] < shape->dims[i])
				break;
			from -= stride[i] * shape->dims[i];
			index[i] = 0;
		}
	}
}

static void
swap_elements(void *data, Size item, int64 n)
{
	for (int64 i = 0; i < n; i++)
		switch (item)
		{
			case 2:
				((uint16 *) data)[i] = pg_bswap16(((uint16 *) data)[i]);
				break;
			case 4:
				((uint32 *) data)[i] = pg_bswap32(((uint32 *) data)[i]);
				break;
			case 8:
				((uint64 *) data)[i] = pg_bswap64(((uint64 *) data)[i]);
				break;
		}
}

void
tensor_view_flat(struct varlena *flat, TensorView *view)
{
	const uint8 *bytes = (const uint8 *) VARDATA_ANY(flat);
	Size		len = VARSIZE_ANY_EXHDR(flat);
	Size		need;
	Size		item;
	NpyHeader	header;
	NpyError	err;

	if (!npy_read_header(bytes, len, len, &header, &need, &err))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("not a tensor: %s at byte %zu", err.what, err.at)));

	item = dtype_size(header.dtype);
	view->dtype = header.dtype;
	view->shape = header.shape;
	view->data = unconstify(uint8 *, bytes + header.data_offset);
	if (!header.fortran_order && !header.big_endian && (uintptr_t) view->data % item == 0)
		return;

	view->data = palloc(Max(header.data_size, 1));
	if (header.fortran_order)
		copy_from_fortran(view->data, (const char *) bytes + header.data_offset, item, &view->shape);
	else
		memcpy(view->data, bytes + header.data_offset, header.data_size);
	if (header.big_endian)
		swap_elements(view->data, item, header.data_size / item);
}

/*
 * Why a warm heap: glibc takes a block of over 32 MB as fresh pages from the
 * kernel and gives them back when it is freed, and touching them the first time
 * is several times slower than writing to them again. So a session that makes
 * such results keeps up to 256 MB of its heap; cudnn_ops_release() gives it back.
 */
void
tensor_expect_big(Size size)
{
#ifdef __GLIBC__
	static bool warm = false;

	if (warm || size < BIG_RESULT)
		return;
	warm = true;
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, KEPT_HEAP);
#endif
}

void
tensor_release_heap(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

struct varlena *
tensor_new_flat(DType dtype, const TensorShape *shape, void **data)
{
	Size		payload = tensor_payload_size(dtype, shape);
	char		header[NPY_MAX_HEADER];
	Size		header_size = npy_write_header(header, dtype, shape);
	struct varlena *flat;

	tensor_expect_big(payload);
	flat = palloc(VARHDRSZ + header_size + payload);
	SET_VARSIZE(flat, VARHDRSZ + header_size + payload);
	memcpy(VARDATA(flat), header, header_size);
	*data = VARDATA(flat) + header_size;
	return flat;
}

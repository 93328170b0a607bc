/*
 * Tensors as the extension sees them: an element type, a shape and where the
 * elements are. A view describes memory and never owns it.
 */
#ifndef TENSOR_H
#define TENSOR_H

#include "lib/stringinfo.h"

#define TENSOR_MAX_RANK 8

/* Largest flat value: PostgreSQL's limit for a bytea, header included. */
#define TENSOR_MAX_FLAT MaxAllocSize

typedef enum DType
{
	DT_FLOAT32,
	DT_FLOAT64,
	DT_FLOAT16,
	DT_BFLOAT16,
	DT_UINT8,
	DT_INT8,
	DT_INT32,
	DT_INT64,
	DT_BOOL
} DType;

#define DT_COUNT (DT_BOOL + 1)

/* Sets of element types, for what a provider can compute. */
#define DT_BIT(dtype) (1u << (dtype))
#define DT_ALL (DT_BIT(DT_COUNT) - 1)
#define DT_FLOATS (DT_BIT(DT_FLOAT32) | DT_BIT(DT_FLOAT64) | DT_BIT(DT_FLOAT16) | DT_BIT(DT_BFLOAT16))

typedef struct DTypeInfo
{
	const char *name;			/* as SQL says it: float32 */
	const char *descr;			/* as NumPy writes it: <f4 */
} DTypeInfo;

extern const DTypeInfo dtype_info[DT_COUNT];	/* in npy.c */

/* Bytes of an element; here, for providers see no symbol of the core. */
static inline int
dtype_size(DType dtype)
{
	static const int sizes[DT_COUNT] = {
		[DT_FLOAT32] = 4,
		[DT_FLOAT64] = 8,
		[DT_FLOAT16] = 2,
		[DT_BFLOAT16] = 2,
		[DT_UINT8] = 1,
		[DT_INT8] = 1,
		[DT_INT32] = 4,
		[DT_INT64] = 8,
		[DT_BOOL] = 1,
	};

	return sizes[dtype];
}

/* Dimensions from the outermost in; a dimension may be 0. */
typedef struct TensorShape
{
	int			rank;			/* 0 to TENSOR_MAX_RANK */
	int64		dims[TENSOR_MAX_RANK];
} TensorShape;

/*
 * The order of a tensor's elements in a device's memory: C order, or channels
 * last, where those of (N, C, s..) lie as (N, s.., C) does in C order.
 */
typedef enum TensorLayout
{
	LAYOUT_C_ORDER,
	LAYOUT_CHANNELS_LAST
} TensorLayout;

/*
 * Elements in C order (a device may have them in another TensorLayout), native
 * byte order, aligned to their size, in host or device memory. data == NULL says
 * that an optional tensor was not given (a tensor of no elements has a non-NULL
 * data).
 */
typedef struct TensorView
{
	DType		dtype;
	TensorShape shape;
	void	   *data;
} TensorView;

/* Elements of all axes from `first` on; here, for providers see no symbol of the core. */
static inline int64
elements_from(const TensorShape *shape, int first)
{
	int64		n = 1;

	for (int i = first; i < shape->rank; i++)
		n *= shape->dims[i];
	return n;
}

static inline int64
shape_numel(const TensorShape *shape)
{
	return elements_from(shape, 0);
}

/* Is a shape (N, C, s..) one whose layouts differ: of several channels and several positions? */
static inline bool
shape_has_layouts(const TensorShape *shape)
{
	return shape->rank > 2 && shape->dims[1] > 1 && elements_from(shape, 2) > 1;
}

extern bool shape_equal(const TensorShape *a, const TensorShape *b);
extern void shape_append(StringInfo buf, const TensorShape *shape);

/* "{2,3,10,7}" in palloc'd memory, for messages. */
extern char *shape_text(const TensorShape *shape);

/* Type by its SQL name; ERROR 22023 that lists the names when unknown. */
extern DType dtype_by_name(const char *name);

static inline bool
dtype_is_float(DType dtype)
{
	return (DT_FLOATS & DT_BIT(dtype)) != 0;
}

/*
 * Can an element hold the value, rounded (float) or truncated (integer)? Not
 * where a finite value would become an infinity, nor NaN or out of an integer's
 * range; a bool holds everything, as zero or not.
 */
extern bool dtype_holds(DType dtype, double value);

/* Bytes of the elements; ERROR 54000 when a flat value could not hold them. */
extern Size tensor_payload_size(DType dtype, const TensorShape *shape);

/*
 * View of a flat value; ERROR 22P03 when it is no tensor. The view points into
 * the value where that is aligned, in C order and little-endian, else into a
 * converted copy in the current memory context.
 */
extern void tensor_view_flat(struct varlena *flat, TensorView *view);

/* A flat value of so many bytes will be made: prepares the heap for big ones. */
extern void tensor_expect_big(Size size);

/* Gives free heap back to the system. */
extern void tensor_release_heap(void);

/*
 * New flat value in the current memory context with its header written; *data
 * is where the elements go (uninitialised, 4-aligned and no more).
 */
extern struct varlena *tensor_new_flat(DType dtype, const TensorShape *shape, void **data);

/* Element i, in C order, whatever its alignment. An int64 beyond 2^53 is rounded. */
extern double tensor_get_double(const TensorView *view, int64 i);

/*
 * Sets element i, whatever its alignment: rounded to nearest in a float,
 * truncated toward zero in an integer, whose type must hold the value.
 */
extern void tensor_set_double(const TensorView *view, int64 i, double value);

#endif							/* TENSOR_H */

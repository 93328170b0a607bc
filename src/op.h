/*
 * The frame of one operation: typed arguments in, result out, and between them
 * the choice of a provider, copies to and from its memory, fallback, timing,
 * counters and the error context. An entry point reads:
 *
 *		op_begin(&call, OP_CONV, &params, fcinfo);
 *		x = op_input(&call, 0, "input");
 *		...
 *		conv_check(...);			every user error is raised here
 *		op_output(&call, x->dtype, &shape);
 *		op_execute(&call);
 *		PG_RETURN_DATUM(op_datum(&call, 0));
 */
#ifndef OP_H
#define OP_H

#include "fmgr.h"
#include "npy.h"
#include "once.h"
#include "provider.h"
#include "resident.h"
#include "stored.h"

typedef struct OpCall
{
	OpTask		task;			/* dtypes and shapes at once, data while a kernel runs */
	FunctionCallInfo fcinfo;
	int			nin;
	int			nout;
	void	   *host[OP_MAX_INPUTS];	/* elements of a flat input */
	StoredTensor *stored[OP_MAX_INPUTS];	/* or of one that was not detoasted */
	KeptValue  *kept[OP_MAX_INPUTS];	/* of a flat input that repeats */
	ResidentTensor *resident[OP_MAX_INPUTS];	/* or where else they are */
	TensorShape result[OP_MAX_OUTPUTS]; /* as the caller sees it */
	Datum		datum[OP_MAX_OUTPUTS];
	ProviderId	provider;		/* that is at work */
} OpCall;

extern void op_begin(OpCall *call, OpId id, const void *params, FunctionCallInfo fcinfo);

/*
 * The next input of the task, from argument `argno`; NULL (and an absent input)
 * when the argument is NULL. The shape may be replaced before op_execute by one
 * of as many elements, when the kernel wants another view of the same bytes; its
 * first two axes stay N and C where a provider may want channels last.
 * ERROR 22P03 when the value is not a tensor; `name` is the argument's.
 */
extern TensorView *op_input(OpCall *call, int argno, const char *name);

/* The next output of the task; same rule for the shape. */
extern TensorView *op_output(OpCall *call, DType dtype, const TensorShape *shape);

/* The next output of the task is not wanted. */
extern void op_no_output(OpCall *call);

/* Runs the task on the first provider that can. */
extern void op_execute(OpCall *call);

/* Output i as a bytea; NULL pointer datum where not wanted. */
extern Datum op_datum(OpCall *call, int i);

/* Arguments that are not tensors ----------------------------------------- */

/* Does the call have the argument, and is it not NULL? */
extern bool arg_given(FunctionCallInfo fcinfo, int argno);

extern int32 arg_int(FunctionCallInfo fcinfo, int argno, int32 dflt);
extern bool arg_bool(FunctionCallInfo fcinfo, int argno, bool dflt);
extern double arg_float8(FunctionCallInfo fcinfo, int argno, double dflt);

/* Shape from int[]: ERROR 22023 for a negative size, 54000 over rank 8. */
extern bool arg_shape(FunctionCallInfo fcinfo, int argno, const char *name, TensorShape *shape);

/*
 * The same for a shape of `numel` elements, where one size may be -1: what is
 * left for it. ERROR 22000 when the shape has another number of elements.
 */
extern bool arg_shape_of(FunctionCallInfo fcinfo, int argno, const char *name, int64 numel,
						 TensorShape *shape);

/*
 * A tensor argument to be read on the host: elements in C order, downloaded when
 * it is resident; false when NULL.
 */
extern bool arg_tensor(FunctionCallInfo fcinfo, int argno, const char *name, TensorView *view);

/* Reads a value's header from as small a prefix of it as will do; false with the error. */
extern bool read_header(Datum value, NpyHeader *header, NpyError *err);

/* Only dtype and shape, reading (and downloading) no elements; data stays NULL. */
extern bool arg_tensor_header(FunctionCallInfo fcinfo, int argno, const char *name, TensorView *view);

/* Is the bytea a tensor? Reads no elements either. */
extern bool datum_is_tensor(Datum value);

/* Checks of one tensor or two ---------------------------------------------*/

/* The axes of an image with 1 to 3 spatial ones: "N, C, H, W". */
extern const char *spatial_layout(int nd);

/* ERROR 22000 unless t has `rank` axes, which `layout` names. */
extern void check_rank(const char *name, const TensorView *t, int rank, const char *layout);

/* ERROR 22000 unless t has this shape, which `expected` explains. */
extern void check_shape(const char *name, const TensorView *t, const TensorShape *shape, const char *expected);

/* ERROR 22023 when an axis of the shape from `first` on is empty. */
extern void check_not_empty(const char *name, const TensorShape *shape, int first);

/* ERROR 22000 unless t is (N, C) and up to three spatial axes, `least` axes in all. */
extern void check_spatial_rank(const char *name, const TensorView *t, int least);

/*
 * ERROR 22023 when a spatial axis of the output `out` has no element, 54000 when
 * the padded input has more elements than the libraries can count.
 */
extern void check_window_fits(const Window *window, const TensorShape *in, const TensorShape *out);

/* (N, C, s..) becomes (N, C, S). */
extern void merge_spatial(TensorShape *shape);

/* ERROR 54000 when the bytes of a tensor of this shape can't be counted. */
extern void check_size(DType dtype, const TensorShape *shape);

/* ERROR 22000 unless float32, float64, float16 or bfloat16. */
extern void check_float(const char *name, const TensorView *t);

/* ERROR 22003 unless an element of the type can hold the value. */
extern void check_holds(DType dtype, double value);

/* ERROR 22000 unless b has a's type. */
extern void check_same_dtype(const char *aname, const TensorView *a, const char *bname, const TensorView *b);

/*
 * int[] argument of one element for all `nd` spatial axes, or one for each, none
 * less than `least`; false when NULL. ERROR 22023 otherwise.
 */
extern bool arg_spatial(FunctionCallInfo fcinfo, int argno, const char *name, int nd, int64 least,
						int64 *values);

/*
 * Window options of an entry point: kernel size known, stride, padding and
 * dilation at their arguments (-1: the option does not exist; NULL: 1, 0, 1, or
 * the kernel's size for a stride with stride_is_kernel).
 */
extern void arg_window(FunctionCallInfo fcinfo, int nd, const int64 *kernel, int stride_arg,
					   bool stride_is_kernel, int padding_arg, int dilation_arg, Window *window);

#endif							/* OP_H */

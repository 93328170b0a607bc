/*
 * The reference provider: plain loops in double, the oracle of the tests and the
 * answer for what the fast providers lack. One implementation serves every float
 * type: elements become double when they are loaded, and are rounded once, when
 * they are stored.
 */
#ifndef REF_H
#define REF_H

#include "provider.h"

/* Memory of ref_load and ref_result lives until the kernel ends. */

/* The elements as double; NULL when the tensor was not given. */
extern const double *ref_load(const TensorView *view);

/* Zeros, as many as the tensor has elements; NULL when it is not wanted. */
extern double *ref_result(const TensorView *view);

/* Rounds the values into the tensor, when it is wanted. */
extern void ref_store(const TensorView *view, const double *values);

/* Window and shapes with three spatial axes, those that are missing of size 1 and first. */
typedef struct RefWindow
{
	Window		w;
	int64		in[MAX_SPATIAL];
	int64		out[MAX_SPATIAL];
	int64		in_size;		/* elements of an input channel */
	int64		out_size;
	int64		kernel_size;
} RefWindow;

extern void ref_window(RefWindow *r, const Window *w, const TensorShape *in, const TensorShape *out);

extern void ref_conv(OpTask *task);
extern void ref_conv_backward_input(OpTask *task);
extern void ref_conv_backward_weight(OpTask *task);
extern void ref_conv_backward_bias(OpTask *task);
extern void ref_pool(OpTask *task);
extern void ref_pool_backward(OpTask *task);
extern void ref_batch_norm(OpTask *task);
extern void ref_batch_norm_train(OpTask *task);
extern void ref_batch_norm_backward(OpTask *task);
extern void ref_activation(OpTask *task);

#endif							/* REF_H */

/* Activations: y = f(x), elementwise. */
#include "postgres.h"

#include "kernels.h"
#include "session.h"

#define BF16_SIGN 0x8000
#define BF16_INFINITY 0x7f80

/*
 * Why relu is a loop of ours: oneDNN makes 0 of NaN, and to look for NaN
 * afterwards costs as much as the whole computation.
 */
static void
relu_float32(const float *restrict x, float *restrict y, int64 n)
{
#pragma omp parallel for simd schedule(static)
	for (int64 i = 0; i < n; i++)
		y[i] = x[i] < 0 ? 0 : x[i];
}

static void
relu_bfloat16(const uint16 *restrict x, uint16 *restrict y, int64 n)
{
#pragma omp parallel for simd schedule(static)
	for (int64 i = 0; i < n; i++)
		y[i] = x[i] > BF16_SIGN && x[i] <= (BF16_SIGN | BF16_INFINITY) ? 0 : x[i];
}

/* x (M) -> y (M) */
OpOutcome
dn_activation(OpTask *task)
{
	const TensorView *x = &task->in[0];
	OpOutcome	outcome = dn_begin(task);

	if (outcome != OP_DONE)
		return outcome;
	if (x->dtype == DT_FLOAT32)
		relu_float32(x->data, task->out[0].data, x->shape.dims[0]);
	else
		relu_bfloat16(x->data, task->out[0].data, x->shape.dims[0]);
	return dn_end(task, true);
}

/* x (M) of any type -> y (M); a host tensor is already where it is to be. */
OpOutcome
dn_copy(OpTask *task)
{
	const TensorView *x = &task->in[0];

	memcpy(task->out[0].data, x->data, x->shape.dims[0] * dtype_size(x->dtype));
	return OP_DONE;
}

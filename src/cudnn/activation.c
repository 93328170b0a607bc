/* Activations, through the classic API. */
#include "postgres.h"

#include "kernels.h"
#include "session.h"

/* It looks at one element after the other, wherever they lie. */
TensorLayout
nv_activation_layout(const OpTask *task)
{
	return task->layout;
}

/* x (M) -> y (M) */
OpOutcome
nv_activation(OpTask *task)
{
	const TensorView *x = &task->in[0];
	int			dims[] = {1, 1, 1, x->shape.dims[0]};
	OpOutcome	outcome = nv_begin(task);

	if (outcome != OP_DONE)
		return outcome;
	return nv_end(task,
				  nv_tensor(0, x->dtype, LAYOUT_C_ORDER, lengthof(dims), dims) &&
				  NV_DNN(cudnnActivationForward(nv.handle, nv.activation, nv_one(x->dtype), nv.tensor[0], x->data,
												&nv_zero, nv.tensor[0], task->out[0].data)));
}

/* x (M) of any type -> y (M) */
OpOutcome
nv_copy(OpTask *task)
{
	const TensorView *x = &task->in[0];
	OpOutcome	outcome = nv_begin(task);

	if (outcome != OP_DONE)
		return outcome;
	return nv_end(task, NV_CUDA(cudaMemcpyAsync(task->out[0].data, x->data,
												x->shape.dims[0] * dtype_size(x->dtype),
												cudaMemcpyDeviceToDevice, nv.stream)));
}

/* The kernels of this provider, as its table in provider.c lists them. */
#ifndef KERNELS_H
#define KERNELS_H

#include "provider.h"

extern OpOutcome nv_conv(OpTask *task);
extern OpOutcome nv_conv_backward_input(OpTask *task);
extern OpOutcome nv_conv_backward_weight(OpTask *task);
extern OpOutcome nv_conv_backward_bias(OpTask *task);
extern OpOutcome nv_pool(OpTask *task);
extern OpOutcome nv_pool_backward(OpTask *task);
extern OpOutcome nv_batch_norm(OpTask *task);
extern OpOutcome nv_batch_norm_train(OpTask *task);
extern OpOutcome nv_batch_norm_backward(OpTask *task);
extern OpOutcome nv_activation(OpTask *task);
extern OpOutcome nv_copy(OpTask *task);

/* In which layout they want a task; C order for the others. */
extern TensorLayout nv_conv_layout(const OpTask *task);
extern TensorLayout nv_pool_layout(const OpTask *task);
extern TensorLayout nv_batch_norm_layout(const OpTask *task);
extern TensorLayout nv_activation_layout(const OpTask *task);

#endif							/* KERNELS_H */

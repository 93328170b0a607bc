/* The operations: each computes a task of provider.h. */
#ifndef ONEDNN_KERNELS_H
#define ONEDNN_KERNELS_H

#include "provider.h"

extern OpOutcome dn_conv(OpTask *task);
extern OpOutcome dn_conv_backward_input(OpTask *task);
extern OpOutcome dn_conv_backward_weight(OpTask *task);
extern OpOutcome dn_conv_backward_bias(OpTask *task);
extern OpOutcome dn_pool(OpTask *task);
extern OpOutcome dn_pool_backward(OpTask *task);
extern OpOutcome dn_batch_norm(OpTask *task);
extern OpOutcome dn_batch_norm_train(OpTask *task);
extern OpOutcome dn_batch_norm_backward(OpTask *task);
extern OpOutcome dn_activation(OpTask *task);
extern OpOutcome dn_copy(OpTask *task);

#endif							/* ONEDNN_KERNELS_H */

/* Max pooling of what oneDNN treats otherwise than we do. */
#ifndef ONEDNN_POOL_MAX_H
#define ONEDNN_POOL_MAX_H

#include "provider.h"

/*
 * oneDNN looks for something greater than the lowest finite number: it passes
 * over NaN and never finds -Infinity. Channels of x (N,C,i..) that have such an
 * element, or a window on no element at all, are computed again: their part of
 * y (N,C,o..), or with dy (N,C,o..) of dx (N,C,i..). Only between dn_begin and
 * dn_end.
 */
extern void mend_max_pool(const Window *window, const TensorView *x, const TensorView *y);
extern void mend_max_pool_backward(const Window *window, const TensorView *dy, const TensorView *x,
								   const TensorView *dx);

#endif							/* ONEDNN_POOL_MAX_H */

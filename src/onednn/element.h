/* Elements of a tensor, where a kernel mends with a loop of its own what oneDNN leaves. */
#ifndef ONEDNN_ELEMENT_H
#define ONEDNN_ELEMENT_H

#include "half.h"
#include "provider.h"

static inline float
element_get(const TensorView *t, int64 i)
{
	return t->dtype == DT_FLOAT32 ? ((const float *) t->data)[i] :
		(float) bfloat16_to_double(((const uint16 *) t->data)[i]);
}

static inline void
element_set(const TensorView *t, int64 i, float value)
{
	if (t->dtype == DT_FLOAT32)
		((float *) t->data)[i] = value;
	else
		((uint16 *) t->data)[i] = double_to_bfloat16(value);
}

/* Elements of all axes from `first` on. */
static inline int64
elements_from(const TensorShape *shape, int first)
{
	int64		n = 1;

	for (int i = first; i < shape->rank; i++)
		n *= shape->dims[i];
	return n;
}

#endif							/* ONEDNN_ELEMENT_H */

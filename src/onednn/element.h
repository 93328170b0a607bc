/* Elements of a tensor, for the loops that a kernel does itself. */
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

/*
 * Sums of n elements from `first` on, in double: in float they lose too much. Of
 * the elements, of the squares of their distances from a center, and of products
 * with such distances.
 */
static inline double
element_sum(const TensorView *t, int64 first, int64 n)
{
	double		sum = 0;

#pragma omp simd reduction(+:sum)
	for (int64 i = first; i < first + n; i++)
		sum += element_get(t, i);
	return sum;
}

static inline double
element_sum_of_squares(const TensorView *t, int64 first, int64 n, double center)
{
	double		sum = 0;

#pragma omp simd reduction(+:sum)
	for (int64 i = first; i < first + n; i++)
		sum += (element_get(t, i) - center) * (element_get(t, i) - center);
	return sum;
}

static inline double
element_sum_of_products(const TensorView *a, const TensorView *b, int64 first, int64 n, double center)
{
	double		sum = 0;

#pragma omp simd reduction(+:sum)
	for (int64 i = first; i < first + n; i++)
		sum += element_get(a, i) * (element_get(b, i) - center);
	return sum;
}

#endif							/* ONEDNN_ELEMENT_H */

/*
 * The two 16-bit floats, to double and back, and elements of any float type. Both
 * are IEEE-like: sign, exponent, mantissa, with subnormals, infinities and NaN.
 * From double there is one rounding, to nearest, ties to even; too big a value
 * becomes an infinity.
 */
#ifndef HALF_H
#define HALF_H

#include <math.h>
#include <string.h>

#include "tensor.h"

#define FLOAT16_MANTISSA 10
#define FLOAT16_BIAS 15
#define BFLOAT16_MANTISSA 7
#define BFLOAT16_BIAS 127

/* The float of `mantissa` bits and this exponent bias, exactly. */
static inline double
small_float_to_double(uint16 value, int mantissa, int bias)
{
	uint64		sign = (uint64) (value & 0x8000) << 48;
	int			exponent = value >> mantissa & (2 * bias + 1);
	uint64		fraction = value & ((1 << mantissa) - 1);
	uint64		bits;
	double		result;

	if (exponent == 0)
	{
		result = fraction * ldexp(1.0, 1 - bias - mantissa);
		return sign ? -result : result;
	}
	exponent = exponent == 2 * bias + 1 ? 0x7ff : exponent - bias + 1023;
	bits = sign | (uint64) exponent << 52 | fraction << (52 - mantissa);
	memcpy(&result, &bits, sizeof(result));
	return result;
}

/* The nearest float of `mantissa` bits and this exponent bias. */
static inline uint16
double_to_small_float(double value, int mantissa, int bias)
{
	const int	infinity = (2 * bias + 1) << mantissa;
	uint64		bits;
	uint64		fraction;
	uint64		dropped;
	uint64		half;
	int			sign;
	int			exponent;
	int			drop = 52 - mantissa;
	int			result;

	memcpy(&bits, &value, sizeof(bits));
	sign = bits >> 48 & 0x8000;
	exponent = bits >> 52 & 0x7ff;
	fraction = bits & ((UINT64CONST(1) << 52) - 1);

	if (exponent == 0x7ff)
		return sign | infinity | (fraction != 0 ? 1 << (mantissa - 1) : 0);
	exponent += bias - 1023;
	if (exponent < -mantissa)
		return sign;			/* less than half the smallest subnormal */
	if (exponent <= 0)
	{
		fraction |= UINT64CONST(1) << 52;
		drop += 1 - exponent;
		exponent = 0;
	}

	/* a carry out of the fraction goes into the exponent, as it should */
	result = (exponent << mantissa) + (int) (fraction >> drop);
	dropped = fraction & ((UINT64CONST(1) << drop) - 1);
	half = UINT64CONST(1) << (drop - 1);
	if (dropped > half || (dropped == half && (result & 1)))
		result++;
	return sign | (result < infinity ? result : infinity);
}

static inline double
half_to_double(uint16 value)
{
	return small_float_to_double(value, FLOAT16_MANTISSA, FLOAT16_BIAS);
}

static inline uint16
double_to_half(double value)
{
	return double_to_small_float(value, FLOAT16_MANTISSA, FLOAT16_BIAS);
}

static inline double
bfloat16_to_double(uint16 value)
{
	return small_float_to_double(value, BFLOAT16_MANTISSA, BFLOAT16_BIAS);
}

static inline uint16
double_to_bfloat16(double value)
{
	return double_to_small_float(value, BFLOAT16_MANTISSA, BFLOAT16_BIAS);
}

/* Element i of data of a float type, aligned. */
static inline double
float_get(DType dtype, const void *data, int64 i)
{
	switch (dtype)
	{
		case DT_FLOAT64:
			return ((const double *) data)[i];
		case DT_FLOAT16:
			return half_to_double(((const uint16 *) data)[i]);
		case DT_BFLOAT16:
			return bfloat16_to_double(((const uint16 *) data)[i]);
		default:
			return ((const float *) data)[i];
	}
}

static inline void
float_set(DType dtype, void *data, int64 i, double value)
{
	switch (dtype)
	{
		case DT_FLOAT64:
			((double *) data)[i] = value;
			break;
		case DT_FLOAT16:
			((uint16 *) data)[i] = double_to_half(value);
			break;
		case DT_BFLOAT16:
			((uint16 *) data)[i] = double_to_bfloat16(value);
			break;
		default:
			((float *) data)[i] = value;
			break;
	}
}

#endif							/* HALF_H */

/*
 * The .npy format: a strict reader and the one canonical writer of its header.
 * Pure functions over bytes: no allocation, no ereport, no server; the fuzzer
 * links this file alone.
 */
#ifndef NPY_H
#define NPY_H

#include "tensor.h"

/* No canonical header of rank 8 is longer. */
#define NPY_MAX_HEADER 320

typedef struct NpyHeader
{
	DType		dtype;
	TensorShape shape;
	bool		fortran_order;
	bool		big_endian;		/* elements must be swapped */
	size_t		data_offset;	/* where the elements start */
	size_t		data_size;		/* product of dims * item size == total - data_offset */
} NpyHeader;

typedef struct NpyError
{
	size_t		at;				/* byte of the value */
	char		what[120];		/* lower case, no period */
} NpyError;

/*
 * Reads the header of a value of `total` bytes of which the first `len` are at
 * hand (len == total, or a prefix: then the answer "header is longer than what
 * is at hand" is err->at == len with *need set to the bytes wanted).
 */
extern bool npy_read_header(const uint8 *bytes, size_t len, size_t total, NpyHeader *header,
							size_t *need, NpyError *err);

/* Writes the header that NumPy writes; returns its length, a multiple of 64. */
extern size_t npy_write_header(char *dst, DType dtype, const TensorShape *shape);

#endif							/* NPY_H */

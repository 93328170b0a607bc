/*
 * libFuzzer target for the .npy header reader. Beside not crashing, what it
 * takes must hold together: the elements lie inside the value, and the header
 * that we would write for it reads back as the same.
 */
#include "postgres.h"

#include <unistd.h>

#include "npy.h"

extern int	LLVMFuzzerTestOneInput(const uint8 *data, size_t size);

static void
check(bool holds, const char *what)
{
	if (!holds)
	{
		(void) !write(STDERR_FILENO, what, strlen(what));
		__builtin_trap();
	}
}

static bool
same_shape(const TensorShape *a, const TensorShape *b)
{
	return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof(a->dims[0])) == 0;
}

/* The value is all there, or a prefix of it is: both must give the same. */
static void
check_prefixes(const uint8 *data, size_t size, bool taken, const NpyHeader *whole)
{
	for (size_t len = 0; len < size && len < 256; len += 1 + len / 4)
	{
		/* an exact copy, so that reading beyond it is seen */
		uint8	   *prefix = malloc(len + 1);
		size_t		need = 0;
		NpyHeader	header;
		NpyError	err;
		bool		ok;

		memcpy(prefix, data, len);
		ok = npy_read_header(prefix, len, size, &header, &need, &err);
		check(!ok || (taken && header.data_offset == whole->data_offset), "a prefix gives what the whole gives");
		check(ok || need <= size, "more is wanted than there is");
		free(prefix);
	}
}

int
LLVMFuzzerTestOneInput(const uint8 *data, size_t size)
{
	NpyHeader	header,
				again;
	NpyError	err = {0};
	size_t		need = 0;
	char		written[NPY_MAX_HEADER];
	size_t		length;
	bool		taken = npy_read_header(data, size, size, &header, &need, &err);

	if (taken)
	{
		check(header.data_offset <= size && header.data_size == size - header.data_offset, "elements are the rest of the value");
		check(header.shape.rank >= 0 && header.shape.rank <= TENSOR_MAX_RANK, "rank is 0 to 8");

		length = npy_write_header(written, header.dtype, &header.shape);
		check(length <= sizeof(written) && length % 64 == 0, "a header is a multiple of 64 bytes");
		check(npy_read_header((uint8 *) written, length, length + header.data_size, &again, &need, &err),
			  "our own header is taken");
		check(again.dtype == header.dtype && same_shape(&again.shape, &header.shape) &&
			  !again.fortran_order && !again.big_endian && again.data_offset == length,
			  "and reads back as the same");
	}
	else
		check(err.what[0] != '\0' && memchr(err.what, '\0', sizeof(err.what)) != NULL, "an error says what");
	check_prefixes(data, size, taken, &header);
	return 0;
}

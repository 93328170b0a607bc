/*
 * The .npy format, strict and pure; see npy.h. The header is a Python literal,
 * which is parsed here and never evaluated:
 *
 *		{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 *
 * Keys may come in any order and blanks anywhere between tokens. What NumPy's
 * reader takes beyond that (other spellings of a type, numbers of Python 2) is
 * refused.
 */
#include "postgres.h"

#include <stdarg.h>

#include "common/int.h"

#include "npy.h"

/* this file is linked without the server, so with the C library's */
#undef snprintf
#undef vsnprintf

#define MAGIC "\x93NUMPY"
#define MAGIC_SIZE 6

/* Longest header text that is read: as much as format 1.0 can say. */
#define MAX_TEXT 65535

const DTypeInfo dtype_info[DT_COUNT] = {
	[DT_FLOAT32] = {"float32", "<f4"},
	[DT_FLOAT64] = {"float64", "<f8"},
	[DT_FLOAT16] = {"float16", "<f2"},
	[DT_BFLOAT16] = {"bfloat16", "<V2"},
	[DT_UINT8] = {"uint8", "|u1"},
	[DT_INT8] = {"int8", "|i1"},
	[DT_INT32] = {"int32", "<i4"},
	[DT_INT64] = {"int64", "<i8"},
	[DT_BOOL] = {"bool", "|b1"},
};

/* Reading ----------------------------------------------------------------- */

typedef struct Cursor
{
	const uint8 *bytes;
	size_t		at;
	size_t		end;			/* of the header text */
	NpyError   *err;
} Cursor;

static bool fail_at(NpyError *err, size_t at, const char *format,...) pg_attribute_printf(3, 4);

/* Says what is wrong where; always false. */
static bool
fail_at(NpyError *err, size_t at, const char *format,...)
{
	va_list		args;

	err->at = at;
	va_start(args, format);
	vsnprintf(err->what, sizeof(err->what), format, args);
	va_end(args);
	return false;
}

static bool
fail(Cursor *c, const char *what)
{
	return fail_at(c->err, c->at, "%s", what);
}

static void
skip_blanks(Cursor *c)
{
	while (c->at < c->end && memchr(" \t\r\n\f", c->bytes[c->at], 5) != NULL)
		c->at++;
}

/* Steps over `token` if it is next. */
static bool
accept(Cursor *c, const char *token)
{
	size_t		len = strlen(token);

	skip_blanks(c);
	if (c->end - c->at < len || memcmp(c->bytes + c->at, token, len) != 0)
		return false;
	c->at += len;
	return true;
}

static bool
expect(Cursor *c, const char *token)
{
	if (accept(c, token))
		return true;
	return fail_at(c->err, c->at, "expected \"%s\"", token);
}

/* A quoted string of printable ASCII without escapes, into dst[size]. */
static bool
read_string(Cursor *c, char *dst, size_t size)
{
	uint8		quote;
	size_t		len = 0;

	skip_blanks(c);
	if (c->at == c->end || (c->bytes[c->at] != '\'' && c->bytes[c->at] != '"'))
		return fail(c, "expected a quoted string");
	quote = c->bytes[c->at++];
	while (c->at < c->end && c->bytes[c->at] != quote)
	{
		uint8		byte = c->bytes[c->at];

		if (byte < ' ' || byte > '~' || byte == '\\')
			return fail(c, "strange character in a string");
		if (len + 1 >= size)
			return fail(c, "string is too long");
		dst[len++] = byte;
		c->at++;
	}
	if (c->at == c->end)
		return fail(c, "string has no end");
	c->at++;
	dst[len] = '\0';
	return true;
}

static bool
read_descr(Cursor *c, NpyHeader *header)
{
	char		descr[32];
	size_t		at;

	skip_blanks(c);
	at = c->at;
	if (!read_string(c, descr, sizeof(descr)))
		return false;
	for (DType dtype = 0; dtype < DT_COUNT; dtype++)
	{
		const DTypeInfo *info = &dtype_info[dtype];
		bool		orderless = dtype_size(dtype) == 1 || dtype == DT_BFLOAT16;

		if (descr[0] == '\0' || strcmp(descr + 1, info->descr + 1) != 0)
			continue;
		if (descr[0] != '<' && descr[0] != '>' && !(descr[0] == '|' && orderless))
			continue;
		header->dtype = dtype;
		header->big_endian = descr[0] == '>' && dtype_size(dtype) > 1;
		return true;
	}
	return fail_at(c->err, at, "\"%s\" is not an element type of tensors", descr);
}

static bool
read_fortran_order(Cursor *c, NpyHeader *header)
{
	header->fortran_order = accept(c, "True");
	if (header->fortran_order || accept(c, "False"))
		return true;
	return fail(c, "expected True or False");
}

/* A size: decimal digits, without a sign, as Python writes it. */
static bool
read_size(Cursor *c, int64 *size)
{
	size_t		start;

	skip_blanks(c);
	start = c->at;
	*size = 0;
	for (; c->at < c->end && c->bytes[c->at] >= '0' && c->bytes[c->at] <= '9'; c->at++)
		if (pg_mul_s64_overflow(*size, 10, size) || pg_add_s64_overflow(*size, c->bytes[c->at] - '0', size))
			return fail_at(c->err, start, "size of an axis is too big");
	if (c->at == start)
		return fail(c, "expected the size of an axis");
	if (c->bytes[start] == '0' && c->at - start > 1)
		return fail_at(c->err, start, "number starts with 0");
	return true;
}

/* A tuple: (), (2,), (2, 3), (2, 3,) but not (2). */
static bool
read_shape(Cursor *c, NpyHeader *header)
{
	TensorShape *shape = &header->shape;
	bool		comma = true;

	if (!expect(c, "("))
		return false;
	shape->rank = 0;
	while (!accept(c, ")"))
	{
		if (!comma)
			return fail(c, "expected \",\" or \")\"");
		if (shape->rank == TENSOR_MAX_RANK)
			return fail(c, "shape has more than 8 axes");
		if (!read_size(c, &shape->dims[shape->rank]))
			return false;
		shape->rank++;
		comma = accept(c, ",");
	}
	if (shape->rank == 1 && !comma)
		return fail(c, "shape is a number, not a tuple");
	return true;
}

/* The dictionary, from the cursor to the end of the text: three keys, each once. */
static bool
read_dictionary(Cursor *c, NpyHeader *header)
{
	static const struct
	{
		const char *name;
		bool		(*read) (Cursor *c, NpyHeader *header);
	}			keys[] = {
		{"descr", read_descr}, {"fortran_order", read_fortran_order}, {"shape", read_shape}
	};
	bool		seen[lengthof(keys)] = {false};
	bool		comma = true;

	if (!expect(c, "{"))
		return false;
	while (!accept(c, "}"))
	{
		char		name[32];
		size_t		at = c->at;
		int			i = 0;

		if (!comma)
			return fail(c, "expected \",\" or \"}\"");
		if (!read_string(c, name, sizeof(name)))
			return false;
		while (i < (int) lengthof(keys) && strcmp(name, keys[i].name) != 0)
			i++;
		if (i == lengthof(keys))
			return fail_at(c->err, at, "unknown key \"%s\"", name);
		if (seen[i])
			return fail_at(c->err, at, "key \"%s\" comes twice", name);
		if (!expect(c, ":") || !keys[i].read(c, header))
			return false;
		seen[i] = true;
		comma = accept(c, ",");
	}
	for (int i = 0; i < (int) lengthof(keys); i++)
		if (!seen[i])
			return fail_at(c->err, c->at, "key \"%s\" is missing", keys[i].name);
	skip_blanks(c);
	if (c->at < c->end)
		return fail(c, "text after the dictionary");
	return true;
}

/*
 * Are the first n bytes of the value at hand? When not, because it ends before,
 * or because only a prefix was given.
 */
static bool
at_hand(size_t n, size_t len, size_t total, size_t *need, NpyError *err)
{
	if (n > total)
		return fail_at(err, total, "value ends within the header");
	if (n > len)
	{
		*need = n;
		return fail_at(err, len, "header is longer than what is at hand");
	}
	return true;
}

/* The elements must take exactly the rest of the value, 0 of them included. */
static bool
check_payload(NpyHeader *header, size_t total, NpyError *err)
{
	const TensorShape *shape = &header->shape;
	int64		size = dtype_size(header->dtype);
	bool		empty = false;

	for (int i = 0; i < shape->rank; i++)
		if (shape->dims[i] == 0)
			empty = true;
		else if (pg_mul_s64_overflow(size, shape->dims[i], &size))
			return fail_at(err, header->data_offset, "shape has more elements than can be counted");
	header->data_size = empty ? 0 : size;
	if (header->data_size != total - header->data_offset)
		return fail_at(err, header->data_offset, "%zu bytes of elements where the shape wants %zu",
					   total - header->data_offset, header->data_size);
	return true;
}

bool
npy_read_header(const uint8 *bytes, size_t len, size_t total, NpyHeader *header, size_t *need, NpyError *err)
{
	Cursor		c = {.bytes = bytes, .err = err};
	size_t		text;
	size_t		text_size;

	*need = 0;
	memset(header, 0, sizeof(*header));
	if (total < MAGIC_SIZE)
		return fail_at(err, 0, "no magic string of NumPy");
	if (!at_hand(MAGIC_SIZE, len, total, need, err))
		return false;
	if (memcmp(bytes, MAGIC, MAGIC_SIZE) != 0)
		return fail_at(err, 0, "no magic string of NumPy");
	if (!at_hand(MAGIC_SIZE + 2, len, total, need, err))
		return false;
	if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
		return fail_at(err, MAGIC_SIZE, "unknown format version %d.%d", bytes[6], bytes[7]);

	text = bytes[6] == 1 ? 10 : 12;
	if (!at_hand(text, len, total, need, err))
		return false;
	text_size = bytes[8] | bytes[9] << 8;
	if (bytes[6] > 1)
		text_size |= bytes[10] << 16 | (size_t) bytes[11] << 24;
	if (text_size > MAX_TEXT)
		return fail_at(err, 8, "header of %zu bytes is too long", text_size);
	if (!at_hand(text + text_size, len, total, need, err))
		return false;

	c.at = text;
	c.end = text + text_size;
	header->data_offset = c.end;
	return read_dictionary(&c, header) && check_payload(header, total, err);
}

/* Writing ----------------------------------------------------------------- */

static char *
put(char *dst, const char *text)
{
	size_t		len = strlen(text);

	memcpy(dst, text, len);
	return dst + len;
}

/*
 * As NumPy does it: one blank at least before the end, room for the first size
 * to grow to 21 digits, and elements at a multiple of 64.
 */
size_t
npy_write_header(char *dst, DType dtype, const TensorShape *shape)
{
	char	   *p = dst + MAGIC_SIZE + 4;
	char		number[24];
	int			grow = 0;
	size_t		size;

	p = put(p, "{'descr': '");
	p = put(p, dtype_info[dtype].descr);
	p = put(p, "', 'fortran_order': False, 'shape': (");
	for (int i = 0; i < shape->rank; i++)
	{
		int			digits = snprintf(number, sizeof(number), INT64_FORMAT, shape->dims[i]);

		if (i == 0)
			grow = 21 - digits;
		else
			p = put(p, " ");
		p = put(p, number);
		if (i < shape->rank - 1 || i == 0)
			p = put(p, ",");
	}
	p = put(p, "), }");

	size = ((p - dst) + grow + 1 + 64) / 64 * 64;
	memset(p, ' ', dst + size - p);
	dst[size - 1] = '\n';
	memcpy(dst, MAGIC "\x01\x00", MAGIC_SIZE + 2);
	dst[8] = (size - 10) & 0xff;
	dst[9] = (size - 10) >> 8;
	return size;
}

/*
 * Tensors as text, as NumPy prints arrays: elements aligned in columns, at most
 * eight digits after the point, lines of 75 characters, and of more than a
 * thousand elements only the first and last three of each axis.
 */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "compat.h"
#include "op.h"

#define LINE_WIDTH 75
#define PRECISION 8
#define THRESHOLD 1000
#define EDGE_ITEMS 3
#define MAX_WORD 64				/* characters of an element */
#define MAX_DIGITS 400			/* of a double, whatever the format */

/* How all elements are written, so that they align. */
typedef struct Style
{
	const TensorView *x;
	bool		summary;
	bool		exponent;		/* 1.5e+10 */
	int			digits;			/* most digits after the point that one needs */
	int			width;			/* of the widest */
} Style;

/* Elements ------------------------------------------------------------------ */

/* What a double is in the type of the tensor. */
static double
rounded(DType dtype, double value)
{
	int64		memory;
	TensorView	one = {dtype, {0}, &memory};

	tensor_set_double(&one, 0, value);
	return tensor_get_double(&one, 0);
}

static void
write_digits(char *text, double value, bool exponent, int digits)
{
	snprintf(text, MAX_DIGITS, exponent ? "%.*e" : "%.*f", digits, value);
}

/* Does the text read back as the value, in the type of the tensor? */
static bool
reads_back(DType dtype, const char *text, double value)
{
	return (dtype == DT_FLOAT32 ? strtof(text, NULL) : rounded(dtype, strtod(text, NULL))) == value;
}

/*
 * The fewest digits after the point, `most` at most, that tell the value from
 * its neighbours, into text[MAX_DIGITS]; returns how many.
 */
static int
shortest_digits(DType dtype, double value, bool exponent, int most, char *text)
{
	for (int digits = 0; digits <= most; digits++)
	{
		char	   *e;
		double		half_step;

		write_digits(text, value, exponent, digits);
		if (reads_back(dtype, text, value))
			return digits;

		/* above a power of two neighbours are farther away than below: try upward */
		e = strchr(text, 'e');
		half_step = 0.5 * pow(10, (e != NULL ? atoi(e + 1) : 0) - digits);
		write_digits(text, value + copysign(half_step, value), exponent, digits);
		if (reads_back(dtype, text, value))
			return digits;
	}

	/* rounded: what ends in zeros needs fewer */
	write_digits(text, value, exponent, most);
	for (const char *end = text + strcspn(text, "e"); most > 0 && end[-1] == '0'; end--)
		most--;
	write_digits(text, value, exponent, most);
	return most;
}

/* Ends digits that have no point in one, before the exponent if there is one. */
static void
put_point(char *text)
{
	char	   *end = text + strcspn(text, "e");

	memmove(end + 1, end, strlen(end) + 1);
	*end = '.';
}

/* A float in the style, its points under one another. */
static void
float_word(const Style *style, double value, char *word)
{
	char		text[MAX_DIGITS];
	int			digits;

	if (isnan(value))
		strcpy(word, "nan");
	else if (isinf(value))
		strcpy(word, value < 0 ? "-inf" : "inf");
	else
	{
		digits = shortest_digits(style->x->dtype, value, style->exponent, style->digits, text);
		if (style->exponent && digits < style->digits)
			write_digits(text, value, true, style->digits);
		else if (digits == 0)
			put_point(text);
		snprintf(word, MAX_WORD, "%s%*s", text, style->exponent ? 0 : style->digits - digits, "");
	}
}

static void
element_word(const Style *style, int64 i, char *word)
{
	const TensorView *x = style->x;

	if (dtype_is_float(x->dtype))
		float_word(style, tensor_get_double(x, i), word);
	else if (x->dtype == DT_BOOL)
		strcpy(word, tensor_get_double(x, i) == 0 ? "False" : x->shape.rank == 0 ? "True" : " True");
	else if (x->dtype == DT_INT64)
		snprintf(word, MAX_WORD, INT64_FORMAT, ((const int64 *) x->data)[i]);
	else
		snprintf(word, MAX_WORD, "%d", (int) tensor_get_double(x, i));
}

/* Style --------------------------------------------------------------------- */

typedef void (*ElementVisit) (Style *style, int64 i, void *arg);

/* Is index `i` of an axis of `n` left out of a summary? */
static bool
left_out(const Style *style, int64 i, int64 n)
{
	return style->summary && n > 2 * EDGE_ITEMS && i >= EDGE_ITEMS && i < n - EDGE_ITEMS;
}

/* Visits the elements that are shown, below `offset` from axis `axis` on. */
static void
visit_shown(Style *style, int axis, int64 offset, ElementVisit visit, void *arg)
{
	const TensorShape *shape = &style->x->shape;

	if (axis == shape->rank)
	{
		visit(style, offset, arg);
		return;
	}
	for (int64 i = 0; i < shape->dims[axis]; i++)
		if (left_out(style, i, shape->dims[axis]))
			i = shape->dims[axis] - EDGE_ITEMS - 1;
		else
			visit_shown(style, axis + 1, offset * shape->dims[axis] + i, visit, arg);
}

/* Least and greatest magnitude of what is finite and not 0. */
static void
visit_range(Style *style, int64 i, void *arg)
{
	double	   *range = arg;
	double		value = fabs(tensor_get_double(style->x, i));

	if (!isfinite(value) || value == 0)
		return;
	range[0] = range[1] == 0 ? value : Min(range[0], value);
	range[1] = Max(range[1], value);
}

static void
visit_digits(Style *style, int64 i, void *arg)
{
	double		value = tensor_get_double(style->x, i);
	char		text[MAX_DIGITS];

	CHECK_FOR_INTERRUPTS();
	if (isfinite(value))
		style->digits = Max(style->digits,
							shortest_digits(style->x->dtype, value, style->exponent, PRECISION, text));
}

static void
visit_width(Style *style, int64 i, void *arg)
{
	char		word[MAX_WORD];

	element_word(style, i, word);
	style->width = Max(style->width, (int) strlen(word));
}

/* From which magnitude on a type's values have an exponent, `most` at most. */
static double
exponent_cutoff(DType dtype, double most)
{
	switch (dtype)
	{
		case DT_FLOAT32:
			return Min(most, 1e6);
		case DT_FLOAT16:
		case DT_BFLOAT16:
			return Min(most, 1e3);
		default:
			return most;
	}
}

static void
choose_style(Style *style)
{
	DType		dtype = style->x->dtype;
	double		range[2] = {0, 0};

	if (dtype_is_float(dtype))
	{
		visit_shown(style, 0, 0, visit_range, range);
		style->exponent = range[1] >= exponent_cutoff(dtype, 1e8) ||
			(range[1] > 0 && (range[0] < rounded(dtype, 1e-4) || rounded(dtype, range[1] / range[0]) > 1000));
		visit_shown(style, 0, 0, visit_digits, NULL);
	}
	visit_shown(style, 0, 0, visit_width, NULL);
}

/* Layout -------------------------------------------------------------------- */

/* Adds a word to the line that begins at *line, or to a new one. */
static void
put_word(StringInfo buf, int *line, const char *word, int width, int indent, int line_width)
{
	int			length = Max((int) strlen(word), width);

	if (buf->len - *line + length > line_width && buf->len - *line > indent)
	{
		while (buf->len > 0 && buf->data[buf->len - 1] == ' ')
			buf->data[--buf->len] = '\0';
		appendStringInfoChar(buf, '\n');
		*line = buf->len;
		appendStringInfoSpaces(buf, indent);
	}
	appendStringInfo(buf, "%*s", width, word);
}

/* The innermost axis: words side by side. */
static void
put_row(StringInfo buf, Style *style, int64 offset, int line_width)
{
	const TensorShape *shape = &style->x->shape;
	int			indent = shape->rank;
	int64		n = shape->dims[shape->rank - 1];
	int			line = buf->len - indent;

	for (int64 i = 0; i < n; i++)
	{
		char		word[MAX_WORD];

		if (i > 0)
			appendStringInfoChar(buf, ' ');
		if (left_out(style, i, n))
		{
			put_word(buf, &line, "...", 0, indent, line_width);
			i = n - EDGE_ITEMS - 1;
			continue;
		}
		element_word(style, offset * n + i, word);
		put_word(buf, &line, word, style->width, indent, line_width);
	}
}

/* Axis `axis` in brackets, below `offset`; the line is indented so far. */
static void
put_axis(StringInfo buf, Style *style, int axis, int64 offset, int line_width)
{
	const TensorShape *shape = &style->x->shape;
	int64		n = shape->dims[axis];

	appendStringInfoChar(buf, '[');
	if (axis == shape->rank - 1)
		put_row(buf, style, offset, line_width - 1);
	else
		for (int64 i = 0; i < n; i++)
		{
			if (i > 0)
			{
				for (int j = axis; j < shape->rank - 1; j++)
					appendStringInfoChar(buf, '\n');
				appendStringInfoSpaces(buf, axis + 1);
			}
			if (left_out(style, i, n))
			{
				appendStringInfoString(buf, "...");
				i = n - EDGE_ITEMS - 1;
			}
			else
				put_axis(buf, style, axis + 1, offset * n + i, line_width - 1);
		}
	appendStringInfoChar(buf, ']');
}

/* A tensor of rank 0 is written as a number, all its digits. */
static void
put_scalar(StringInfo buf, Style *style)
{
	DType		dtype = style->x->dtype;
	double		value = tensor_get_double(style->x, 0);
	double		size = fabs(value);
	char		text[MAX_DIGITS];
	char		word[MAX_WORD];

	if (dtype_is_float(dtype) && isfinite(value))
	{
		bool		exponent = size != 0 && (size >= exponent_cutoff(dtype, 1e16) || size < 1e-4);
		int			digits = shortest_digits(dtype, value, exponent, 20, text);

		appendStringInfo(buf, "%s%s", text, digits == 0 && !exponent ? ".0" : "");
		return;
	}
	element_word(style, 0, word);
	appendStringInfoString(buf, word);
}

/* tensor_text(x) */
PG_FUNCTION_INFO_V1(tensor_text);
Datum
tensor_text(PG_FUNCTION_ARGS)
{
	TensorView	x;
	Style		style = {.x = &x};
	StringInfoData buf;
	int64		n;

	(void) arg_tensor(fcinfo, 0, "input", &x);
	n = shape_numel(&x.shape);
	style.summary = n > THRESHOLD;
	initStringInfo(&buf);
	if (n == 0)
		appendStringInfoString(&buf, "[]");
	else if (x.shape.rank == 0)
		put_scalar(&buf, &style);
	else
	{
		choose_style(&style);
		put_axis(&buf, &style, 0, 0, LINE_WIDTH);
	}
	PG_RETURN_TEXT_P(cstring_to_text_with_len(buf.data, buf.len));
}

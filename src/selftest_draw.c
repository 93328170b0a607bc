/*
 * Draws the problems of cudnn_ops_selftest(): random ranks, sizes, options,
 * groups, paddings and now and then an empty batch, always valid. What is done
 * with them is in selftest.c.
 */
#include "postgres.h"

#include "selftest.h"
#include "shape.h"
#include "splitmix.h"

/* Random numbers and text ------------------------------------------------- */

static uint64
draw_bits(Problem *p)
{
	p->state += SPLITMIX_STEP;
	return splitmix_bits(p->state);
}

/* Uniform from low to high, both included. */
static int64
draw_int(Problem *p, int64 low, int64 high)
{
	return low + (int64) (draw_bits(p) % (uint64) (high - low + 1));
}

static bool
one_in(Problem *p, int n)
{
	return draw_int(p, 1, n) == 1;
}

/* The same text in both expressions. */
static void
put(Problem *p, const char *text)
{
	appendStringInfoString(&p->run, text);
	appendStringInfoString(&p->exact, text);
}

static void
put_int(Problem *p, int64 value)
{
	appendStringInfo(&p->run, INT64_FORMAT, value);
	appendStringInfo(&p->exact, INT64_FORMAT, value);
}

/* name => '{v,v}' */
static void
put_ints(Problem *p, const char *name, const int64 *values, int n)
{
	put(p, ", ");
	put(p, name);
	put(p, " => '{");
	for (int i = 0; i < n; i++)
	{
		if (i > 0)
			put(p, ",");
		put_int(p, values[i]);
	}
	put(p, "}'");
}

static void
put_shape(Problem *p, const TensorShape *shape)
{
	char	   *text = shape_text(shape);

	put(p, "'");
	put(p, text);
	put(p, "'");
	pfree(text);
}

/*
 * The tensor of this seed, with values in [-1, 1), or in [0.5, 1.5) when it must
 * be positive.
 */
static void
put_tensor_of(Problem *p, const TensorShape *shape, DType dtype, uint32 seed, bool positive)
{
	const char *type = dtype_info[dtype].name;
	char	   *text = shape_text(shape);
	char	   *random = psprintf("tensor_random('%s', %u, '%s')", text, seed, type);

	if (positive)
	{
		char	   *signed_random = random;

		random = psprintf("tensor_cast(%s, '%s', 0.5, 1)", signed_random, type);
		pfree(signed_random);
	}
	appendStringInfoString(&p->run, random);
	appendStringInfo(&p->exact, "tensor_cast(%s, 'float64')", random);
	pfree(random);
	pfree(text);
}

static void
put_tensor(Problem *p, const TensorShape *shape, bool positive)
{
	put_tensor_of(p, shape, p->dtype, (uint32) draw_bits(p), positive);
}

/*
 * Where a result has few elements, each a sum, all of them may cancel out, and a
 * relative error says nothing then: such sums are of positive values.
 */
static bool
few(const TensorShape *result)
{
	return shape_numel(result) < 32;
}

/* function name with the number of spatial axes: conv + 2 -> conv2d( */
static void
put_call(Problem *p, const char *family, int64 nd, const char *suffix)
{
	put(p, family);
	put_int(p, nd);
	put(p, "d");
	put(p, suffix);
	put(p, "(");
}

/* Convolution ------------------------------------------------------------- */

typedef enum ConvVariant
{
	CONV_FORWARD,
	CONV_TRANSPOSE,
	CONV_INPUT,
	CONV_WEIGHT
} ConvVariant;

static int64
draw_batch(Problem *p)
{
	return one_in(p, 16) ? 0 : draw_int(p, 1, 3);
}

static void
draw_window(Problem *p, Window *w, int64 most_padding)
{
	memset(w, 0, sizeof(*w));
	w->nd = draw_int(p, 1, 3);
	for (int i = 0; i < w->nd; i++)
	{
		w->kernel[i] = draw_int(p, 1, 3);
		w->stride[i] = draw_int(p, 1, 3);
		w->dilation[i] = draw_int(p, 1, 2);
		w->pad_begin[i] = draw_int(p, 0, Min(most_padding, w->kernel[i] - 1));
		w->pad_end[i] = draw_int(p, 0, Min(most_padding, w->kernel[i] - 1));
	}
	if (one_in(p, 2))
		memcpy(w->pad_end, w->pad_begin, sizeof(w->pad_end));
}

static void
put_padding(Problem *p, const Window *w)
{
	int64		padding[2 * MAX_SPATIAL];

	memcpy(padding, w->pad_begin, w->nd * sizeof(int64));
	memcpy(padding + w->nd, w->pad_end, w->nd * sizeof(int64));
	put_ints(p, "padding", padding, 2 * w->nd);
}

/* Sizes of the spatial axes, of image x and response y, whichever of them is the result. */
static void
draw_conv_sizes(Problem *p, int variant, const Window *w, TensorShape *x, TensorShape *y, int64 *output_padding)
{
	for (int i = 0; i < w->nd; i++)
	{
		int64		padding = w->pad_begin[i] + w->pad_end[i];

		output_padding[i] = 0;
		if (variant == CONV_TRANSPOSE)
		{
			/* here y is the input */
			output_padding[i] = draw_int(p, 0, w->stride[i] - 1);
			y->dims[2 + i] = 1 + draw_int(p, 0, 6) + (padding + w->stride[i] - 1) / w->stride[i];
			x->dims[2 + i] = window_input(w, i, y->dims[2 + i], output_padding[i]);
		}
		else
		{
			x->dims[2 + i] = Max(window_span(w, i) - padding, 1) + draw_int(p, 0, 8);
			y->dims[2 + i] = window_output(w, i, x->dims[2 + i], false);
		}
	}
}

static void
draw_conv(Problem *p, int variant)
{
	Window		w;
	int64		groups = one_in(p, 2) ? 1 : draw_int(p, 2, 4);
	int64		wide = one_in(p, 8) ? 16 : 1;
	TensorShape x,
				weight,
				y,
				bias;
	bool		positive;
	int64		output_padding[MAX_SPATIAL];

	draw_window(p, &w, 2);
	x.rank = weight.rank = y.rank = 2 + w.nd;
	x.dims[0] = y.dims[0] = draw_batch(p);
	weight.dims[1] = one_in(p, 4) ? 1 : wide * draw_int(p, 1, 4);
	x.dims[1] = groups * weight.dims[1];
	y.dims[1] = weight.dims[0] = groups * wide * draw_int(p, 1, 4);
	memcpy(weight.dims + 2, w.kernel, w.nd * sizeof(int64));
	draw_conv_sizes(p, variant, &w, &x, &y, output_padding);

	positive = few(variant == CONV_FORWARD ? &y : variant == CONV_WEIGHT ? &weight : &x);
	put_call(p, variant == CONV_TRANSPOSE ? "conv_transpose" : "conv", w.nd,
			 variant == CONV_INPUT ? "_backward_input" : variant == CONV_WEIGHT ? "_backward_weight" : "");
	put_tensor(p, variant == CONV_FORWARD ? &x : &y, positive);
	put(p, ", ");
	put_tensor(p, variant == CONV_WEIGHT ? &x : &weight, positive);
	put(p, ", ");
	if (variant == CONV_INPUT || variant == CONV_WEIGHT)
		put_shape(p, variant == CONV_INPUT ? &x : &weight);
	else if (one_in(p, 3))
		put(p, "NULL");
	else
	{
		bias = (TensorShape) {1, {variant == CONV_FORWARD ? y.dims[1] : x.dims[1]}};
		put_tensor(p, &bias, positive);
	}
	put_ints(p, "stride", w.stride, w.nd);
	put_padding(p, &w);
	put_ints(p, "dilation", w.dilation, w.nd);
	if (variant == CONV_TRANSPOSE)
		put_ints(p, "output_padding", output_padding, w.nd);
	put(p, ", groups => ");
	put_int(p, groups);
	put(p, ")");
}

static void
draw_shape(Problem *p, TensorShape *shape, int least_rank, int most_rank)
{
	shape->rank = draw_int(p, least_rank, most_rank);
	for (int i = 0; i < shape->rank; i++)
		shape->dims[i] = draw_int(p, 1, 6);
	if (shape->rank > 0)
		shape->dims[0] = draw_batch(p);
}

static void
draw_conv_bias(Problem *p, int variant)
{
	TensorShape shape;

	draw_shape(p, &shape, 3, 5);
	put(p, "conv_backward_bias(");
	put_tensor(p, &shape, true);
	put(p, ")");
}

/* Pooling ----------------------------------------------------------------- */

typedef enum PoolVariant
{
	POOL_MAX_FORWARD,
	POOL_AVG_FORWARD,
	POOL_MAX_BACKWARD,
	POOL_AVG_BACKWARD
} PoolVariant;

/* Options of the call, the same in forward and backward. */
static void
put_pool_options(Problem *p, const Window *w, bool max, bool ceil_mode, bool count_include_pad)
{
	put_ints(p, "kernel_size", w->kernel, w->nd);
	put_ints(p, "stride", w->stride, w->nd);
	put_padding(p, w);
	if (max)
		put_ints(p, "dilation", w->dilation, w->nd);
	else if (!count_include_pad)
		put(p, ", count_include_pad => false");
	if (ceil_mode)
		put(p, ", ceil_mode => true");
	put(p, ")");
}

static void
draw_pool(Problem *p, int variant)
{
	bool		max = variant == POOL_MAX_FORWARD || variant == POOL_MAX_BACKWARD;
	bool		ceil_mode = one_in(p, 3);
	bool		count_include_pad = one_in(p, 2);
	bool		dilate = max && one_in(p, 8);
	bool		positive;
	Window		w;
	TensorShape x,
				y;
	uint32		seed = (uint32) draw_bits(p);

	draw_window(p, &w, 2);
	x.rank = y.rank = 2 + w.nd;
	x.dims[0] = y.dims[0] = draw_batch(p);
	x.dims[1] = y.dims[1] = draw_int(p, 1, 5);
	for (int i = 0; i < w.nd; i++)
	{
		if (!dilate)
			w.dilation[i] = 1;
		x.dims[2 + i] = window_span(&w, i) + draw_int(p, 0, 8);
		y.dims[2 + i] = window_output(&w, i, x.dims[2 + i], ceil_mode);
	}

	positive = few(variant == POOL_AVG_BACKWARD ? &x : &y);
	put_call(p, max ? "max_pool" : "avg_pool", w.nd,
			 variant == POOL_MAX_BACKWARD || variant == POOL_AVG_BACKWARD ? "_backward" : "");
	if (variant == POOL_MAX_BACKWARD)
	{
		put_tensor(p, &y, false);
		put(p, ", ");
		put_tensor_of(p, &x, p->dtype, seed, false);
		put(p, ", ");
		put_call(p, "max_pool", w.nd, "");
		put_tensor_of(p, &x, p->dtype, seed, false);
		put_pool_options(p, &w, max, ceil_mode, count_include_pad);
	}
	else if (variant == POOL_AVG_BACKWARD)
	{
		put_tensor(p, &y, positive);
		put(p, ", ");
		put_shape(p, &x);
	}
	else
		put_tensor_of(p, &x, p->dtype, seed, positive);
	put_pool_options(p, &w, max, ceil_mode, count_include_pad);
}

static void
draw_global_pool(Problem *p, int max)
{
	TensorShape shape;

	draw_shape(p, &shape, 3, 5);
	put(p, max ? "global_max_pool(" : "global_avg_pool(");
	put_tensor(p, &shape, true);
	put(p, ")");
}

/* Batch normalization ----------------------------------------------------- */

typedef enum NormVariant
{
	NORM_INFERENCE,
	NORM_TRAIN,
	NORM_BACKWARD
} NormVariant;

static void
put_param(Problem *p, const TensorShape *shape, bool positive)
{
	put(p, ", ");
	put_tensor_of(p, shape, p->dtype == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32,
				  (uint32) draw_bits(p), positive);
}

static void
put_optional_param(Problem *p, const TensorShape *shape)
{
	if (one_in(p, 3))
		put(p, ", NULL");
	else
		put_param(p, shape, false);
}

/* (batch_norm_train(x, weight)).statistic, with a weight that says the mode. */
static void
put_saved(Problem *p, const TensorShape *x, uint32 seed, const TensorShape *param, const char *statistic)
{
	put(p, ", (batch_norm_train(");
	put_tensor_of(p, x, p->dtype, seed, false);
	put_param(p, param, false);
	put(p, statistic);
}

static void
draw_norm(Problem *p, int variant)
{
	static const char *const trained[] = {
		")).output", ")).save_mean", ")).save_invstd", ")).running_mean", ")).running_var"
	};
	static const char *const gradients[] = {")).grad_input", ")).grad_weight", ")).grad_bias"};
	bool		per_activation = one_in(p, 2);
	uint32		seed = (uint32) draw_bits(p);
	int			gradient = draw_int(p, 0, lengthof(gradients) - 1);
	TensorShape x,
				param;

	draw_shape(p, &x, 2, 5);
	/* few values have a variance of almost nothing, and then errors of almost anything */
	if (variant != NORM_INFERENCE && x.dims[0] > 0)
	{
		x.dims[0] = draw_int(p, 8, 16);
		x.dims[1] = draw_int(p, 4, 8);
	}
	param.rank = per_activation ? x.rank - 1 : 1;
	memcpy(param.dims, x.dims + 1, param.rank * sizeof(int64));

	put(p, variant == NORM_INFERENCE ? "batch_norm(" : variant == NORM_TRAIN ? "(batch_norm_train(" : "(batch_norm_backward(");
	if (variant == NORM_BACKWARD)
	{
		/* that of the weight is a sum of grad_output * x, which must not cancel out either */
		put_tensor_of(p, &x, p->dtype, gradient == 1 ? seed : (uint32) draw_bits(p), gradient == 2);
		put(p, ", ");
	}
	put_tensor_of(p, &x, p->dtype, seed, variant == NORM_TRAIN);
	if (variant == NORM_INFERENCE)
	{
		put_param(p, &param, false);
		put_param(p, &param, true);
		put_optional_param(p, &param);
		put_optional_param(p, &param);
		put(p, ")");
	}
	else if (variant == NORM_TRAIN)
	{
		put_optional_param(p, &param);
		put_optional_param(p, &param);
		put_param(p, &param, false);
		put_param(p, &param, true);
		put(p, trained[draw_int(p, 0, lengthof(trained) - 1)]);
	}
	else
	{
		put_optional_param(p, &param);
		put_saved(p, &x, seed, &param, ")).save_mean");
		put_saved(p, &x, seed, &param, ")).save_invstd");
		put(p, gradients[gradient]);
	}
}

/* Activation -------------------------------------------------------------- */

static void
draw_relu(Problem *p, int variant)
{
	TensorShape shape;

	draw_shape(p, &shape, 0, 5);
	put(p, "relu(");
	put_tensor(p, &shape, false);
	put(p, ")");
}

const ProblemFamily problem_families[] = {
	{"conv", draw_conv, CONV_FORWARD},
	{"conv_transpose", draw_conv, CONV_TRANSPOSE},
	{"conv_backward_input", draw_conv, CONV_INPUT},
	{"conv_backward_weight", draw_conv, CONV_WEIGHT},
	{"conv_backward_bias", draw_conv_bias, 0},
	{"max_pool", draw_pool, POOL_MAX_FORWARD},
	{"avg_pool", draw_pool, POOL_AVG_FORWARD},
	{"max_pool_backward", draw_pool, POOL_MAX_BACKWARD},
	{"avg_pool_backward", draw_pool, POOL_AVG_BACKWARD},
	{"global_avg_pool", draw_global_pool, false},
	{"global_max_pool", draw_global_pool, true},
	{"batch_norm", draw_norm, NORM_INFERENCE},
	{"batch_norm_train", draw_norm, NORM_TRAIN},
	{"batch_norm_backward", draw_norm, NORM_BACKWARD},
	{"relu", draw_relu, 0},
};

const int	problem_family_count = lengthof(problem_families);

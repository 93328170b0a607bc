/* Batch normalization and its gradients, over (N, C, S). */
#include "postgres.h"

#include <math.h>

#include "element.h"
#include "kernels.h"
#include "plan.h"

/* A tensor (N,C,S) of the task as (N,C,S,1): for rank 3 oneDNN has only its slowest loops. */
static PlanTensor *
image_tensor(Plan *plan, const OpTask *task, int place, const TensorShape *shape)
{
	int64		dims[] = {shape->dims[0], shape->dims[1], shape->dims[2], 1};

	return dn_tensor_as(plan, task, place, lengthof(dims), dims);
}

static bool
write_batch_norm(Plan *plan, const OpTask *task)
{
	const NormParams *params = task->params;
	dnnl_primitive_desc_t *made = dn_primitive(plan);
	PlanTensor *x = image_tensor(plan, task, PLAN_IN(0), &task->in[0].shape);
	PlanTensor *y = image_tensor(plan, task, PLAN_OUT(0), &task->in[0].shape);
	PlanArg		args[] = {
		{DNNL_ARG_SRC, x},
		{DNNL_ARG_MEAN, dn_tensor(plan, task, PLAN_IN(1))},
		{DNNL_ARG_VARIANCE, dn_tensor(plan, task, PLAN_IN(2))},
		{DNNL_ARG_SCALE, dn_tensor(plan, task, PLAN_IN(3))},
		{DNNL_ARG_SHIFT, dn_tensor(plan, task, PLAN_IN(4))},
		{DNNL_ARG_DST, y},
	};
	unsigned	flags = dnnl_use_global_stats |
		(args[3].tensor != NULL ? dnnl_use_scale : 0) |
		(args[4].tensor != NULL ? dnnl_use_shift : 0);

	if (dn.fault.set)
		return false;
	return DN(dnnl_batch_normalization_forward_primitive_desc_create(
				  made, dn.engine, dnnl_forward_inference, x->shape, y->shape, params->eps, flags, dn.attr)) &&
		dn_step(plan, *made, args, lengthof(args));
}

/* x (N,C,S), mean (C), var (C), [weight (C)], [bias (C)] -> y (N,C,S) */
OpOutcome
dn_batch_norm(OpTask *task)
{
	return dn_run(task, write_batch_norm);
}

static double
param(const TensorView *values, int64 c, double dflt)
{
	return values->data == NULL ? dflt : element_get(values, c);
}

/* Running statistic i (input and output), where it is wanted: (1 - momentum) * old + momentum * batch. */
static void
move_running(const OpTask *task, int i, int64 c, double batch)
{
	double		momentum = ((const NormParams *) task->params)->momentum;

	if (task->out[i].data != NULL)
		element_set(&task->out[i], c, (1 - momentum) * element_get(&task->in[i], c) + momentum * batch);
}

/*
 * A channel of batch_norm_train, in double from the statistics to y: a mean that
 * is rounded to float moves what has little variance.
 */
static void
train_channel(const OpTask *task, int64 c)
{
	const TensorView *x = &task->in[0];
	const int64 *dims = x->shape.dims;
	double		m = (double) dims[0] * dims[2];
	double		mean = 0,
				var = 0,
				invstd,
				scale,
				shift = param(&task->in[2], c, 0);

	for (int64 n = 0; n < dims[0]; n++)
		mean += element_sum(x, (n * dims[1] + c) * dims[2], dims[2]) / m;
	for (int64 n = 0; n < dims[0]; n++)
		var += element_sum_of_squares(x, (n * dims[1] + c) * dims[2], dims[2], mean) / m;
	invstd = 1 / sqrt(var + ((const NormParams *) task->params)->eps);
	scale = invstd * param(&task->in[1], c, 1);

	for (int64 n = 0; n < dims[0]; n++)
	{
		int64		first = (n * dims[1] + c) * dims[2];

		for (int64 i = first; i < first + dims[2]; i++)
			element_set(&task->out[0], i, (element_get(x, i) - mean) * scale + shift);
	}
	element_set(&task->out[1], c, mean);
	element_set(&task->out[2], c, invstd);
	move_running(task, 3, c, mean);
	move_running(task, 4, c, m > 1 ? var * m / (m - 1) : var);
}

/*
 * x (N,C,S), [weight (C)], [bias (C)], [running_mean (C)], [running_var (C)] ->
 * y, mean (C), invstd (C), [running_mean (C)], [running_var (C)]
 */
OpOutcome
dn_batch_norm_train(OpTask *task)
{
	OpOutcome	outcome = dn_begin(task);

	if (outcome != OP_DONE)
		return outcome;
#pragma omp parallel for schedule(static)
	for (int64 c = 0; c < task->in[0].shape.dims[1]; c++)
		train_channel(task, c);
	return dn_end(task, true);
}

/*
 * A channel of dx (N,C,S), from its sums of dy and of dy * xhat, where xhat =
 * (x - mean) * invstd: dx = scale * (dy - dbias / m - xhat * dweight / m).
 */
static void
channel_gradient(const OpTask *task, int64 c, double scale, double mean, double invstd,
				 double dweight, double dbias)
{
	const TensorView *dy = &task->in[0];
	const TensorView *x = &task->in[1];
	const int64 *dims = dy->shape.dims;
	double		m = (double) dims[0] * dims[2];

	for (int64 n = 0; n < dims[0]; n++)
	{
		int64		first = (n * dims[1] + c) * dims[2];

		for (int64 i = first; i < first + dims[2]; i++)
			element_set(&task->out[0], i,
						scale * (element_get(dy, i) - dbias / m -
								 (element_get(x, i) - mean) * invstd * dweight / m));
	}
}

/*
 * dy (N,C,S), x (N,C,S), [weight (C)], mean (C), invstd (C) -> dx, dweight (C),
 * dbias (C), in double: differences of such sums leave little of a float.
 */
OpOutcome
dn_batch_norm_backward(OpTask *task)
{
	const TensorView *dy = &task->in[0];
	const int64 *dims = dy->shape.dims;
	OpOutcome	outcome = dn_begin(task);

	if (outcome != OP_DONE)
		return outcome;
#pragma omp parallel for schedule(static)
	for (int64 c = 0; c < dims[1]; c++)
	{
		double		weight = param(&task->in[2], c, 1);
		double		mean = element_get(&task->in[3], c);
		double		invstd = element_get(&task->in[4], c);
		double		dbias = 0,
					products = 0;

		for (int64 n = 0; n < dims[0]; n++)
		{
			int64		first = (n * dims[1] + c) * dims[2];

			dbias += element_sum(dy, first, dims[2]);
			products += element_sum_of_products(dy, &task->in[1], first, dims[2], mean);
		}
		channel_gradient(task, c, weight * invstd, mean, invstd, products * invstd, dbias);
		element_set(&task->out[1], c, products * invstd);
		element_set(&task->out[2], c, dbias);
	}
	return dn_end(task, true);
}

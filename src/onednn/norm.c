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

/* y = (x - mean) / sqrt(var + eps) * weight + bias, by the places of the tensors. */
static bool
write_normalize(Plan *plan, const OpTask *task, int mean, int var, int weight, int bias)
{
	const NormParams *params = task->params;
	dnnl_primitive_desc_t *made = dn_primitive(plan);
	PlanTensor *x = image_tensor(plan, task, PLAN_IN(0), &task->in[0].shape);
	PlanTensor *y = image_tensor(plan, task, PLAN_OUT(0), &task->in[0].shape);
	PlanArg		args[] = {
		{DNNL_ARG_SRC, x},
		{DNNL_ARG_MEAN, dn_tensor(plan, task, mean)},
		{DNNL_ARG_VARIANCE, dn_tensor(plan, task, var)},
		{DNNL_ARG_SCALE, dn_tensor(plan, task, weight)},
		{DNNL_ARG_SHIFT, dn_tensor(plan, task, bias)},
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

static bool
write_batch_norm(Plan *plan, const OpTask *task)
{
	return write_normalize(plan, task, PLAN_IN(1), PLAN_IN(2), PLAN_IN(3), PLAN_IN(4));
}

/* x (N,C,S), mean (C), var (C), [weight (C)], [bias (C)] -> y (N,C,S) */
OpOutcome
dn_batch_norm(OpTask *task)
{
	return dn_run(task, write_batch_norm);
}

/* Here the third output is a variance. */
static bool
write_batch_norm_train(Plan *plan, const OpTask *task)
{
	return write_normalize(plan, task, PLAN_OUT(1), PLAN_OUT(2), PLAN_IN(1), PLAN_IN(2));
}

/*
 * Mean and variance of the channels of x (N,C,S), where oneDNN's sums in float
 * lose too much.
 */
static void
find_statistics(const TensorView *x, float *mean, float *var)
{
	const int64 *dims = x->shape.dims;
	double		m = (double) dims[0] * dims[2];

#pragma omp parallel for schedule(static)
	for (int64 c = 0; c < dims[1]; c++)
	{
		double		sum = 0,
					squares = 0;

		for (int64 n = 0; n < dims[0]; n++)
			sum += element_sum(x, (n * dims[1] + c) * dims[2], dims[2]);
		sum /= m;
		for (int64 n = 0; n < dims[0]; n++)
			squares += element_sum_of_squares(x, (n * dims[1] + c) * dims[2], dims[2], sum);
		mean[c] = sum;
		var[c] = squares / m;
	}
}

/* new (C) = (1 - momentum) * old (C) + momentum * factor * batch (C), when wanted. */
static void
move_running(const TensorView *old, const TensorView *batch, double momentum, double factor,
			 const TensorView *new)
{
	for (int64 c = 0; new->data != NULL && c < batch->shape.dims[0]; c++)
		((float *) new->data)[c] = (1 - momentum) * ((const float *) old->data)[c] +
			momentum * factor * ((const float *) batch->data)[c];
}

/*
 * x (N,C,S), [weight (C)], [bias (C)], [running_mean (C)], [running_var (C)] ->
 * y, mean (C), invstd (C), [running_mean (C)], [running_var (C)]
 */
OpOutcome
dn_batch_norm_train(OpTask *task)
{
	const NormParams *params = task->params;
	const TensorShape *shape = &task->in[0].shape;
	double		m = (double) shape->dims[0] * shape->dims[2];
	TensorView *mean = &task->out[1];
	TensorView *var = &task->out[2];
	float	   *invstd = var->data;
	OpOutcome	outcome = dn_begin(task);

	if (outcome != OP_DONE)
		return outcome;
	find_statistics(&task->in[0], mean->data, var->data);
	(void) dn_end(task, true);

	outcome = dn_run(task, write_batch_norm_train);
	if (outcome != OP_DONE)
		return outcome;
	move_running(&task->in[3], mean, params->momentum, 1, &task->out[3]);
	move_running(&task->in[4], var, params->momentum, m > 1 ? m / (m - 1) : 1, &task->out[4]);
	for (int64 c = 0; c < shape->dims[1]; c++)
		invstd[c] = 1 / sqrt(invstd[c] + params->eps);
	return OP_DONE;
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
		double		weight = task->in[2].data == NULL ? 1 : element_get(&task->in[2], c);
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

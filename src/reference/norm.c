/* Batch normalization and its gradients, as their definition says. */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "ref.h"

/* A channel of (N, C, S): its elements are S at a time, C * S apart. */
#define for_each_in_channel(shape, c, i) \
	for (int64 n_ = 0; n_ < (shape)->dims[0]; n_++) \
		for (int64 i = (n_ * (shape)->dims[1] + (c)) * (shape)->dims[2], end_ = i + (shape)->dims[2]; i < end_; i++)

static inline double
param(const double *values, int64 c, double dflt)
{
	return values == NULL ? dflt : values[c];
}

/* y = (x - mean) * invstd * weight + bias over a channel. */
static void
normalize(const TensorShape *shape, int64 c, const double *x, double mean, double invstd,
		  double weight, double bias, double *y)
{
	for_each_in_channel(shape, c, i)
		y[i] = (x[i] - mean) * invstd * weight + bias;
}

void
ref_batch_norm(OpTask *task)
{
	const NormParams *params = task->params;
	const TensorShape *shape = &task->in[0].shape;
	const double *x = ref_load(&task->in[0]);
	const double *mean = ref_load(&task->in[1]);
	const double *var = ref_load(&task->in[2]);
	const double *weight = ref_load(&task->in[3]);
	const double *bias = ref_load(&task->in[4]);
	double	   *y = ref_result(&task->out[0]);

	for (int64 c = 0; c < shape->dims[1]; c++)
	{
		CHECK_FOR_INTERRUPTS();
		normalize(shape, c, x, mean[c], 1 / sqrt(var[c] + params->eps),
				  param(weight, c, 1), param(bias, c, 0), y);
	}
	ref_store(&task->out[0], y);
}

void
ref_batch_norm_train(OpTask *task)
{
	const NormParams *params = task->params;
	const TensorShape *shape = &task->in[0].shape;
	int64		m = shape->dims[0] * shape->dims[2];
	const double *x = ref_load(&task->in[0]);
	const double *weight = ref_load(&task->in[1]);
	const double *bias = ref_load(&task->in[2]);
	const double *old_mean = ref_load(&task->in[3]);
	const double *old_var = ref_load(&task->in[4]);
	double	   *y = ref_result(&task->out[0]);
	double	   *save_mean = ref_result(&task->out[1]);
	double	   *save_invstd = ref_result(&task->out[2]);
	double	   *new_mean = ref_result(&task->out[3]);
	double	   *new_var = ref_result(&task->out[4]);
	/* an empty batch moves nothing */
	double		momentum = m > 0 ? params->momentum : 0;

	for (int64 c = 0; c < shape->dims[1]; c++)
	{
		double		mean = 0,
					var = 0;

		CHECK_FOR_INTERRUPTS();
		for_each_in_channel(shape, c, i)
			mean += x[i];
		mean /= Max(m, 1);
		for_each_in_channel(shape, c, i)
			var += (x[i] - mean) * (x[i] - mean);
		var /= Max(m, 1);

		save_mean[c] = mean;
		save_invstd[c] = 1 / sqrt(var + params->eps);
		normalize(shape, c, x, mean, save_invstd[c], param(weight, c, 1), param(bias, c, 0), y);
		if (new_mean != NULL)
			new_mean[c] = (1 - momentum) * old_mean[c] + momentum * mean;
		if (new_var != NULL)
			new_var[c] = (1 - momentum) * old_var[c] + momentum * (m > 1 ? var * m / (m - 1) : var);
	}
	ref_store(&task->out[0], y);
	ref_store(&task->out[1], save_mean);
	ref_store(&task->out[2], save_invstd);
	ref_store(&task->out[3], new_mean);
	ref_store(&task->out[4], new_var);
}

/*
 * With xhat = (x - mean) * invstd: dbias = sum(dy), dweight = sum(dy * xhat),
 * dx = weight * invstd * (dy - dbias / m - xhat * dweight / m).
 */
void
ref_batch_norm_backward(OpTask *task)
{
	const TensorShape *shape = &task->in[0].shape;
	double		m = shape->dims[0] * shape->dims[2];
	const double *dy = ref_load(&task->in[0]);
	const double *x = ref_load(&task->in[1]);
	const double *weight = ref_load(&task->in[2]);
	const double *mean = ref_load(&task->in[3]);
	const double *invstd = ref_load(&task->in[4]);
	double	   *dx = ref_result(&task->out[0]);
	double	   *dweight = ref_result(&task->out[1]);
	double	   *dbias = ref_result(&task->out[2]);

	for (int64 c = 0; c < shape->dims[1]; c++)
	{
		CHECK_FOR_INTERRUPTS();
		for_each_in_channel(shape, c, i)
		{
			dbias[c] += dy[i];
			dweight[c] += dy[i] * (x[i] - mean[c]) * invstd[c];
		}
		for_each_in_channel(shape, c, i)
			dx[i] = param(weight, c, 1) * invstd[c] *
			(dy[i] - dbias[c] / m - (x[i] - mean[c]) * invstd[c] * dweight[c] / m);
	}
	ref_store(&task->out[0], dx);
	ref_store(&task->out[1], dweight);
	ref_store(&task->out[2], dbias);
}

/* Batch normalization and its gradients, over (N, C, S). */
#include "postgres.h"

#include "kernels.h"
#include "plan.h"

/* Which of weight and bias there are, as the library wants to know it. */
static unsigned
norm_flags(const PlanTensor *weight, const PlanTensor *bias)
{
	return (weight != NULL ? dnnl_use_scale : 0) | (bias != NULL ? dnnl_use_shift : 0);
}

static bool
write_batch_norm(Plan *plan, const OpTask *task)
{
	const NormParams *params = task->params;
	dnnl_primitive_desc_t *made = dn_primitive(plan);
	PlanTensor *x = dn_tensor(plan, task, PLAN_IN(0));
	PlanTensor *mean = dn_tensor(plan, task, PLAN_IN(1));
	PlanTensor *var = dn_tensor(plan, task, PLAN_IN(2));
	PlanTensor *weight = dn_tensor(plan, task, PLAN_IN(3));
	PlanTensor *bias = dn_tensor(plan, task, PLAN_IN(4));
	PlanTensor *y = dn_tensor(plan, task, PLAN_OUT(0));
	unsigned	flags = dnnl_use_global_stats | norm_flags(weight, bias);

	if (dn.fault.set)
		return false;
	return DN(dn_make_norm(made, &dn.maker, dnnl_forward_inference, &x->shape, params->eps, flags)) &&
		dn_step(plan, *made, (PlanArg[]) {
				{DNNL_ARG_SRC, x},
				{DNNL_ARG_MEAN, mean},
				{DNNL_ARG_VARIANCE, var},
				{DNNL_ARG_SCALE, weight},
				{DNNL_ARG_SHIFT, bias},
				{DNNL_ARG_DST, y},
				}, 6);
}

/* x (N,C,S), mean (C), var (C), [weight (C)], [bias (C)] -> y (N,C,S) */
OpOutcome
dn_batch_norm(OpTask *task)
{
	return dn_run(task, write_batch_norm);
}

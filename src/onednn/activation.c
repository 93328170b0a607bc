/* Activations: y = f(x), elementwise. */
#include "postgres.h"

#include "kernels.h"
#include "plan.h"

static bool
write_activation(Plan *plan, const OpTask *task)
{
	dnnl_primitive_desc_t *made = dn_primitive(plan);
	PlanTensor *x = dn_tensor(plan, task, PLAN_IN(0));
	PlanTensor *y = dn_tensor(plan, task, PLAN_OUT(0));

	if (x == NULL || y == NULL)
		return false;
	return DN(dn_make_eltwise(made, &dn.maker, dnnl_eltwise_relu, &x->shape, 0)) &&
		dn_step(plan, *made, (PlanArg[]) {
				{DNNL_ARG_SRC, x},
				{DNNL_ARG_DST, y},
				}, 2);
}

/* x (M) -> y (M) */
OpOutcome
dn_activation(OpTask *task)
{
	return dn_run(task, write_activation);
}

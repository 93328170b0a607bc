/* Pooling and its gradients. */
#include "postgres.h"

#include "kernels.h"
#include "plan.h"

/*
 * How far the last window of an axis reaches beyond the padding: more than 0 only
 * with ceil_mode.
 */
static int64
overhang(const Window *w, int axis, const TensorShape *in, const TensorShape *out)
{
	int64		span = w->dilation[axis] * (w->kernel[axis] - 1) + 1;
	int64		end = (out->dims[2 + axis] - 1) * w->stride[axis] + span;

	return Max(end - w->pad_begin[axis] - in->dims[2 + axis] - w->pad_end[axis], 0);
}

/* The window for the library, which takes all that it reaches for padding. */
static void
pool_window(DnWindow *to, const Window *from, const TensorShape *in, const TensorShape *out)
{
	dn_window(to, from);
	for (int i = 0; i < from->nd; i++)
		to->pad_end[i] += overhang(from, i, in, out);
}

static bool
write_pool(Plan *plan, const OpTask *task)
{
	static const dnnl_alg_kind_t modes[] = {
		[POOL_MAX] = dnnl_pooling_max,
		[POOL_AVG_INCLUDE_PAD] = dnnl_pooling_avg_include_padding,
		[POOL_AVG_EXCLUDE_PAD] = dnnl_pooling_avg_exclude_padding,
	};
	const PoolParams *params = task->params;
	dnnl_primitive_desc_t *made = dn_primitive(plan);
	PlanTensor *x = dn_tensor(plan, task, PLAN_IN(0));
	PlanTensor *y = dn_tensor(plan, task, PLAN_OUT(0));
	DnShape		any;
	DnWindow	window;

	pool_window(&window, &params->window, &task->in[0].shape, &task->out[0].shape);
	return dn_any(&any, y) &&
		DN(dn_make_pool(made, &dn.maker, dnnl_forward_inference, modes[params->mode], &x->shape, &any, &window)) &&
		dn_step(plan, *made, (PlanArg[]) {
				{DNNL_ARG_SRC, x},
				{DNNL_ARG_DST, y},
				}, 2);
}

OpOutcome
dn_pool(OpTask *task)
{
	return dn_run(task, write_pool);
}

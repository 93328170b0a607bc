/*
 * Convolution and its gradients. All three relate the same tensors: image
 * (N, C, i..), filter (O, C/g, k..) and response (N, O, o..); one of them is the
 * result.
 */
#include "postgres.h"

#include "kernels.h"
#include "plan.h"

/* The three tensors, in the task's layout and in any, and the window between them. */
typedef struct Conv
{
	PlanTensor *image;
	PlanTensor *filter;
	PlanTensor *response;
	DnShape		any_image;
	DnShape		any_filter;
	DnShape		any_response;
	DnWindow	window;
} Conv;

/* The filter, (O, C/g, k..) or with groups (g, O/g, C/g, k..). */
static PlanTensor *
filter_tensor(Plan *plan, const OpTask *task, int place, const TensorShape *shape, int64 groups)
{
	int64		dims[MAX_SPATIAL + 3] = {groups, shape->dims[0] / groups};

	if (groups == 1)
		return dn_tensor(plan, task, place);
	memcpy(dims + 2, shape->dims + 1, (shape->rank - 1) * sizeof(int64));
	return dn_tensor_as(plan, task, place, shape->rank + 1, dims);
}

/* The tensors of a task, by their places. */
static bool
conv_tensors(Plan *plan, const OpTask *task, int image, int filter, const TensorShape *filter_shape,
			 int response, Conv *conv)
{
	const ConvParams *params = task->params;

	conv->image = dn_tensor(plan, task, image);
	conv->filter = filter_tensor(plan, task, filter, filter_shape, params->groups);
	conv->response = dn_tensor(plan, task, response);
	dn_window(&conv->window, &params->window);
	return dn_any(&conv->any_image, conv->image) &&
		dn_any(&conv->any_filter, conv->filter) &&
		dn_any(&conv->any_response, conv->response);
}

/* Makes the forward convolution, with [bias (O)]. */
static bool
make_forward(const Conv *conv, const PlanTensor *bias, dnnl_primitive_desc_t *made)
{
	return DN(dn_make_conv(made, &dn.maker, &conv->any_image, &conv->any_filter,
						   bias == NULL ? NULL : &bias->shape, &conv->any_response, &conv->window));
}

static bool
write_conv(Plan *plan, const OpTask *task)
{
	dnnl_primitive_desc_t *made = dn_primitive(plan);
	PlanTensor *bias = dn_tensor(plan, task, PLAN_IN(2));
	Conv		conv;

	if (!conv_tensors(plan, task, PLAN_IN(0), PLAN_IN(1), &task->in[1].shape, PLAN_OUT(0), &conv))
		return false;
	return make_forward(&conv, bias, made) &&
		dn_step(plan, *made, (PlanArg[]) {
				{DNNL_ARG_SRC, conv.image},
				{DNNL_ARG_WEIGHTS, conv.filter},
				{DNNL_ARG_BIAS, bias},
				{DNNL_ARG_DST, conv.response},
				}, 4);
}

OpOutcome
dn_conv(OpTask *task)
{
	return dn_run(task, write_conv);
}

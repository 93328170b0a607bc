/*
 * Pooling and its gradients. oneDNN knows no end of the padding: what ceil_mode
 * adds beyond it is more padding there, and counts in an average. That is put
 * right by a factor on the last windows.
 */
#include "postgres.h"

#include "element.h"
#include "kernels.h"
#include "plan.h"
#include "pool_max.h"
#include "window.h"

#define CHANNELS_OF_A_VECTOR 8

/* Elements of a kernel that may lie beside the input. */
#define MAX_IDLE_KERNEL 65536

static const dnnl_alg_kind_t pool_modes[] = {
	[POOL_MAX] = dnnl_pooling_max,
	[POOL_AVG_INCLUDE_PAD] = dnnl_pooling_avg_include_padding,
	[POOL_AVG_EXCLUDE_PAD] = dnnl_pooling_avg_exclude_padding,
};

/* How far the last window of an axis reaches beyond the padding. */
static int64
overhang(const Window *w, int axis, const TensorShape *in, const TensorShape *out)
{
	int64		span = w->dilation[axis] * (w->kernel[axis] - 1) + 1;
	int64		end = (out->dims[2 + axis] - 1) * w->stride[axis] + span;

	return Max(end - w->pad_begin[axis] - in->dims[2 + axis] - w->pad_end[axis], 0);
}

/*
 * Is the kernel much bigger than the input? The library's loops for a maximum
 * visit all of it, however little lies on the input.
 */
static bool
is_mostly_idle(const PoolParams *params, const TensorShape *in)
{
	double		kernel = 1;

	for (int i = 0; i < params->window.nd; i++)
		kernel *= params->window.kernel[i];
	return params->mode == POOL_MAX && kernel > MAX_IDLE_KERNEL && kernel > 2.0 * elements_from(in, 2);
}

/* The window for the library, padded as far as it reaches; false with a fault. */
static bool
pool_window(DnWindow *to, const PoolParams *params, const TensorShape *in, const TensorShape *out)
{
	const Window *from = &params->window;

	dn_window(to, from);
	for (int i = 0; i < from->nd; i++)
		to->pad_end[i] += overhang(from, i, in, out);
	if (!dn_window_is_countable(to, from->nd, in->dims))
		return dn_fault(OP_CANNOT, DN_UNCOUNTABLE);
	return !is_mostly_idle(params, in) || dn_fault(OP_CANNOT, "oneDNN would visit a kernel that is much bigger than the input");
}

/*
 * Does oneDNN divide by more elements than a window has? Only where padding
 * counts.
 */
static bool
divides_wrongly(const PoolParams *params, const TensorShape *in, const TensorShape *out)
{
	for (int i = 0; i < params->window.nd; i++)
		if (params->mode == POOL_AVG_INCLUDE_PAD && overhang(&params->window, i, in, out) > 0)
			return true;
	return false;
}

/* Gives the last windows of y (N,C,o..) the right divisor. */
static void
correct_divisor(const Window *window, const TensorShape *in, const TensorView *y)
{
	for (int axis = 0; axis < window->nd; axis++)
	{
		int64		beyond = overhang(window, axis, in, &y->shape);
		float		factor = (float) window->kernel[axis] / (window->kernel[axis] - beyond);
		int64		count = y->shape.dims[2 + axis];
		int64		inner = elements_from(&y->shape, 3 + axis);
		int64		outer = shape_numel(&y->shape) / (count * inner);

		for (int64 i = 0; beyond > 0 && i < outer; i++)
			for (int64 j = 0; j < inner; j++)
			{
				int64		at = ((i + 1) * count - 1) * inner + j;

				element_set(y, at, element_get(y, at) * factor);
			}
	}
}

/*
 * The layout in which to pool: side by side, channels fill a vector; in C order
 * oneDNN has loops that are ten times slower.
 */
static dnnl_format_tag_t
pool_layout(const TensorShape *shape)
{
	static const dnnl_format_tag_t channels_last[] = {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc};

	return shape->dims[1] >= CHANNELS_OF_A_VECTOR ? channels_last[shape->rank - 3] : PLAN_C_ORDER;
}

static bool
write_pool(Plan *plan, const OpTask *task)
{
	const PoolParams *params = task->params;
	dnnl_primitive_desc_t *made = dn_primitive(plan);
	PlanTensor *x = dn_tensor(plan, task, PLAN_IN(0));
	PlanTensor *y = dn_tensor(plan, task, PLAN_OUT(0));
	dnnl_format_tag_t layout = pool_layout(&task->in[0].shape);
	DnShape		from = dn_layout(plan, x, layout);
	DnShape		to = dn_layout(plan, y, layout);
	DnWindow	w;

	return !dn.fault.set &&
		pool_window(&w, params, &task->in[0].shape, &task->out[0].shape) &&
		DN(dnnl_pooling_forward_primitive_desc_create(
			   made, dn.engine, dnnl_forward_inference, pool_modes[params->mode], from, to,
			   w.stride, w.kernel, w.dilation, w.pad_begin, w.pad_end, dn.attr)) &&
		dn_step(plan, *made, (PlanArg[]) {
				{DNNL_ARG_SRC, x},
				{DNNL_ARG_DST, y},
				}, 2);
}

/* Is it the average of whole channels? */
static bool
is_global_avg(const PoolParams *params, const TensorShape *in, const TensorShape *out)
{
	const Window *w = &params->window;

	for (int i = 0; i < w->nd; i++)
		if (out->dims[2 + i] != 1 || w->kernel[i] != in->dims[2 + i] || w->pad_begin[i] + w->pad_end[i] > 0)
			return false;
	return params->mode != POOL_MAX;
}

/* x (N,C,i..) -> y (N,C,1..), where oneDNN's sums in float lose too much. */
static OpOutcome
global_avg_pool(OpTask *task)
{
	const TensorView *x = &task->in[0];
	int64		channels = x->shape.dims[0] * x->shape.dims[1];
	int64		size = elements_from(&x->shape, 2);
	OpOutcome	outcome = dn_begin(task);

	if (outcome != OP_DONE)
		return outcome;
#pragma omp parallel for schedule(static)
	for (int64 c = 0; c < channels; c++)
		element_set(&task->out[0], c, element_sum(x, c * size, size) / size);
	return dn_end(task, true);
}

/* x (N,C,i..) -> y (N,C,o..) */
OpOutcome
dn_pool(OpTask *task)
{
	const PoolParams *params = task->params;
	TensorView *x = &task->in[0];
	TensorView *y = &task->out[0];
	OpOutcome	outcome;

	if (is_global_avg(params, &x->shape, &y->shape))
		return global_avg_pool(task);
	outcome = dn_run(task, write_pool);
	if (outcome != OP_DONE)
		return outcome;
	if (divides_wrongly(params, &x->shape, &y->shape))
		correct_divisor(&params->window, &x->shape, y);
	if (params->mode != POOL_MAX)
		return OP_DONE;
	outcome = dn_begin(task);
	if (outcome != OP_DONE)
		return outcome;
	mend_max_pool(&params->window, x, y);
	return dn_end(task, true);
}

/*
 * The gradient of a maximum goes where a forward run finds it: that run, into
 * scratch memory, is a part of the plan.
 */
static bool
write_pool_backward(Plan *plan, const OpTask *task)
{
	const PoolParams *params = task->params;
	dnnl_alg_kind_t mode = pool_modes[params->mode];
	dnnl_primitive_desc_t *forward = dn_primitive(plan);
	dnnl_primitive_desc_t *backward = dn_primitive(plan);
	PlanTensor *dy = dn_tensor(plan, task, PLAN_IN(0));
	PlanTensor *x = dn_tensor(plan, task, PLAN_IN(1));
	PlanTensor *dx = dn_tensor(plan, task, PLAN_OUT(0));
	PlanTensor *found = NULL;
	dnnl_format_tag_t layout = pool_layout(&task->in[0].shape);
	DnShape		from = dn_layout(plan, dx, layout);
	DnShape		to = dn_layout(plan, dy, layout);
	DnWindow	w;

	if (dn.fault.set ||
		!pool_window(&w, params, &task->out[0].shape, &task->in[0].shape) ||
		!DN(dnnl_pooling_forward_primitive_desc_create(
				forward, dn.engine, dnnl_forward_training, mode, from, to,
				w.stride, w.kernel, w.dilation, w.pad_begin, w.pad_end, dn.attr)) ||
		!DN(dnnl_pooling_backward_primitive_desc_create(
				backward, dn.engine, mode, from, to,
				w.stride, w.kernel, w.dilation, w.pad_begin, w.pad_end, *forward, dn.attr)))
		return false;
	if (x != NULL)
	{
		PlanTensor *y = dn_temporary(plan, to);

		found = dn_temporary(plan, dnnl_primitive_desc_query_md(*forward, dnnl_query_workspace_md, 0));
		if (!dn_step(plan, *forward, (PlanArg[]) {
					 {DNNL_ARG_SRC, x},
					 {DNNL_ARG_DST, y},
					 {DNNL_ARG_WORKSPACE, found},
					 }, 3))
			return false;
	}
	return dn_step(plan, *backward, (PlanArg[]) {
			{DNNL_ARG_DIFF_DST, dy},
			{DNNL_ARG_WORKSPACE, found},
			{DNNL_ARG_DIFF_SRC, dx},
			}, 3);
}

/* dy (N,C,o..), x (N,C,i..) -> dx (N,C,i..) */
static OpOutcome
max_pool_backward(OpTask *task)
{
	const PoolParams *params = task->params;
	OpOutcome	outcome = dn_run(task, write_pool_backward);

	if (outcome == OP_DONE)
		outcome = dn_begin(task);
	if (outcome != OP_DONE)
		return outcome;
	mend_max_pool_backward(&params->window, &task->in[0], &task->in[1], &task->out[0]);
	return dn_end(task, true);
}

/* dy (N,C,o..) -> dx (N,C,i..) */
static OpOutcome
avg_pool_backward(OpTask *task)
{
	const PoolParams *params = task->params;
	TensorView *dy = &task->in[0];
	TensorView	given = *dy;
	Size		size = shape_numel(&dy->shape) * (dy->dtype == DT_FLOAT32 ? sizeof(float) : sizeof(uint16));
	OpOutcome	outcome;

	if (!divides_wrongly(params, &task->out[0].shape, &dy->shape))
		return dn_run(task, write_pool_backward);

	dy->data = MemoryContextAllocHuge(CurrentMemoryContext, size);
	memcpy(dy->data, given.data, size);
	correct_divisor(&params->window, &task->out[0].shape, dy);
	outcome = dn_run(task, write_pool_backward);
	pfree(dy->data);
	dy->data = given.data;
	return outcome;
}

/* dy (N,C,o..), [x (N,C,i..), y (N,C,o..): max only] -> dx (N,C,i..) */
OpOutcome
dn_pool_backward(OpTask *task)
{
	const PoolParams *params = task->params;

	return params->mode == POOL_MAX ? max_pool_backward(task) : avg_pool_backward(task);
}

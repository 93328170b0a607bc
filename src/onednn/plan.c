/*
 * Keeping, writing and running plans. One that could not be made is not
 * remembered.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "lib/ilist.h"
#include "utils/memutils.h"

#include "plan.h"

#define SCRATCH_ALIGN(size) TYPEALIGN(64, size)

typedef struct PlanEntry
{
	dlist_node	node;
	uint32		hash;
	PlanKey		key;
	Plan		plan;
} PlanEntry;

/* Last used first. */
static dlist_head plans = DLIST_STATIC_INIT(plans);

/* Tensors ----------------------------------------------------------------- */

static DnShape
new_shape(Plan *plan, dnnl_data_type_t type, int rank, const dnnl_dims_t dims, dnnl_format_tag_t layout)
{
	static const dnnl_format_tag_t c_order[] = {
		dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde, dnnl_abcdef
	};
	DnOwnedShape *shape = &plan->shapes[plan->nshapes];

	Assert(plan->nshapes < PLAN_MAX_SHAPES && rank < lengthof(c_order));
	if (layout == PLAN_C_ORDER)
		layout = c_order[rank];
	if (!DN(dnnl_memory_desc_create_with_tag(shape, rank, dims, type, layout)))
		return NULL;
	plan->nshapes++;
	return *shape;
}

/* A new tensor of the plan; its data comes when the plan runs. */
static PlanTensor *
new_tensor(Plan *plan, int place, DnShape shape)
{
	PlanTensor *tensor = &plan->tensors[plan->ntensors];

	Assert(plan->ntensors < PLAN_MAX_TENSORS);
	if (!DN(dnnl_memory_create(&tensor->memory, shape, dn.engine, DNNL_MEMORY_NONE)))
		return NULL;
	tensor->place = place;
	tensor->shape = shape;
	plan->ntensors++;
	return tensor;
}

static const TensorView *
view_at(const OpTask *task, int place)
{
	return place < PLAN_OUT(0) ? &task->in[place] : &task->out[place - PLAN_OUT(0)];
}

PlanTensor *
dn_tensor_as(Plan *plan, const OpTask *task, int place, int rank, const int64 *dims)
{
	const TensorView *view = view_at(task, place);
	DnShape		shape = NULL;
	PlanTensor *tensor = NULL;

	if (view->data != NULL)
		shape = new_shape(plan, dn_type(view->dtype), rank, dims, PLAN_C_ORDER);
	if (shape != NULL)
		tensor = new_tensor(plan, place, shape);
	if (tensor != NULL)
	{
		tensor->type = dn_type(view->dtype);
		tensor->rank = rank;
		memcpy(tensor->dims, dims, rank * sizeof(int64));
	}
	return tensor;
}

PlanTensor *
dn_tensor(Plan *plan, const OpTask *task, int place)
{
	const TensorShape *shape = &view_at(task, place)->shape;

	return dn_tensor_as(plan, task, place, shape->rank, shape->dims);
}

PlanTensor *
dn_temporary(Plan *plan, DnShape shape)
{
	PlanTensor *tensor = new_tensor(plan, PLAN_SCRATCH, shape);

	if (tensor != NULL)
	{
		tensor->offset = plan->scratch_size;
		plan->scratch_size += SCRATCH_ALIGN(dnnl_memory_desc_get_size(shape));
	}
	return tensor;
}

DnShape
dn_layout(Plan *plan, const PlanTensor *tensor, dnnl_format_tag_t layout)
{
	return tensor == NULL ? NULL : new_shape(plan, tensor->type, tensor->rank, tensor->dims, layout);
}

/* Steps ------------------------------------------------------------------- */

dnnl_primitive_desc_t *
dn_primitive(Plan *plan)
{
	Assert(plan->nprimitives < PLAN_MAX_PRIMITIVES);
	return &plan->primitives[plan->nprimitives++];
}

/* The next step is this primitive; it has no arguments yet. */
static PlanStep *
new_step(Plan *plan, const_dnnl_primitive_desc_t primitive)
{
	PlanStep   *step = &plan->steps[plan->nsteps];

	Assert(plan->nsteps < PLAN_MAX_PRIMITIVES);
	if (!DN(dnnl_primitive_create(&step->primitive, primitive)))
		return NULL;
	plan->nsteps++;
	return step;
}

static void
give(PlanStep *step, int arg, const PlanTensor *tensor)
{
	Assert(step->nargs < PLAN_MAX_ARGS);
	step->args[step->nargs++] = (dnnl_exec_arg_t) {arg, tensor->memory};
}

/* A primitive may want memory to work in. */
static bool
give_scratchpad(Plan *plan, PlanStep *step, const_dnnl_primitive_desc_t primitive)
{
	DnShape		shape = dnnl_primitive_desc_query_md(primitive, dnnl_query_scratchpad_md, 0);
	PlanTensor *pad;

	if (shape == NULL || dnnl_memory_desc_get_size(shape) == 0)
		return true;
	pad = dn_temporary(plan, shape);
	if (pad == NULL)
		return false;
	give(step, DNNL_ARG_SCRATCHPAD, pad);
	return true;
}

static bool
reorder(Plan *plan, const PlanTensor *from, const PlanTensor *to)
{
	dnnl_primitive_desc_t *made = dn_primitive(plan);
	PlanStep   *step;

	if (!DN(dnnl_reorder_primitive_desc_create(made, from->shape, dn.engine,
											   to->shape, dn.engine, dn.attr)) ||
		(step = new_step(plan, *made)) == NULL)
		return false;
	give(step, DNNL_ARG_FROM, from);
	give(step, DNNL_ARG_TO, to);
	return give_scratchpad(plan, step, *made);
}

static bool
is_output(const PlanTensor *tensor)
{
	return tensor->place >= PLAN_OUT(0) && tensor->place < PLAN_SCRATCH;
}

bool
dn_step(Plan *plan, const_dnnl_primitive_desc_t primitive, const PlanArg *args, int nargs)
{
	PlanTensor *inner[PLAN_MAX_ARGS];	/* in the primitive's layout */
	PlanStep   *step;

	for (int i = 0; i < nargs; i++)
	{
		PlanTensor *tensor = args[i].tensor;
		DnShape		wanted;

		inner[i] = tensor;
		if (dn.fault.set)
			return false;
		if (tensor == NULL)
			continue;
		wanted = dnnl_primitive_desc_query_md(primitive, dnnl_query_exec_arg_md, args[i].arg);
		if (dnnl_memory_desc_equal(tensor->shape, wanted))
			continue;
		inner[i] = dn_temporary(plan, wanted);
		if (inner[i] == NULL || (!is_output(tensor) && !reorder(plan, tensor, inner[i])))
			return false;
	}

	step = new_step(plan, primitive);
	if (step == NULL || !give_scratchpad(plan, step, primitive))
		return false;
	for (int i = 0; i < nargs; i++)
		if (inner[i] != NULL)
			give(step, args[i].arg, inner[i]);

	for (int i = 0; i < nargs; i++)
		if (inner[i] != args[i].tensor && is_output(args[i].tensor) &&
			!reorder(plan, inner[i], args[i].tensor))
			return false;
	return true;
}

/* Running ----------------------------------------------------------------- */

/* Shows the memories where the task's tensors and the scratch memory are. */
static bool
place_tensors(Plan *plan, const OpTask *task)
{
	char	   *scratch = plan->scratch_size > 0 ? dn_scratch(plan->scratch_size) : NULL;

	if (plan->scratch_size > 0 && scratch == NULL)
		return false;
	for (int i = 0; i < plan->ntensors; i++)
	{
		PlanTensor *tensor = &plan->tensors[i];
		void	   *data;

		if (tensor->place == PLAN_SCRATCH)
		{
			if (scratch == plan->scratch)
				continue;
			data = scratch + tensor->offset;
		}
		else
			data = view_at(task, tensor->place)->data;
		if (!DN(dnnl_memory_set_data_handle(tensor->memory, data)))
			return false;
	}
	plan->scratch = scratch;
	if (plan->clean_scratch && scratch != NULL)
		memset(scratch, 0, plan->scratch_size);
	return true;
}

static bool
execute(Plan *plan, const OpTask *task)
{
	if (!place_tensors(plan, task))
		return false;
	for (int i = 0; i < plan->nsteps; i++)
	{
		PlanStep   *step = &plan->steps[i];

		if (!DN(dnnl_primitive_execute(step->primitive, dn.stream, step->nargs, step->args)))
			return false;
	}
	return DN(dnnl_stream_wait(dn.stream));
}

/* Cache ------------------------------------------------------------------- */

static void
entry_free(PlanEntry *entry)
{
	Plan	   *plan = &entry->plan;

	for (int i = 0; i < plan->nsteps; i++)
		(void) dnnl_primitive_destroy(plan->steps[i].primitive);
	for (int i = 0; i < plan->nprimitives; i++)
		if (plan->primitives[i] != NULL)
			(void) dnnl_primitive_desc_destroy(plan->primitives[i]);
	for (int i = 0; i < plan->ntensors; i++)
		(void) dnnl_memory_destroy(plan->tensors[i].memory);
	for (int i = 0; i < plan->nshapes; i++)
		(void) dnnl_memory_desc_destroy(plan->shapes[i]);
	pfree(entry);
}

static void
entry_forget(PlanEntry *entry)
{
	dlist_delete(&entry->node);
	dn.counters.cached_plans--;
	entry_free(entry);
}

void
dn_forget_plans(void)
{
	while (!dlist_is_empty(&plans))
		entry_forget(dlist_head_element(PlanEntry, node, &plans));
}

static PlanEntry *
entry_find(const PlanKey *key, uint32 hash)
{
	dlist_iter	iter;

	dlist_foreach(iter, &plans)
	{
		PlanEntry  *entry = dlist_container(PlanEntry, node, iter.cur);

		if (entry->hash == hash && memcmp(&entry->key, key, sizeof(*key)) == 0)
		{
			dlist_move_head(&plans, &entry->node);
			return entry;
		}
	}
	return NULL;
}

static void
fill_key(PlanKey *key, const OpTask *task)
{
	static const Size params_size[OP_COUNT] = {
		[OP_CONV] = sizeof(ConvParams),
		[OP_CONV_BACKWARD_INPUT] = sizeof(ConvParams),
		[OP_CONV_BACKWARD_WEIGHT] = sizeof(ConvParams),
		[OP_POOL] = sizeof(PoolParams),
		[OP_POOL_BACKWARD] = sizeof(PoolParams),
		[OP_BATCH_NORM] = sizeof(NormParams),
		[OP_BATCH_NORM_TRAIN] = sizeof(NormParams),
		[OP_BATCH_NORM_BACKWARD] = sizeof(NormParams),
		[OP_ACTIVATION] = sizeof(ActivationParams),
	};

	memset(key, 0, sizeof(*key));
	key->id = task->id;
	key->threads = dn.threads;
	if (params_size[task->id] > 0)
		memcpy(&key->params, task->params, params_size[task->id]);
	for (int place = 0; place < PLAN_SCRATCH; place++)
	{
		const TensorView *view = view_at(task, place);

		if (view->data == NULL)
			continue;
		key->tensors[place].given = true;
		key->tensors[place].dtype = view->dtype;
		key->tensors[place].rank = view->shape.rank;
		memcpy(key->tensors[place].dims, view->shape.dims, view->shape.rank * sizeof(int64));
	}
}

/*
 * The plan for a task, from the cache or new; NULL with a fault. It is valid
 * until the next call. Its record exists before the plan does.
 */
static Plan *
plan_get(const OpTask *task, PlanWriter write_plan)
{
	PlanKey		key;
	uint32		hash;
	PlanEntry  *entry;

	fill_key(&key, task);
	hash = hash_bytes((const unsigned char *) &key, sizeof(key));
	entry = entry_find(&key, hash);
	if (entry != NULL)
	{
		dn.counters.plan_hits++;
		return &entry->plan;
	}

	dn.counters.plan_misses++;
	entry = MemoryContextAllocExtended(TopMemoryContext, sizeof(*entry), MCXT_ALLOC_NO_OOM | MCXT_ALLOC_ZERO);
	if (entry == NULL)
	{
		(void) dn_fault(OP_NO_MEMORY, "no host memory for a plan");
		return NULL;
	}
	entry->hash = hash;
	entry->key = key;
	if (!write_plan(&entry->plan, task))
	{
		entry_free(entry);
		return NULL;
	}

	while (dn.counters.cached_plans > 0 && dn.counters.cached_plans >= dn.settings->plan_cache_size)
		entry_forget(dlist_tail_element(PlanEntry, node, &plans));
	dlist_push_head(&plans, &entry->node);
	dn.counters.cached_plans++;
	return &entry->plan;
}

OpOutcome
dn_run(OpTask *task, PlanWriter write_plan)
{
	OpOutcome	outcome = dn_begin(task);
	Plan	   *plan;

	if (outcome != OP_DONE)
		return outcome;
	plan = plan_get(task, write_plan);
	return dn_end(task, plan != NULL && execute(plan, task));
}

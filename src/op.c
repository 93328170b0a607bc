/*
 * The frame: what every operation has in common between its arguments and its
 * result. What an operation means is in its op_*.c; how it is computed is the
 * provider's.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/memutils.h"

#include "compat.h"
#include "guc.h"
#include "op.h"
#include "stats.h"

/* Arguments --------------------------------------------------------------- */

void
op_begin(OpCall *call, OpId id, const void *params, FunctionCallInfo fcinfo)
{
	memset(call, 0, sizeof(*call));
	call->task.id = id;
	call->task.params = params;
	call->fcinfo = fcinfo;
}

TensorView *
op_input(OpCall *call, int argno, const char *name)
{
	int			i = call->nin++;
	TensorView *view = &call->task.in[i];

	Assert(i < OP_MAX_INPUTS);
	if (!arg_given(call->fcinfo, argno))
		return NULL;
	call->resident[i] = resident_from_datum(call->fcinfo->args[argno].value);
	if (call->resident[i] != NULL)
		*view = call->resident[i]->view;
	else
	{
		call->kept[i] = once_find(call->fcinfo, argno);
		if (call->kept[i] != NULL)
			*view = call->kept[i]->view;
		else
		{
			call->stored[i] = stored_tensor(call->fcinfo->args[argno].value, view);
			if (call->stored[i] == NULL)
				arg_tensor(call->fcinfo, argno, name, view);
		}
		call->host[i] = view->data;
	}
	view->data = NULL;
	return view;
}

TensorView *
op_output(OpCall *call, DType dtype, const TensorShape *shape)
{
	int			i = call->nout++;

	Assert(i < OP_MAX_OUTPUTS);
	check_size(dtype, shape);
	call->result[i] = *shape;
	call->task.out[i].dtype = dtype;
	call->task.out[i].shape = *shape;
	return &call->task.out[i];
}

void
op_no_output(OpCall *call)
{
	call->result[call->nout++].rank = -1;
}

Datum
op_datum(OpCall *call, int i)
{
	return call->datum[i];
}

/* Running ----------------------------------------------------------------- */

static bool
input_given(const OpCall *call, int i)
{
	return call->host[i] != NULL || call->resident[i] != NULL || call->stored[i] != NULL;
}

static bool
output_wanted(const OpCall *call, int i)
{
	return call->result[i].rank >= 0;
}

static void
append_view(StringInfo buf, const TensorView *view)
{
	appendStringInfoString(buf, dtype_info[view->dtype].name);
	shape_append(buf, &view->shape);
}

/* Error context: the operation with types, shapes and options, enough to repeat it. */
static void
op_error_context(void *arg)
{
	OpCall	   *call = arg;
	const OpInfo *info = &op_info[call->task.id];
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, info->name);
	for (int i = 0; i < call->nin; i++)
	{
		appendStringInfoString(&buf, i > 0 ? ", " : " ");
		if (input_given(call, i))
			append_view(&buf, &call->task.in[i]);
		else
			appendStringInfoString(&buf, "none");
	}
	appendStringInfoString(&buf, " ->");
	for (int i = 0; i < call->nout; i++)
		if (output_wanted(call, i))
		{
			appendStringInfoChar(&buf, ' ');
			append_view(&buf, &call->task.out[i]);
		}
	if (info->describe != NULL)
		info->describe(&buf, call->task.params);
	errcontext("%s on %s", buf.data, provider_names[call->provider]);
	pfree(buf.data);
}

/* Elements of input i in host memory, downloaded or detoasted when they are not there. */
static void *
input_on_host(OpCall *call, int i)
{
	if (call->host[i] == NULL)
	{
		Datum		value = call->resident[i] != NULL ?
			EOHPGetRODatum(&call->resident[i]->hdr) : call->stored[i]->value;
		TensorView	view;

		tensor_view_flat(DatumGetByteaP(value), &view);
		call->host[i] = view.data;
	}
	return call->host[i];
}

/*
 * On a host provider: resident inputs come down, results are flat values. An
 * element of more than four bytes would not be aligned there, so such results
 * are computed beside it and copied.
 */
static OpOutcome
op_run_host(OpCall *call, const Provider *provider)
{
	OpTask	   *task = &call->task;
	void	   *flat_data[OP_MAX_OUTPUTS];
	bool		work = false;
	OpOutcome	outcome = OP_DONE;

	for (int i = 0; i < call->nin; i++)
		if (input_given(call, i))
			task->in[i].data = input_on_host(call, i);

	for (int i = 0; i < call->nout; i++)
		if (output_wanted(call, i))
		{
			TensorView *out = &task->out[i];

			call->datum[i] = PointerGetDatum(tensor_new_flat(out->dtype, &call->result[i], &flat_data[i]));
			out->data = flat_data[i];
			if (dtype_size(out->dtype) > sizeof(int32))
				out->data = MemoryContextAllocHuge(CurrentMemoryContext,
												   Max(tensor_payload_size(out->dtype, &out->shape), 1));
			work |= shape_numel(&out->shape) > 0;
		}

	if (work)
		outcome = provider->ops[task->id].kernel(task);

	for (int i = 0; i < call->nout; i++)
		if (output_wanted(call, i))
		{
			if (task->out[i].data != flat_data[i])
			{
				memcpy(flat_data[i], task->out[i].data,
					   tensor_payload_size(task->out[i].dtype, &task->out[i].shape));
				pfree(task->out[i].data);
			}
			if (outcome != OP_DONE)
				pfree(DatumGetPointer(call->datum[i]));
		}
	return outcome;
}

/* Is input i in the memory of the provider at work? */
static bool
op_input_lives_there(const OpCall *call, int i)
{
	return call->resident[i] != NULL && call->resident[i]->provider == call->provider;
}

/* Uploads input i; the copy belongs to `scratch`. */
static OpOutcome
op_upload(OpCall *call, int i, MemoryContext scratch, ResidentTensor **copy)
{
	OpTask	   *task = &call->task;
	bool		stored = call->stored[i] != NULL && call->host[i] == NULL;

	return resident_upload(copy, scratch, call->provider, task->id, &task->in[i],
						   stored ? upload_from_storage : upload_from_host,
						   stored ? call->stored[i] : input_on_host(call, i),
						   task->reason, sizeof(task->reason));
}

/* Gives input i a pointer that the device can read, to elements in the task's layout. */
static OpOutcome
op_input_to_device(OpCall *call, int i, MemoryContext scratch)
{
	OpTask	   *task = &call->task;
	ResidentTensor *resident = call->resident[i];
	OpOutcome	outcome = OP_DONE;

	if (call->kept[i] != NULL)
	{
		outcome = once_upload(call->kept[i], call->provider, task->id,
							  task->reason, sizeof(task->reason));
		resident = call->kept[i]->resident;
	}
	else if (!op_input_lives_there(call, i))
		outcome = op_upload(call, i, scratch, &resident);
	if (outcome == OP_DONE)
		outcome = resident_set_layout(resident, task->layout, task->reason, sizeof(task->reason));
	if (outcome == OP_DONE)
		task->in[i].data = resident->view.data;
	return outcome;
}

/* Flat inputs go up, results stay there, all in the task's layout. */
static OpOutcome
op_run_in_layout(OpCall *call, const Provider *provider)
{
	OpTask	   *task = &call->task;
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "cudnn_ops inputs",
												  ALLOCSET_SMALL_SIZES);
	ResidentTensor *results[OP_MAX_OUTPUTS] = {NULL};
	OpOutcome	outcome = OP_DONE;

	for (int i = 0; i < call->nin && outcome == OP_DONE; i++)
		if (input_given(call, i))
			outcome = op_input_to_device(call, i, scratch);

	for (int i = 0; i < call->nout && outcome == OP_DONE; i++)
		if (output_wanted(call, i))
		{
			outcome = resident_new(&results[i], CurrentMemoryContext, call->provider, task->id,
								   task->out[i].dtype, &call->result[i],
								   task->reason, sizeof(task->reason));
			if (outcome == OP_DONE)
			{
				results[i]->layout = task->layout;
				task->out[i].data = results[i]->view.data;
			}
		}

	if (outcome == OP_DONE)
		outcome = provider->ops[task->id].kernel(task);

	for (int i = 0; i < call->nout; i++)
		if (results[i] != NULL)
		{
			if (outcome == OP_DONE)
				call->datum[i] = EOHPGetRWDatum(&results[i]->hdr);
			else
				MemoryContextDelete(results[i]->hdr.eoh_context);
		}
	MemoryContextDelete(scratch);
	return outcome;
}

/*
 * On a provider with memory of its own, in the layout that its kernel wants; in C
 * order where that can't be done.
 */
static OpOutcome
op_run_device(OpCall *call, const Provider *provider)
{
	OpTask	   *task = &call->task;
	OpLayout	layout = provider->ops[task->id].layout;
	OpOutcome	outcome;

	task->layout = LAYOUT_C_ORDER;
	if (layout != NULL)
	{
		if (op_input_lives_there(call, 0))
			task->layout = call->resident[0]->layout;
		task->layout = layout(task);
	}
	outcome = op_run_in_layout(call, provider);
	if (task->layout != LAYOUT_C_ORDER && (outcome == OP_CANNOT || outcome == OP_NO_MEMORY))
	{
		task->layout = LAYOUT_C_ORDER;
		outcome = op_run_in_layout(call, provider);
	}
	return outcome;
}

/* Counts what the provider did since `before`, on the operation's row. */
static void
op_count(OpStats *stats, const ProviderCounters *before, const ProviderCounters *after)
{
	stats->bytes_to_device += after->bytes_to_device - before->bytes_to_device;
	stats->plan_hits += after->plan_hits - before->plan_hits;
	stats->plan_misses += after->plan_misses - before->plan_misses;
}

/* Tries one provider; the reason for anything but OP_DONE is in the task. */
static OpOutcome
op_try(OpCall *call, ProviderId id, const Provider *provider)
{
	OpTask	   *task = &call->task;
	const OpSupport *support = &provider->ops[task->id];
	OpStats    *stats = &op_stats[task->id][id];
	DType		dtype = task->in[0].dtype;
	ProviderCounters before = *provider->counters;
	OpOutcome	outcome;
	instr_time	start,
				elapsed;

	call->provider = id;
	if (support->kernel == NULL || !(support->dtypes & DT_BIT(dtype)))
	{
		snprintf(task->reason, sizeof(task->reason), "%s has no %s of %s",
				 provider_names[id], op_info[task->id].name, dtype_info[dtype].name);
		return OP_CANNOT;
	}

	INSTR_TIME_SET_CURRENT(start);
	outcome = provider->memory == NULL ? op_run_host(call, provider) : op_run_device(call, provider);
	INSTR_TIME_SET_CURRENT(elapsed);
	INSTR_TIME_SUBTRACT(elapsed, start);

	op_count(stats, &before, provider->counters);
	stats->total_ms += INSTR_TIME_GET_MILLISEC(elapsed);
	if (outcome == OP_DONE)
		stats->calls++;
	return outcome;
}

/* The last provider did not do it: says why. */
static void
op_raise(OpCall *call, OpOutcome outcome)
{
	const char *reason = call->task.reason;
	const char *op = op_info[call->task.id].name;
	const char *provider = provider_names[call->provider];

	switch (outcome)
	{
		case OP_NO_MEMORY:
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of device memory"),
					 errdetail("%s.", reason),
					 errhint("Work on smaller batches, raise cudnn_ops.device_memory_limit, or set cudnn_ops.provider to auto to go on on the CPU.")));
			break;
		case OP_DEVICE_LOST:
			provider_mark_dead(call->provider, reason);
			ereport(ERROR,
					(errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
					 errmsg("the device failed; provider \"%s\" is not usable in this session any more", provider),
					 errdetail("%s.", reason),
					 errhint("With cudnn_ops.provider = auto the session goes on on the CPU; a new session starts afresh.")));
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("provider \"%s\" cannot compute this %s", provider, op),
					 errdetail("%s.", reason),
					 errhint("Set cudnn_ops.provider to auto to let another provider compute it.")));
	}
}

/* An input of no elements: a matter of shapes, which reference knows best. */
static bool
op_is_empty(const OpCall *call)
{
	for (int i = 0; i < call->nin; i++)
		if (input_given(call, i) && shape_numel(&call->task.in[i].shape) == 0)
			return true;
	return false;
}

/*
 * auto goes from provider to provider until one can; a provider that could not
 * is counted with its reason. A named provider does it or the call fails.
 */
void
op_execute(OpCall *call)
{
	bool		choose = settings.provider == PROVIDER_AUTO;
	int			first = choose ? 0 : settings.provider;
	int			last = choose ? PROVIDER_REFERENCE : settings.provider;
	OpOutcome	outcome = OP_CANNOT;
	const char *reason;
	ErrorContextCallback context = {error_context_stack, op_error_context, call};

	CHECK_FOR_INTERRUPTS();
	if (op_is_empty(call))
	{
		/* not counted: there is nothing to compute */
		call->provider = PROVIDER_REFERENCE;
		(void) op_run_host(call, provider_get(PROVIDER_REFERENCE, &reason));
		return;
	}

	error_context_stack = &context;
	for (int id = first; id <= last; id++)
	{
		const Provider *provider = provider_get(id, &reason);

		call->provider = id;
		if (provider == NULL)
		{
			if (!choose)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("provider \"%s\" is not available", provider_names[id]),
						 errdetail("%s.", reason),
						 errhint("Set cudnn_ops.provider to auto, or see cudnn_ops_providers().")));
			continue;
		}
		outcome = op_try(call, id, provider);
		if (outcome == OP_DONE)
			break;
		if (id == last || outcome == OP_DEVICE_LOST)
			op_raise(call, outcome);
		op_stats[call->task.id][id].fallbacks++;
		strlcpy(op_stats[call->task.id][id].last_fallback_reason, call->task.reason,
				sizeof(op_stats[call->task.id][id].last_fallback_reason));
		ereport(DEBUG1,
				(errmsg_internal("provider \"%s\" did not compute this %s: %s",
								 provider_names[id], op_info[call->task.id].name, call->task.reason)));
	}
	error_context_stack = context.previous;
}

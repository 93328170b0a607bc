/* The session: starting oneDNN, faults, scratch memory and the frame of a kernel. */
#include "postgres.h"

#include <omp.h>
#include <stdlib.h>

#include "foreign.h"
#include "session.h"

#define SCRATCH_ALIGNMENT 64	/* a cache line, and the widest vector */

/*
 * Why small tasks get few threads: to meet at a barrier costs microseconds on an
 * idle machine and milliseconds where other backends want the cores. A thread is
 * worth that when it has some 30 microseconds to do: this many elements to read
 * or write, or so many times as many products to add.
 */
#define ELEMENTS_PER_THREAD 65536
#define PRODUCTS_PER_ELEMENT 16

DnSession	dn;

static sigset_t call_mask;

/* Faults ------------------------------------------------------------------ */

static void
set_fault(OpOutcome outcome, bool bug, const char *text, const char *call)
{
	if (dn.fault.set)
		return;
	dn.fault.set = true;
	dn.fault.bug = bug;
	dn.fault.outcome = outcome;
	snprintf(dn.fault.text, sizeof(dn.fault.text), "%s%s%.*s", text, call == NULL ? "" : " in ",
			 call == NULL ? 0 : (int) strcspn(call, "("), call == NULL ? "" : call);
}

bool
dn_fault(OpOutcome outcome, const char *text)
{
	set_fault(outcome, false, text, NULL);
	return false;
}

bool
dn_check(dnnl_status_t status, const char *call)
{
	switch (status)
	{
		case dnnl_success:
			return true;
		case dnnl_unimplemented:
			set_fault(OP_CANNOT, false, "oneDNN has no implementation of this for this CPU", NULL);
			break;
		case dnnl_out_of_memory:
			set_fault(OP_NO_MEMORY, false, "no host memory", call);
			break;
		default:
			set_fault(OP_CANNOT, true, dnnl_status2str(status), call);
			break;
	}
	return false;
}

/* Scratch memory ---------------------------------------------------------- */

void
dn_free_scratch(void)
{
	free(dn.scratch);
	dn.scratch = NULL;
	dn.scratch_size = 0;
	dn.counters.workspace_bytes = 0;
}

char *
dn_scratch(Size size)
{
	void	   *memory;

	if (dn.scratch_size >= size)
		return dn.scratch;
	dn_free_scratch();
	if (posix_memalign(&memory, SCRATCH_ALIGNMENT, size) != 0)
	{
		(void) dn_fault(OP_NO_MEMORY, "no host memory for reordered tensors");
		return NULL;
	}
	dn.scratch = memory;
	dn.scratch_size = size;
	dn.counters.workspace_bytes = size;
	return dn.scratch;
}

/* The frame of a kernel --------------------------------------------------- */

/* What is started stays: another attempt goes on where this one failed. */
static bool
start(void)
{
	/* the cache of primitives is ours, in plan.c; theirs has other limits */
	return DN(dnnl_set_primitive_cache_capacity(0)) &&
		(dn.engine != NULL || DN(dnnl_engine_create(&dn.engine, dnnl_cpu, 0))) &&
		(dn.attr != NULL || DN(dnnl_primitive_attr_create(&dn.attr))) &&
		DN(dnnl_primitive_attr_set_scratchpad_mode(dn.attr, dnnl_scratchpad_mode_user)) &&
		DN(dnnl_stream_create(&dn.stream, dn.engine, dnnl_stream_default_flags));
}

static int64
elements(const TensorView *view)
{
	int64		n = view->data == NULL ? 0 : 1;

	for (int i = 0; i < view->shape.rank && n > 0; i++)
		n *= view->shape.dims[i];
	return n;
}

/* The work of a task, in elements. */
static int64
task_work(const OpTask *task)
{
	const TensorView *response = task->id == OP_CONV ? &task->out[0] : &task->in[0];
	const TensorView *filter = task->id == OP_CONV_BACKWARD_WEIGHT ? &task->out[0] : &task->in[1];
	int64		work = 0;

	for (int i = 0; i < OP_MAX_INPUTS; i++)
		work += elements(&task->in[i]);
	for (int i = 0; i < OP_MAX_OUTPUTS; i++)
		work += elements(&task->out[i]);
	if (task->id == OP_CONV || task->id == OP_CONV_BACKWARD_INPUT || task->id == OP_CONV_BACKWARD_WEIGHT)
		work += elements(response) * (elements(filter) / filter->shape.dims[0]) / PRODUCTS_PER_ELEMENT;
	return work;
}

static int
task_threads(const OpTask *task)
{
	int			most = dn.settings->threads > 0 ? dn.settings->threads : omp_get_num_procs();

	return Max(Min(most, task_work(task) / ELEMENTS_PER_THREAD), 1);
}

OpOutcome
dn_begin(OpTask *task)
{
	bool		ok;

	dn.fault.set = false;
	foreign_enter(&call_mask);
	dn.threads = task_threads(task);
	omp_set_num_threads(dn.threads);
	ok = dn.stream != NULL || start();
	return ok ? OP_DONE : dn_end(task, false);
}

OpOutcome
dn_end(OpTask *task, bool ok)
{
	if (dn.scratch_size > (Size) dn.settings->workspace_limit_kb * 1024)
		dn_free_scratch();
	foreign_leave(&call_mask);
	if (ok)
		return OP_DONE;
	if (dn.fault.bug)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("oneDNN failed"),
				 errdetail("%s.", dn.fault.text)));
	strlcpy(task->reason, dn.fault.text, sizeof(task->reason));
	return dn.fault.outcome;
}

dnnl_data_type_t
dn_type(DType dtype)
{
	return dtype == DT_BFLOAT16 ? dnnl_bf16 : dnnl_f32;
}

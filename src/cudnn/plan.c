/*
 * Keeping, timing and running plans. A search that failed is not remembered:
 * memory or settings may be others the next time.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "lib/ilist.h"
#include "utils/memutils.h"

#include "mem.h"
#include "plan.h"
#include "search.h"

#define MAX_CANDIDATES 10		/* timed by autotune */
#define TIMED_RUNS 3

typedef struct PlanEntry
{
	dlist_node	node;
	uint32		hash;
	PlanKey		key;
	Plan		plan;
} PlanEntry;

/* Last used first. */
static dlist_head plans = DLIST_STATIC_INIT(plans);

/* Running ------------------------------------------------------------------ */

static bool
execute(const Plan *plan, const PlanTensors *tensors, void *workspace)
{
	Descriptor	pack;
	bool		ok;

	if (!descriptor_new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack))
		return false;
	ok = descriptor_set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, tensors->count, tensors->uid) &&
		descriptor_set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, tensors->count, tensors->ptr) &&
		descriptor_set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace) &&
		descriptor_finish(pack) &&
		NV_DNN(cudnnBackendExecute(nv.handle, plan->descriptor, pack));
	(void) cudnnBackendDestroyDescriptor(pack);
	return ok;
}

/* Milliseconds of one run after a first one, or -1 with a fault. */
static float
time_plan(const Plan *plan, const PlanTensors *tensors, void *workspace, cudaEvent_t begin, cudaEvent_t end)
{
	float		ms;
	bool		ok;

	ok = execute(plan, tensors, workspace) && NV_CUDA(cudaEventRecord(begin, nv.stream));
	for (int i = 0; i < TIMED_RUNS && ok; i++)
		ok = execute(plan, tensors, workspace);
	ok = ok && NV_CUDA(cudaEventRecord(end, nv.stream)) &&
		NV_CUDA(cudaEventSynchronize(end)) &&
		NV_CUDA(cudaEventElapsedTime(&ms, begin, end));
	return ok ? ms / TIMED_RUNS : -1;
}

/*
 * Index of the fastest plan on these tensors, the first where nothing could be
 * timed. A plan that fails is no fault unless the device is lost.
 */
static int
fastest(const Plan *found, int n, const PlanTensors *tensors)
{
	cudaEvent_t begin = NULL,
				end = NULL;
	int64		most = 0;
	void	   *workspace = NULL;
	float		best_ms = -1;
	int			best = 0;
	int			held = mem_scratch_count();

	for (int i = 0; i < n; i++)
		most = Max(most, found[i].workspace);
	if (NV_CUDA(cudaEventCreate(&begin)) && NV_CUDA(cudaEventCreate(&end)) &&
		(most == 0 || (workspace = mem_scratch(most)) != NULL))
		for (int i = 0; i < n && !nv.lost; i++)
		{
			float		ms = time_plan(&found[i], tensors, workspace, begin, end);

			if (ms >= 0 && (best_ms < 0 || ms < best_ms))
			{
				best_ms = ms;
				best = i;
			}
			if (!nv.lost)
				nv_clear_fault();
		}
	if (begin != NULL)
		(void) cudaEventDestroy(begin);
	if (end != NULL)
		(void) cudaEventDestroy(end);
	mem_free_scratch(held);
	if (!nv.lost)
		nv_clear_fault();
	return best;
}

/* The plan to use; false with a fault. */
static bool
choose(const PlanKey *key, PlanGraph write_graph, const PlanTensors *tensors, Plan *plan)
{
	Plan		found[MAX_CANDIDATES];
	int			n = plan_search(key, write_graph, found, key->autotune ? MAX_CANDIDATES : 1);
	int			best = n > 1 ? fastest(found, n, tensors) : 0;

	for (int i = 0; i < n; i++)
		if (i != best)
			(void) cudnnBackendDestroyDescriptor(found[i].descriptor);
	if (n > 0)
		*plan = found[best];
	return n > 0;
}

/* Cache -------------------------------------------------------------------- */

static void
entry_free(PlanEntry *entry)
{
	dlist_delete(&entry->node);
	if (!nv.lost)
		(void) cudnnBackendDestroyDescriptor(entry->plan.descriptor);
	pfree(entry);
	nv.counters.cached_plans--;
}

void
plan_forget_all(void)
{
	while (!dlist_is_empty(&plans))
		entry_free(dlist_head_element(PlanEntry, node, &plans));
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

/*
 * The plan for a key, from the cache or new; NULL with a fault. It is valid until
 * the next call. Its record exists before the plan does.
 */
static const Plan *
plan_get(const PlanKey *key, PlanGraph write_graph, const PlanTensors *tensors)
{
	uint32		hash = hash_bytes((const unsigned char *) key, sizeof(*key));
	PlanEntry  *entry = entry_find(key, hash);

	if (entry != NULL)
	{
		nv.counters.plan_hits++;
		return &entry->plan;
	}

	nv.counters.plan_misses++;
	entry = MemoryContextAllocExtended(TopMemoryContext, sizeof(*entry), MCXT_ALLOC_NO_OOM);
	if (entry == NULL)
	{
		nv_fault(OP_NO_MEMORY, "no host memory for a plan");
		return NULL;
	}
	entry->hash = hash;
	entry->key = *key;
	if (!choose(key, write_graph, tensors, &entry->plan))
	{
		pfree(entry);
		return NULL;
	}

	while (nv.counters.cached_plans > 0 && nv.counters.cached_plans >= nv.settings->plan_cache_size)
		entry_free(dlist_tail_element(PlanEntry, node, &plans));
	dlist_push_head(&plans, &entry->node);
	nv.counters.cached_plans++;
	return &entry->plan;
}

/*
 * Where the device has no memory for the workspace, a plan is sought that needs
 * at most half as much, down to none.
 */
bool
plan_run(PlanKey *key, PlanGraph write_graph, const PlanTensors *tensors)
{
	NvFault		no_memory = {.set = false};

	key->device = nv.device;
	key->allow_tf32 = nv.settings->allow_tf32;
	key->deterministic = nv.settings->deterministic;
	key->autotune = nv.settings->autotune;
	key->workspace_limit = (int64) nv.settings->workspace_limit_kb * 1024;

	for (;;)
	{
		const Plan *plan = plan_get(key, write_graph, tensors);
		void	   *workspace = NULL;

		if (plan == NULL)
		{
			if (no_memory.set && !nv.lost)
				nv.fault = no_memory;
			return false;
		}
		if (plan->workspace == 0 || (workspace = mem_scratch(plan->workspace)) != NULL)
			return execute(plan, tensors, workspace);
		if (nv.fault.outcome != OP_NO_MEMORY || nv.fault.bug)
			return false;
		no_memory = nv.fault;
		nv_clear_fault();
		key->workspace_limit = plan->workspace / 2;
	}
}

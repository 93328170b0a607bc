/*
 * Asking cuDNN's heuristics for plans, and which of its engines we take.
 */
#include "postgres.h"

#include "search.h"

#define MAX_CONFIGS 64			/* heuristics give some 10 to 40 */

/* The engines that settings allow ------------------------------------------ */

/*
 * Strict float32 means products and sums in float32, by the direct sum: tensor
 * cores would round the factors, transforms (Winograd, FFT) lose digits that the
 * direct sum keeps. The half types take tensor cores, which multiply exactly and
 * add in float32.
 */
static bool
numerics_allowed(const PlanKey *key, cudnnBackendNumericalNote_t note)
{
	bool		strict = !(key->dtype == DT_FLOAT32 && key->allow_tf32);

	switch (note)
	{
		case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
			return !key->deterministic;
		case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
			return key->dtype != DT_FLOAT32 || key->allow_tf32;
		case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
		case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
			return false;
		case CUDNN_NUMERICAL_NOTE_FFT:
		case CUDNN_NUMERICAL_NOTE_WINOGRAD:
		case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
		case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
		case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
			return !strict;
		default:
			return true;
	}
}

/* Compiling at run time takes up to seconds; reordered int8 is not what we have. */
static bool
behaviour_allowed(cudnnBackendBehaviorNote_t note)
{
	return note != CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION &&
		note != CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER &&
		note != CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER;
}

static bool
engine_allowed(const PlanKey *key, Descriptor engine)
{
	cudnnBackendNumericalNote_t numerical[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
	cudnnBackendBehaviorNote_t behaviour[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
	int64		count = 0;

	if (cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
								 lengthof(numerical), &count, numerical) != CUDNN_STATUS_SUCCESS)
		return false;
	for (int64 i = 0; i < count; i++)
		if (!numerics_allowed(key, numerical[i]))
			return false;
	if (cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
								 lengthof(behaviour), &count, behaviour) != CUDNN_STATUS_SUCCESS)
		return false;
	for (int64 i = 0; i < count; i++)
		if (!behaviour_allowed(behaviour[i]))
			return false;
	return true;
}

/* Is the engine of a configuration allowed? */
static bool
config_allowed(const PlanKey *key, Descriptor config)
{
	Descriptor	engine;
	int64		count;
	bool		allowed;

	if (!descriptor_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine))
		return false;
	allowed = cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
									   1, &count, &engine) == CUDNN_STATUS_SUCCESS &&
		engine_allowed(key, engine);
	(void) cudnnBackendDestroyDescriptor(engine);
	return allowed;
}

/* Search ------------------------------------------------------------------- */

/*
 * Builds the plan of a configuration: false, and no plan, when cuDNN finds that
 * it does not work after all (no fault) or it needs too much workspace.
 */
static bool
plan_from_config(const PlanKey *key, Descriptor config, Plan *plan)
{
	int64		count;

	if (!descriptor_new(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan->descriptor))
		return false;
	if (cudnnBackendSetAttribute(plan->descriptor, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
								 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config) == CUDNN_STATUS_SUCCESS &&
		cudnnBackendFinalize(plan->descriptor) == CUDNN_STATUS_SUCCESS &&
		cudnnBackendGetAttribute(plan->descriptor, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
								 1, &count, &plan->workspace) == CUDNN_STATUS_SUCCESS &&
		plan->workspace <= key->workspace_limit)
		return true;
	(void) cudnnBackendDestroyDescriptor(plan->descriptor);
	return false;
}

/*
 * Up to `max` plans in the order in which a heuristic prefers them, from the
 * first `want` of its configurations; cost grows with `want`. Gives how many.
 */
static int
search_mode(const PlanKey *key, Descriptor graph, cudnnBackendHeurMode_t mode, int want,
			Plan *found, int max)
{
	Descriptor	heuristic,
				config[MAX_CONFIGS];
	int64		got = 0;
	int			nconfig = 0,
				nfound = 0;

	if (!descriptor_new(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristic))
		return 0;
	while (nconfig < want && descriptor_new(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[nconfig]))
		nconfig++;
	if (descriptor_set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph) &&
		descriptor_set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode) &&
		descriptor_set(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &nv.properties) &&
		cudnnBackendFinalize(heuristic) == CUDNN_STATUS_SUCCESS &&
		cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
								 nconfig, &got, config) == CUDNN_STATUS_SUCCESS)
		for (int i = 0; i < Min(got, nconfig) && nfound < max; i++)
			if (config_allowed(key, config[i]) && plan_from_config(key, config[i], &found[nfound]))
				nfound++;

	while (nconfig > 0)
		(void) cudnnBackendDestroyDescriptor(config[--nconfig]);
	(void) cudnnBackendDestroyDescriptor(heuristic);
	return nfound;
}

/*
 * For one plan the first configuration of the heuristic is tried before all are
 * asked for, which takes ten times as long.
 */
int
plan_search(const PlanKey *key, PlanGraph write_graph, Plan *found, int max)
{
	Graph		graph = {.nowned = 0};
	Descriptor	finished;
	int			n = 0;

	write_graph(&graph, key);
	finished = graph_finish(&graph);
	if (finished != NULL)
	{
		if (max == 1)
			n = search_mode(key, finished, CUDNN_HEUR_MODE_A, 1, found, 1);
		if (n == 0)
			n = search_mode(key, finished, CUDNN_HEUR_MODE_A, MAX_CONFIGS, found, max);
		if (n == 0)
			n = search_mode(key, finished, CUDNN_HEUR_MODE_FALLBACK, MAX_CONFIGS, found, max);
	}
	graph_free(&graph);
	if (n == 0)
		nv_fault(OP_CANNOT, "cuDNN has no plan for it with these settings and " INT64_FORMAT " bytes of workspace",
				 key->workspace_limit);
	return n;
}

/*
 * Plans: how cuDNN will run a graph on this device, found by its heuristics among
 * the engines that our settings allow, and kept for the next call of the same
 * kind.
 */
#ifndef PLAN_H
#define PLAN_H

#include "graph.h"

#define PLAN_MAX_AXES (MAX_SPATIAL + 2)
#define PLAN_MAX_TENSORS 4

/*
 * All that a plan depends on. Zeroed before it is filled: it is compared as
 * bytes. plan_run sets what follows from settings and session.
 */
typedef struct PlanKey
{
	/* the computation: set by the caller */
	ConvParams	params;
	int64		image[PLAN_MAX_AXES];
	int64		filter[PLAN_MAX_AXES];
	int64		response[PLAN_MAX_AXES];
	int32		op;				/* OpId */
	int32		dtype;			/* DType */
	int32		layout;			/* TensorLayout */
	int32		with_bias;
	/* the session */
	int32		device;
	int32		allow_tf32;
	int32		deterministic;
	int32		autotune;
	int64		workspace_limit;
} PlanKey;

/* Writes down the computation that a key describes. */
typedef void (*PlanGraph) (Graph *graph, const PlanKey *key);

/* Tensors by the uid that the graph gives them. */
typedef struct PlanTensors
{
	int			count;
	int64		uid[PLAN_MAX_TENSORS];
	void	   *ptr[PLAN_MAX_TENSORS];
} PlanTensors;

/*
 * Runs the computation, planning it when no plan is kept; false with a fault.
 * Only between nv_begin and nv_end.
 */
extern bool plan_run(PlanKey *key, PlanGraph write_graph, const PlanTensors *tensors);

/* Never throws. */
extern void plan_forget_all(void);

#endif							/* PLAN_H */

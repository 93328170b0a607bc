/* Finding plans for a graph on this device. */
#ifndef SEARCH_H
#define SEARCH_H

#include "plan.h"

typedef struct Plan
{
	Descriptor	descriptor;		/* lives on without the graph it was made of */
	int64		workspace;		/* bytes it needs */
} Plan;

/*
 * Up to `max` plans that the key's settings allow, best guess first; the caller
 * owns them. None with a fault. Only between nv_begin and nv_end.
 */
extern int	plan_search(const PlanKey *key, PlanGraph write_graph, Plan *found, int max);

#endif							/* SEARCH_H */

/*
 * Writing down a computation in cuDNN's graph API. The descriptors belong to the
 * Graph, which graph_free sweeps; after a fault every call is empty, so a graph
 * is written without a check at each line and looked at once, at its end.
 */
#ifndef GRAPH_H
#define GRAPH_H

#include "session.h"

#define GRAPH_MAX_DESCRIPTORS 16
#define GRAPH_MAX_OPERATIONS 4

typedef cudnnBackendDescriptor_t Descriptor;

typedef struct Graph
{
	Descriptor	owned[GRAPH_MAX_DESCRIPTORS];
	int			nowned;
	Descriptor	operation[GRAPH_MAX_OPERATIONS];
	int			noperation;
} Graph;

/* One descriptor, whoever owns it; false with a fault. */
extern bool descriptor_new(cudnnBackendDescriptorType_t type, Descriptor *descriptor);
extern bool descriptor_set(Descriptor descriptor, cudnnBackendAttributeName_t name,
						   cudnnBackendAttributeType_t type, int64 count, const void *values);
extern bool descriptor_finish(Descriptor descriptor);

/* A descriptor that the graph owns; NULL after a fault. */
extern Descriptor graph_new(Graph *graph, cudnnBackendDescriptorType_t type);

/* A packed tensor (N, C, i..) in that layout. A virtual one only exists within a kernel. */
extern Descriptor graph_tensor(Graph *graph, int64 uid, DType dtype, TensorLayout layout, int rank,
							   const int64 *dims, bool is_virtual);

/* Finishes an operation and adds it to the graph. */
extern void graph_operation(Graph *graph, Descriptor operation);

/* y = a + b, broadcast, computed in that type. */
extern void graph_add(Graph *graph, DType compute, Descriptor a, Descriptor b, Descriptor y);

/* The finished graph of all operations; NULL with a fault. */
extern Descriptor graph_finish(Graph *graph);

extern void graph_free(Graph *graph);

#endif							/* GRAPH_H */

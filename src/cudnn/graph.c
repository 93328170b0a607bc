/*
 * The graph API's descriptors, wrapped so that a graph reads like what it
 * computes. How a graph is planned and run is in plan.c.
 */
#include "postgres.h"

#include "graph.h"

#define TENSOR_ALIGNMENT 16		/* device memory is aligned to 256 */

bool
descriptor_new(cudnnBackendDescriptorType_t type, Descriptor *descriptor)
{
	*descriptor = NULL;
	return !nv.fault.set && NV_DNN(cudnnBackendCreateDescriptor(type, descriptor));
}

bool
descriptor_set(Descriptor descriptor, cudnnBackendAttributeName_t name,
			   cudnnBackendAttributeType_t type, int64 count, const void *values)
{
	return !nv.fault.set && NV_DNN(cudnnBackendSetAttribute(descriptor, name, type, count, values));
}

bool
descriptor_finish(Descriptor descriptor)
{
	return !nv.fault.set && NV_DNN(cudnnBackendFinalize(descriptor));
}

Descriptor
graph_new(Graph *graph, cudnnBackendDescriptorType_t type)
{
	Descriptor *place = &graph->owned[graph->nowned];

	Assert(graph->nowned < GRAPH_MAX_DESCRIPTORS);
	if (descriptor_new(type, place))
		graph->nowned++;
	return *place;
}

Descriptor
graph_tensor(Graph *graph, int64 uid, DType dtype, TensorLayout layout, int rank, const int64 *dims,
			 bool is_virtual)
{
	Descriptor	tensor = graph_new(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	cudnnDataType_t type = nv_type(dtype);
	int64		alignment = TENSOR_ALIGNMENT;
	int64		strides[TENSOR_MAX_RANK];
	int64		step = layout == LAYOUT_CHANNELS_LAST ? dims[1] : 1;

	for (int i = rank - 1; i >= 0; i--)
	{
		if (i == 1 && layout == LAYOUT_CHANNELS_LAST)
			strides[i] = 1;
		else
		{
			strides[i] = step;
			step *= dims[i];
		}
	}

	descriptor_set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
	descriptor_set(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
	descriptor_set(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
	descriptor_set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, dims);
	descriptor_set(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides);
	descriptor_set(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
	descriptor_finish(tensor);
	return tensor;
}

void
graph_operation(Graph *graph, Descriptor operation)
{
	Assert(graph->noperation < GRAPH_MAX_OPERATIONS);
	descriptor_finish(operation);
	graph->operation[graph->noperation++] = operation;
}

void
graph_add(Graph *graph, DType compute, Descriptor a, Descriptor b, Descriptor y)
{
	Descriptor	add = graph_new(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
	Descriptor	operation = graph_new(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
	cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
	cudnnDataType_t type = nv_type(compute);

	descriptor_set(add, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
	descriptor_set(add, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
	descriptor_finish(add);

	descriptor_set(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &add);
	descriptor_set(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &a);
	descriptor_set(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b);
	descriptor_set(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
	graph_operation(graph, operation);
}

Descriptor
graph_finish(Graph *graph)
{
	Descriptor	finished = graph_new(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);

	descriptor_set(finished, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
				   graph->noperation, graph->operation);
	return descriptor_finish(finished) ? finished : NULL;
}

void
graph_free(Graph *graph)
{
	while (graph->nowned > 0)
		(void) cudnnBackendDestroyDescriptor(graph->owned[--graph->nowned]);
}

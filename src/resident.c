/*
 * Device buffers and resident tensors. A buffer's record, with the callback that
 * frees it, belongs to its memory context before device memory is taken, so
 * that no error can come between.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "compat.h"
#include "npy.h"
#include "resident.h"
#include "stats.h"

static int64 live_buffers;

static Size resident_flat_size(ExpandedObjectHeader *eohptr);
static void resident_flatten(ExpandedObjectHeader *eohptr, void *result, Size allocated_size);

static const ExpandedObjectMethods resident_methods = {resident_flat_size, resident_flatten};

int64
resident_live(void)
{
	return live_buffers;
}

/* Reset callback of the owning context: never throws. */
static void
device_buffer_release(void *arg)
{
	DeviceBuffer *buffer = arg;

	if (buffer->ptr == NULL)
		return;
	buffer->memory->free(buffer->ptr, buffer->size);
	buffer->ptr = NULL;
	live_buffers--;
}

OpOutcome
device_buffer_new(DeviceBuffer **result, MemoryContext owner, ProviderId provider, Size size,
				  char *reason, Size reason_size)
{
	DeviceBuffer *buffer = MemoryContextAllocZero(owner, sizeof(*buffer));
	OpOutcome	outcome;

	buffer->callback.func = device_buffer_release;
	buffer->callback.arg = buffer;
	MemoryContextRegisterResetCallback(owner, &buffer->callback);

	buffer->memory = provider_loaded(provider)->memory;
	buffer->size = size;
	outcome = buffer->memory->alloc(&buffer->ptr, size, reason, reason_size);
	if (outcome != OP_DONE)
		return outcome;
	live_buffers++;
	*result = buffer;
	return OP_DONE;
}

OpOutcome
resident_new(ResidentTensor **result, MemoryContext parent, ProviderId provider, OpId maker,
			 DType dtype, const TensorShape *shape, char *reason, Size reason_size)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "cudnn_ops tensor", ALLOCSET_SMALL_SIZES);
	ResidentTensor *tensor = MemoryContextAllocZero(cxt, sizeof(*tensor));
	OpOutcome	outcome;

	EOH_init_header(&tensor->hdr, &resident_methods, cxt);
	tensor->provider = provider;
	tensor->maker = maker;
	tensor->view.dtype = dtype;
	tensor->view.shape = *shape;
	outcome = device_buffer_new(&tensor->buffer, cxt, provider,
								shape_numel(shape) * dtype_size(dtype), reason, reason_size);
	if (outcome != OP_DONE)
	{
		MemoryContextDelete(cxt);
		return outcome;
	}
	tensor->view.data = tensor->buffer->ptr;
	*result = tensor;
	return OP_DONE;
}

OpOutcome
resident_set_layout(ResidentTensor *tensor, TensorLayout layout, char *reason, Size reason_size)
{
	DeviceBuffer *buffer = tensor->buffer;
	DeviceBuffer *other;
	MemoryContext scratch;
	int64		channels,
				positions;
	OpOutcome	outcome;

	if (tensor->layout == layout || !shape_has_layouts(&tensor->view.shape, &channels, &positions))
		return OP_DONE;
	scratch = AllocSetContextCreate(CurrentMemoryContext, "cudnn_ops layout", ALLOCSET_SMALL_SIZES);
	outcome = device_buffer_new(&other, scratch, tensor->provider, buffer->size, reason, reason_size);
	if (outcome == OP_DONE)
		outcome = buffer->memory->reorder(other->ptr, buffer->ptr, &tensor->view, layout, reason, reason_size);
	if (outcome == OP_DONE)
	{
		tensor->view.data = other->ptr;
		other->ptr = buffer->ptr;
		buffer->ptr = tensor->view.data;
		tensor->layout = layout;
	}
	MemoryContextDelete(scratch);
	return outcome;
}

void
upload_from_host(const void *arg, char *dst, Size offset, Size size)
{
	memcpy(dst, (const char *) arg + offset, size);
}

ResidentTensor *
resident_from_datum(Datum value)
{
	ExpandedObjectHeader *eoh;

	if (!VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
		return NULL;
	eoh = DatumGetEOHP(value);
	return eoh->eoh_methods == &resident_methods ? (ResidentTensor *) eoh : NULL;
}

/* Bytes of the flat value; ERROR 54000 when a bytea can't hold it. */
static Size
resident_flat_size(ExpandedObjectHeader *eohptr)
{
	const TensorView *view = &((ResidentTensor *) eohptr)->view;
	Size		payload = tensor_payload_size(view->dtype, &view->shape);
	char		header[NPY_MAX_HEADER];

	tensor_expect_big(payload);
	return VARHDRSZ + npy_write_header(header, view->dtype, &view->shape) + payload;
}

/* Downloads in C order; waits for the work that makes the tensor, checking for interrupts. */
static void
resident_flatten(ExpandedObjectHeader *eohptr, void *result, Size allocated_size)
{
	ResidentTensor *tensor = (ResidentTensor *) eohptr;
	char	   *dst = VARDATA(result);
	char		reason[160];

	if (resident_set_layout(tensor, LAYOUT_C_ORDER, reason, sizeof(reason)) != OP_DONE)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not bring a tensor on the device into C order"),
				 errdetail("%s.", reason)));

	SET_VARSIZE(result, allocated_size);
	dst += npy_write_header(dst, tensor->view.dtype, &tensor->view.shape);
	tensor->buffer->memory->download(dst, tensor->view.data, tensor->buffer->size);
	op_stats[tensor->maker][tensor->provider].bytes_to_host += tensor->buffer->size;
}

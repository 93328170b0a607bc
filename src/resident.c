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

#define REORDERED_PART (1024 * 1024)	/* bytes on the host */

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

/* Undefined bytes; what is not OP_DONE comes with the reason and no buffer. */
static OpOutcome
device_buffer_new(DeviceBuffer **result, MemoryContext owner, const DeviceMemory *memory, Size size,
				  char *reason, Size reason_size)
{
	DeviceBuffer *buffer = MemoryContextAllocZero(owner, sizeof(*buffer));
	OpOutcome	outcome;

	buffer->callback.func = device_buffer_release;
	buffer->callback.arg = buffer;
	MemoryContextRegisterResetCallback(owner, &buffer->callback);

	buffer->memory = memory;
	buffer->size = size;
	outcome = memory->alloc(&buffer->ptr, size, reason, reason_size);
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
	outcome = device_buffer_new(&tensor->buffer, cxt, provider_loaded(provider)->memory,
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
resident_upload(ResidentTensor **result, MemoryContext parent, ProviderId provider, OpId maker,
				const TensorView *view, UploadSource source, const void *arg,
				char *reason, Size reason_size)
{
	ResidentTensor *tensor;
	OpOutcome	outcome = resident_new(&tensor, parent, provider, maker, view->dtype, &view->shape,
									   reason, reason_size);

	if (outcome != OP_DONE)
		return outcome;
	outcome = tensor->buffer->memory->upload(tensor->view.data, source, arg, tensor->buffer->size,
											 reason, reason_size);
	if (outcome == OP_DONE)
		*result = tensor;
	else
		MemoryContextDelete(tensor->hdr.eoh_context);
	return outcome;
}

OpOutcome
resident_set_layout(ResidentTensor *tensor, TensorLayout layout, char *reason, Size reason_size)
{
	DeviceBuffer *buffer = tensor->buffer;
	DeviceBuffer *other;
	MemoryContext scratch;
	OpOutcome	outcome;

	if (tensor->layout == layout || !shape_has_layouts(&tensor->view.shape))
		return OP_DONE;
	scratch = AllocSetContextCreate(CurrentMemoryContext, "cudnn_ops layout", ALLOCSET_SMALL_SIZES);
	outcome = device_buffer_new(&other, scratch, buffer->memory, buffer->size, reason, reason_size);
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

/*
 * Downloads a tensor that lies channels last into C order, some positions of an
 * image at a time: where the device has no memory to reorder it.
 */
static void
download_reordering(const ResidentTensor *tensor, char *dst)
{
	const DeviceMemory *memory = tensor->buffer->memory;
	int			size = dtype_size(tensor->view.dtype);
	const char *src = tensor->view.data;
	const TensorShape *shape = &tensor->view.shape;
	int64		channels = shape->dims[1];
	int64		positions = elements_from(shape, 2);
	int64		step = Min(positions, Max(1, REORDERED_PART / (channels * size)));
	char	   *part = MemoryContextAllocHuge(CurrentMemoryContext, step * channels * size);

	for (int64 image = 0; image < shape->dims[0]; image++)
	{
		for (int64 first = 0; first < positions; first += step)
		{
			int64		count = Min(step, positions - first);

			memory->download(part, src, count * channels * size);
			src += count * channels * size;
			for (int64 c = 0; c < channels; c++)
				for (int64 i = 0; i < count; i++)
					memcpy(dst + (c * positions + first + i) * size, part + (i * channels + c) * size, size);
		}
		dst += channels * positions * size;
	}
	pfree(part);
}

/* Downloads in C order; waits for the work that makes the tensor, checking for interrupts. */
static void
resident_flatten(ExpandedObjectHeader *eohptr, void *result, Size allocated_size)
{
	ResidentTensor *tensor = (ResidentTensor *) eohptr;
	char	   *dst = VARDATA(result);
	char		reason[160];

	SET_VARSIZE(result, allocated_size);
	dst += npy_write_header(dst, tensor->view.dtype, &tensor->view.shape);
	if (resident_set_layout(tensor, LAYOUT_C_ORDER, reason, sizeof(reason)) == OP_DONE)
		tensor->buffer->memory->download(dst, tensor->view.data, tensor->buffer->size);
	else
		download_reordering(tensor, dst);
	op_stats[tensor->maker][tensor->provider].bytes_to_host += tensor->buffer->size;
}

/*
 * A provider with a device, for machines without one: the device is host memory at
 * addresses that only this provider can follow, so that whoever takes a device
 * pointer for a host pointer crashes. It stands in for cudnn in tests of the frame
 * around such a provider: test/t/004_device.pl, and the regression tests.
 *
 * It convolves (small images) and has relu and copies; all but float64 wants channels last
 * to be convolved. cudnn_ops.device says what fails.
 */
#include "postgres.h"

#include <stdlib.h>

#include "half.h"
#include "miscadmin.h"
#include "provider.h"

/* Values of cudnn_ops.device. */
enum
{
	NO_MEMORY_TO_REORDER = 1001,
	NO_CHANNELS_LAST,			/* the convolution cannot, after all */
	LOST						/* as after a sticky error */
};

#define DEVICE_SIZE (256 * 1024 * 1024)
#define SLICE 4096				/* of an upload */
#define MAX_PRODUCTS 5e6		/* of a convolution, which takes its time */

extern PGDLLEXPORT const Provider *cudnn_ops_provider(const ProviderHost *host);

static const Settings *settings;
static ProviderCounters counters;

/* Memory ------------------------------------------------------------------ */

/* From a host to a device address, and back. */
static void *
disguised(const void *ptr)
{
	return (void *) ((uintptr_t) ptr ^ (uintptr_t) 1 << 62);
}

static OpOutcome
outcome(OpOutcome outcome, const char *text, char *reason, Size reason_size)
{
	strlcpy(reason, text, reason_size);
	return outcome;
}

static OpOutcome
device_alloc(void **device, Size size, char *reason, Size reason_size)
{
	int64		limit = settings->device_memory_limit_kb > 0 ?
		(int64) settings->device_memory_limit_kb * 1024 : DEVICE_SIZE;
	void	   *ptr;

	if (settings->device == LOST)
		return outcome(OP_DEVICE_LOST, "the device was lost", reason, reason_size);
	if (counters.device_bytes + (int64) size > limit)
		return outcome(OP_NO_MEMORY, "the device is full", reason, reason_size);
	ptr = malloc(size + 1);
	memset(ptr, 0xa5, size);
	counters.device_bytes += size;
	*device = disguised(ptr);
	return OP_DONE;
}

static void
device_free(void *ptr, Size size)
{
	counters.device_bytes -= size;
	free(disguised(ptr));
}

static OpOutcome
device_upload(void *device, UploadSource source, const void *arg, Size size, char *reason, Size reason_size)
{
	char		slice[VARHDRSZ + SLICE];

	for (Size offset = 0; offset < size; offset += SLICE)
	{
		Size		part = Min(SLICE, size - offset);

		source(arg, slice + VARHDRSZ, offset, part);
		memcpy((char *) disguised(device) + offset, slice + VARHDRSZ, part);
		counters.bytes_to_device += part;
	}
	return OP_DONE;
}

/* Where element (image, channel, position) is. */
static int64
place(const TensorView *view, TensorLayout layout, int64 n, int64 c, int64 i)
{
	int64		channels = view->shape.dims[1];
	int64		positions = elements_from(&view->shape, 2);

	return layout == LAYOUT_CHANNELS_LAST ? (n * positions + i) * channels + c : (n * channels + c) * positions + i;
}

static OpOutcome
device_reorder(void *to, const void *from, const TensorView *view, TensorLayout to_layout, char *reason, Size reason_size)
{
	TensorLayout from_layout = to_layout == LAYOUT_C_ORDER ? LAYOUT_CHANNELS_LAST : LAYOUT_C_ORDER;
	int			size = dtype_size(view->dtype);

	if (settings->device == NO_MEMORY_TO_REORDER)
		return outcome(OP_NO_MEMORY, "no memory to reorder", reason, reason_size);
	for (int64 n = 0; n < view->shape.dims[0]; n++)
		for (int64 c = 0; c < view->shape.dims[1]; c++)
			for (int64 i = 0; i < elements_from(&view->shape, 2); i++)
				memcpy((char *) disguised(to) + place(view, to_layout, n, c, i) * size,
					   (char *) disguised(from) + place(view, from_layout, n, c, i) * size, size);
	return OP_DONE;
}

static void
device_download(void *host, const void *device, Size size)
{
	CHECK_FOR_INTERRUPTS();
	if (settings->device == LOST)
		ereport(ERROR,
				(errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
				 errmsg("could not read a tensor from the device"),
				 errdetail("The device was lost.")));
	memcpy(host, disguised(device), size);
	counters.bytes_to_host += size;
}

/* Kernels ------------------------------------------------------------------ */

static double
get(const TensorView *view, int64 i)
{
	return float_get(view->dtype, disguised(view->data), i);
}

static void
set(const TensorView *view, int64 i, double value)
{
	float_set(view->dtype, disguised(view->data), i, value);
}

static TensorLayout
conv_layout(const OpTask *task)
{
	return task->in[0].dtype == DT_FLOAT64 ? LAYOUT_C_ORDER : LAYOUT_CHANNELS_LAST;
}

/* Element (n, o, row, column) of the result. */
static double
conv_sum(const OpTask *task, int64 n, int64 o, int64 row, int64 column)
{
	const ConvParams *params = task->params;
	const Window *window = &params->window;
	const TensorView *x = &task->in[0],
			   *w = &task->in[1];
	const int64 *xdims = x->shape.dims,
			   *wdims = w->shape.dims;
	int64		first = o / (wdims[0] / params->groups) * wdims[1]; /* channel of x */
	double		sum = task->in[2].data != NULL ? get(&task->in[2], o) : 0;

	for (int64 c = 0; c < wdims[1]; c++)
		for (int64 k = 0; k < wdims[2] * wdims[3]; k++)
		{
			int64		i = row * window->stride[0] - window->pad_begin[0] + k / wdims[3] * window->dilation[0];
			int64		j = column * window->stride[1] - window->pad_begin[1] + k % wdims[3] * window->dilation[1];

			if (i >= 0 && i < xdims[2] && j >= 0 && j < xdims[3])
				sum += get(x, place(x, task->layout, n, first + c, i * xdims[3] + j)) *
					get(w, place(w, task->layout, o, c, k));
		}
	return sum;
}

static OpOutcome
conv(OpTask *task)
{
	const TensorView *y = &task->out[0];
	const int64 *dims = y->shape.dims;
	const int64 *w = task->in[1].shape.dims;

	if (y->shape.rank != 4 || (double) dims[0] * dims[1] * dims[2] * dims[3] * w[1] * w[2] * w[3] > MAX_PRODUCTS)
		return outcome(OP_CANNOT, "it convolves small images", task->reason, sizeof(task->reason));
	if (settings->device == NO_CHANNELS_LAST && task->layout == LAYOUT_CHANNELS_LAST)
		return outcome(OP_CANNOT, "not with channels last", task->reason, sizeof(task->reason));
	for (int64 n = 0; n < dims[0]; n++)
		for (int64 o = 0; o < dims[1]; o++)
			for (int64 i = 0; i < dims[2] * dims[3]; i++)
				set(y, place(y, task->layout, n, o, i), conv_sum(task, n, o, i / dims[3], i % dims[3]));
	return OP_DONE;
}

static TensorLayout
layout_as_input(const OpTask *task)
{
	return task->layout;
}

static OpOutcome
relu(OpTask *task)
{
	for (int64 i = 0; i < task->in[0].shape.dims[0]; i++)
	{
		double		value = get(&task->in[0], i);

		set(&task->out[0], i, value < 0 ? 0 : value);
	}
	return OP_DONE;
}

static OpOutcome
copy(OpTask *task)
{
	memcpy(disguised(task->out[0].data), disguised(task->in[0].data),
		   task->in[0].shape.dims[0] * dtype_size(task->in[0].dtype));
	return OP_DONE;
}

/* Provider ----------------------------------------------------------------- */

static const char *
probe(void)
{
	return NULL;
}

static const char *
version(void)
{
	return "test device";
}

static const DeviceMemory memory = {
	.alloc = device_alloc,
	.free = device_free,
	.upload = device_upload,
	.reorder = device_reorder,
	.download = device_download,
};

static const Provider provider = {
	.abi = PROVIDER_ABI,
	.pg_major = PG_VERSION_NUM / 100,
	.name = "cudnn",
	.probe = probe,
	.version = version,
	.memory = &memory,
	.counters = &counters,
	.ops = {
		[OP_CONV] = {conv, DT_FLOATS, conv_layout},
		[OP_ACTIVATION] = {relu, DT_FLOATS, layout_as_input},
		[OP_COPY] = {copy, DT_ALL},
	},
};

const Provider *
cudnn_ops_provider(const ProviderHost *host)
{
	settings = host->settings;
	return &provider;
}

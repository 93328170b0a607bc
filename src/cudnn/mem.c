/*
 * Device memory and copies. Whoever asks for a device buffer owns it; scratch
 * memory of a kernel is owned by the list below until the kernel ends.
 *
 * Why a pinned ring: a copy out of pageable memory may still read its source
 * after the call has returned. What goes up is therefore copied into the ring
 * first, and moves on from there while the next slice is filled. What comes down
 * is copied straight into its place where it is big, which is faster than the
 * ring and over when the call returns; a small tensor comes through the ring,
 * whose memory can be enqueued behind the work that makes it, with one wait.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "foreign.h"
#include "mem.h"

#define MAX_SCRATCH 8
#define RING_SLICES 4
#define RING_SLICE (2 * 1024 * 1024)
#define RING_PREFIX PG_CACHE_LINE_SIZE	/* what a source may address before its place */
#define SMALL_DOWNLOAD (256 * 1024)
#define DOWNLOAD_SLICE (16 * 1024 * 1024)
#define SPIN_COUNT 200			/* some 0.1 ms */

typedef struct Scratch
{
	void	   *ptr[MAX_SCRATCH];
	Size		size[MAX_SCRATCH];
	int			count;
	Size		total;
} Scratch;

typedef struct Ring
{
	char	   *memory;			/* pinned; NULL until first use */
	cudaEvent_t done[RING_SLICES];	/* the slice has been read */
	int			slice;			/* being filled */
	Size		filled;
} Ring;

static Scratch scratch;
static Ring ring;

/* Allocation -------------------------------------------------------------- */

/* Gives the device what the pool holds and nobody uses; waits for the stream. */
static void
mem_trim(void)
{
	(void) cudaStreamSynchronize(nv.stream);
	(void) cudaMemPoolTrimTo(nv.pool, 0);
}

/* NULL with a fault when there is no memory. */
static void *
device_alloc(Size size)
{
	int64		limit = (int64) nv.settings->device_memory_limit_kb * 1024;
	int64		used = nv.counters.device_bytes + scratch.total;
	size_t		available = 0,
				total = 0;
	void	   *ptr;
	cudaError_t error;

	if (limit > 0 && used + (int64) size > limit)
	{
		nv_fault(OP_NO_MEMORY, "%zu bytes asked for, " INT64_FORMAT " in use, cudnn_ops.device_memory_limit is " INT64_FORMAT,
				 size, used, limit);
		return NULL;
	}
	error = cudaMallocAsync(&ptr, size, nv.stream);
	if (error == cudaErrorMemoryAllocation)
	{
		mem_trim();
		error = cudaMallocAsync(&ptr, size, nv.stream);
	}
	if (error == cudaErrorMemoryAllocation)
	{
		(void) cudaGetLastError();
		(void) cudaMemGetInfo(&available, &total);
		nv_fault(OP_NO_MEMORY, "%zu bytes asked for, %zu of %zu free on device %d",
				 size, available, total, nv.device);
		return NULL;
	}
	return nv_cuda(error, "cudaMallocAsync") ? ptr : NULL;
}

/* Frees in the order of the stream; nothing where the context is gone. Never throws. */
static void
device_free(void *ptr)
{
	if (nv.pid == MyProcPid && !nv.lost)
		(void) nv_check_lost(cudaFreeAsync(ptr, nv.stream));
}

static OpOutcome
nv_alloc(void **device, Size size, char *reason, Size reason_size)
{
	OpOutcome	outcome = nv_ready(reason, reason_size);

	if (outcome != OP_DONE)
		return outcome;
	nv_clear_fault();
	*device = device_alloc(Max(size, 1));
	if (*device != NULL)
		nv.counters.device_bytes += size;
	return nv_outcome(*device != NULL, reason, reason_size);
}

static void
nv_free(void *ptr, Size size)
{
	nv.counters.device_bytes -= size;
	device_free(ptr);
}

/* Scratch ----------------------------------------------------------------- */

void *
mem_scratch(Size size)
{
	void	   *ptr;

	Assert(scratch.count < MAX_SCRATCH);
	ptr = device_alloc(size);
	if (ptr == NULL)
		return NULL;
	scratch.ptr[scratch.count] = ptr;
	scratch.size[scratch.count++] = size;
	scratch.total += size;
	nv.counters.workspace_bytes = Max(nv.counters.workspace_bytes, (int64) scratch.total);
	return ptr;
}

int
mem_scratch_count(void)
{
	return scratch.count;
}

void
mem_free_scratch(int keep)
{
	while (scratch.count > keep)
	{
		device_free(scratch.ptr[--scratch.count]);
		scratch.total -= scratch.size[scratch.count];
	}
}

/* Copies ------------------------------------------------------------------ */

/*
 * Waits until what was recorded is done; false with a fault when the device is
 * lost. ERROR when interrupted, if it may be.
 */
static bool
wait_event(cudaEvent_t event, bool interruptible)
{
	cudaError_t error;

	for (int tries = 0; (error = cudaEventQuery(event)) == cudaErrorNotReady; tries++)
	{
		if (interruptible)
			CHECK_FOR_INTERRUPTS();
		if (tries >= SPIN_COUNT)
			pg_usleep(tries < 10 * SPIN_COUNT ? 50 : 1000);
	}
	return nv_cuda(error, "cudaEventQuery");
}

static bool
ring_start(void)
{
	sigset_t	mask;
	bool		ok = true;

	foreign_enter(&mask);
	for (int i = 0; i < RING_SLICES && ok; i++)
		ok = ring.done[i] != NULL || NV_CUDA(cudaEventCreateWithFlags(&ring.done[i], cudaEventDisableTiming));
	ok = ok && NV_CUDA(cudaMallocHost((void **) &ring.memory, RING_PREFIX + RING_SLICES * RING_SLICE));
	foreign_leave(&mask);
	if (ok)
		nv.counters.pinned_bytes = RING_SLICES * RING_SLICE;
	return ok;
}

/* Goes on to the next slice when that has been read. */
static bool
ring_advance(bool interruptible)
{
	int			next = (ring.slice + 1) % RING_SLICES;

	if (!NV_CUDA(cudaEventRecord(ring.done[ring.slice], nv.stream)) ||
		!wait_event(ring.done[next], interruptible))
		return false;
	ring.slice = next;
	ring.filled = 0;
	return true;
}

/* Copies up through the ring; false with a fault. */
static bool
copy_up(char *device, UploadSource source, const void *arg, Size size, bool interruptible)
{
	Size		offset = 0;

	if (ring.memory == NULL && !ring_start())
		return false;
	while (offset < size)
	{
		char	   *place;
		Size		part;

		if (ring.filled >= RING_SLICE && !ring_advance(interruptible))
			return false;
		place = ring.memory + RING_PREFIX + (Size) ring.slice * RING_SLICE + ring.filled;
		part = Min(size - offset, RING_SLICE - ring.filled);
		source(arg, place, offset, part);
		ring.filled = Min(RING_SLICE, CACHELINEALIGN(ring.filled + part));
		if (!NV_CUDA(cudaMemcpyAsync(device + offset, place, part, cudaMemcpyHostToDevice, nv.stream)))
			return false;
		nv.counters.bytes_to_device += part;
		offset += part;
	}
	return true;
}

/* The source of bytes that are in host memory. */
static void
from_host(const void *arg, char *dst, Size offset, Size size)
{
	memcpy(dst, (const char *) arg + offset, size);
}

void *
mem_scratch_copy(const void *host, Size size)
{
	void	   *ptr = mem_scratch(size);

	return ptr != NULL && copy_up(ptr, from_host, host, size, false) ? ptr : NULL;
}

static OpOutcome
nv_upload(void *device, UploadSource source, const void *arg, Size size, char *reason, Size reason_size)
{
	OpOutcome	outcome = nv_ready(reason, reason_size);

	if (outcome != OP_DONE)
		return outcome;
	nv_clear_fault();
	return nv_outcome(copy_up(device, source, arg, size, true), reason, reason_size);
}

/*
 * Copies a small tensor down through a slice of the ring. Where the wait is
 * interrupted, the slice stays in use until its copy is over.
 */
static bool
copy_down_small(char *host, const char *device, Size size)
{
	char	   *place;

	if ((ring.memory == NULL && !ring_start()) || !ring_advance(true))
		return false;
	place = ring.memory + RING_PREFIX + (Size) ring.slice * RING_SLICE;
	ring.filled = RING_SLICE;
	if (!NV_CUDA(cudaMemcpyAsync(place, device, size, cudaMemcpyDeviceToHost, nv.stream)) ||
		!NV_CUDA(cudaEventRecord(ring.done[ring.slice], nv.stream)) ||
		!wait_event(ring.done[ring.slice], true))
		return false;
	memcpy(host, place, size);
	ring.filled = 0;
	nv.counters.bytes_to_host += size;
	return true;
}

/* Copies down in slices, each of which is over before the next interrupt is served. */
static bool
copy_down(char *host, const char *device, Size size)
{
	if (size <= SMALL_DOWNLOAD)
		return copy_down_small(host, device, size);
	if (!NV_CUDA(cudaEventRecord(nv.event, nv.stream)) || !wait_event(nv.event, true))
		return false;
	while (size > 0)
	{
		Size		part = Min(size, DOWNLOAD_SLICE);

		CHECK_FOR_INTERRUPTS();
		if (!NV_CUDA(cudaMemcpyAsync(host, device, part, cudaMemcpyDeviceToHost, nv.stream)) ||
			!NV_CUDA(cudaStreamSynchronize(nv.stream)))
			return false;
		nv.counters.bytes_to_host += part;
		device += part;
		host += part;
		size -= part;
	}
	return true;
}

static void
nv_download(void *host, const void *device, Size size)
{
	char		reason[160];
	OpOutcome	outcome = nv_ready(reason, sizeof(reason));

	if (outcome == OP_DONE)
	{
		nv_clear_fault();
		outcome = nv_outcome(copy_down(host, device, size), reason, sizeof(reason));
	}
	if (outcome != OP_DONE)
		ereport(ERROR,
				(errcode(outcome == OP_NO_MEMORY ? ERRCODE_OUT_OF_MEMORY : ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
				 errmsg("could not read a tensor from the device"),
				 errdetail("%s.", reason)));
}

/* All positions of an image as one axis. */
static bool
transform(void *to, const void *from, const TensorView *view, TensorLayout to_layout)
{
	TensorLayout from_layout = to_layout == LAYOUT_C_ORDER ? LAYOUT_CHANNELS_LAST : LAYOUT_C_ORDER;
	int			dims[] = {view->shape.dims[0], view->shape.dims[1], elements_from(&view->shape, 2), 1};

	return nv_tensor(0, view->dtype, from_layout, lengthof(dims), dims) &&
		nv_tensor(1, view->dtype, to_layout, lengthof(dims), dims) &&
		NV_DNN(cudnnTransformTensor(nv.handle, nv_one(view->dtype), nv.tensor[0], from,
									&nv_zero, nv.tensor[1], to));
}

static OpOutcome
nv_reorder(void *to, const void *from, const TensorView *view, TensorLayout to_layout,
		   char *reason, Size reason_size)
{
	sigset_t	mask;
	bool		ok;
	OpOutcome	outcome = nv_ready(reason, reason_size);

	if (outcome != OP_DONE)
		return outcome;
	nv_clear_fault();
	foreign_enter(&mask);
	ok = transform(to, from, view, to_layout);
	nv.fault.bug = false;		/* nothing to raise: the core can do without */
	foreign_leave(&mask);
	return nv_outcome(ok, reason, reason_size);
}

const DeviceMemory nv_memory = {
	.alloc = nv_alloc,
	.free = nv_free,
	.upload = nv_upload,
	.reorder = nv_reorder,
	.download = nv_download,
};

void
mem_stop(void)
{
	mem_free_scratch(0);
	mem_trim();
	for (int i = 0; i < RING_SLICES; i++)
		if (ring.done[i] != NULL)
			(void) cudaEventDestroy(ring.done[i]);
	if (ring.memory != NULL)
		(void) cudaFreeHost(ring.memory);
	memset(&ring, 0, sizeof(ring));
	nv.counters.pinned_bytes = 0;
	nv.counters.workspace_bytes = 0;
}

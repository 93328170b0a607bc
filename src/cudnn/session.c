/*
 * The session on the GPU: lazy start, stop, faults, and the frame around every
 * kernel. Nothing of CUDA happens before the first use in a backend.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "foreign.h"
#include "mem.h"
#include "plan.h"
#include "session.h"

NvSession	nv;

const double nv_zero = 0;		/* all bits are 0, so float too */

static sigset_t call_mask;		/* of the caller, between nv_begin and nv_end */

/* Start and stop ---------------------------------------------------------- */

/*
 * The device to use: the one asked for, else the one with most free memory. The
 * question costs a context on each, so with one device it is not asked.
 */
static bool
choose_device(int *device)
{
	int			count;
	size_t		most = 0;

	*device = nv.settings->device;
	if (!NV_CUDA(cudaGetDeviceCount(&count)))
		return false;
	if (*device >= count)
		return nv_fault(OP_CANNOT, "cudnn_ops.device is %d, there are %d devices", *device, count);
	if (*device >= 0)
		return true;

	*device = 0;
	for (int i = 0; i < count && count > 1; i++)
	{
		size_t		available = 0,
					total;

		if (cudaSetDevice(i) == cudaSuccess && cudaMemGetInfo(&available, &total) == cudaSuccess &&
			available > most)
		{
			most = available;
			*device = i;
		}
		(void) cudaDeviceReset();	/* nothing of ours lives there yet */
	}
	(void) cudaGetLastError();
	return true;
}

/* The pool keeps what is freed, until mem_trim. */
static bool
open_pool(void)
{
	uint64		all = PG_UINT64_MAX;

	return NV_CUDA(cudaDeviceGetDefaultMemPool(&nv.pool, nv.device)) &&
		NV_CUDA(cudaMemPoolSetAttribute(nv.pool, cudaMemPoolAttrReleaseThreshold, &all));
}

static bool
open_properties(void)
{
	return NV_DNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &nv.properties)) &&
		NV_DNN(cudnnBackendSetAttribute(nv.properties, CUDNN_ATTR_DEVICEPROP_HANDLE,
										CUDNN_TYPE_HANDLE, 1, &nv.handle)) &&
		NV_DNN(cudnnBackendFinalize(nv.properties));
}

static bool
open_descriptors(void)
{
	static const cudnnDataType_t compute[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE};

	for (int i = 0; i < NV_TENSORS; i++)
		if (!NV_DNN(cudnnCreateTensorDescriptor(&nv.tensor[i])))
			return false;
	for (int i = 0; i < (int) lengthof(nv.multiply); i++)
		if (!NV_DNN(cudnnCreateOpTensorDescriptor(&nv.multiply[i])) ||
			!NV_DNN(cudnnSetOpTensorDescriptor(nv.multiply[i], CUDNN_OP_TENSOR_MUL, compute[i],
											   CUDNN_PROPAGATE_NAN)))
			return false;
	return NV_DNN(cudnnCreatePoolingDescriptor(&nv.pooling)) &&
		NV_DNN(cudnnCreateActivationDescriptor(&nv.activation)) &&
		NV_DNN(cudnnSetActivationDescriptor(nv.activation, CUDNN_ACTIVATION_RELU,
											CUDNN_PROPAGATE_NAN, 0.0));
}

/* Handles are kept in nv as soon as they exist, so that nv_stop finds them. */
static bool
nv_start(void)
{
	nv.pid = MyProcPid;
	return choose_device(&nv.device) &&
		NV_CUDA(cudaSetDevice(nv.device)) &&
		NV_CUDA(cudaStreamCreateWithFlags(&nv.stream, cudaStreamNonBlocking)) &&
		NV_CUDA(cudaEventCreateWithFlags(&nv.event, cudaEventDisableTiming)) &&
		open_pool() &&
		NV_DNN(cudnnCreate(&nv.handle)) &&
		NV_DNN(cudnnSetStream(nv.handle, nv.stream)) &&
		open_properties() &&
		open_descriptors();
}

/* May be called at any time, also after a partial start. Never throws. */
static void
nv_stop(void)
{
	if (nv.pid != MyProcPid || nv.lost)
		return;
	plan_forget_all();
	mem_stop();
	for (int i = 0; i < NV_TENSORS; i++)
		if (nv.tensor[i] != NULL)
			(void) cudnnDestroyTensorDescriptor(nv.tensor[i]);
	for (int i = 0; i < (int) lengthof(nv.multiply); i++)
		if (nv.multiply[i] != NULL)
			(void) cudnnDestroyOpTensorDescriptor(nv.multiply[i]);
	if (nv.pooling != NULL)
		(void) cudnnDestroyPoolingDescriptor(nv.pooling);
	if (nv.activation != NULL)
		(void) cudnnDestroyActivationDescriptor(nv.activation);
	if (nv.properties != NULL)
		(void) cudnnBackendDestroyDescriptor(nv.properties);
	if (nv.handle != NULL)
		(void) cudnnDestroy(nv.handle);
	if (nv.event != NULL)
		(void) cudaEventDestroy(nv.event);
	if (nv.stream != NULL)
		(void) cudaStreamDestroy(nv.stream);

	nv.pid = 0;
	memset(nv.tensor, 0, sizeof(nv.tensor));
	memset(nv.multiply, 0, sizeof(nv.multiply));
	nv.pooling = NULL;
	nv.activation = NULL;
	nv.properties = NULL;
	nv.handle = NULL;
	nv.event = NULL;
	nv.stream = NULL;
	nv.pool = NULL;
}

/* A start that failed: out of memory, or no use of this device here. */
static OpOutcome
start_failed(char *reason, Size reason_size)
{
	if (nv.fault.bug)
		snprintf(reason, reason_size, "the GPU cannot be started: %s", nv.fault.detail);
	else
		strlcpy(reason, nv.fault.text, reason_size);
	nv_stop();
	return nv.fault.outcome;
}

OpOutcome
nv_ready(char *reason, Size reason_size)
{
	sigset_t	mask;
	bool		ok;

	if (nv.lost)
	{
		strlcpy(reason, nv.lost_reason, reason_size);
		return OP_DEVICE_LOST;
	}
	if (nv.pid != 0 && nv.pid != MyProcPid)
	{
		strlcpy(reason, "CUDA was started by the parent process and does not survive a fork", reason_size);
		return OP_CANNOT;
	}

	/* another device was asked for, and nothing lives on this one */
	if (nv.pid != 0 && nv.settings->device >= 0 && nv.settings->device != nv.device &&
		nv.counters.device_bytes == 0)
		nv_stop();
	if (nv.pid != 0)
		return OP_DONE;

	nv_clear_fault();
	foreign_enter(&mask);
	ok = nv_start();
	foreign_leave(&mask);
	return ok ? OP_DONE : start_failed(reason, reason_size);
}

/* The frame of a kernel --------------------------------------------------- */

/* Has any tensor of the task more elements than the classic API can count? */
static bool
too_large(const TensorView *views, int count)
{
	for (int i = 0; i < count; i++)
		if (views[i].data != NULL && shape_numel(&views[i].shape) > NV_MAX_ELEMENTS)
			return true;
	return false;
}

OpOutcome
nv_begin(OpTask *task)
{
	OpOutcome	outcome = nv_ready(task->reason, sizeof(task->reason));

	if (outcome != OP_DONE)
		return outcome;
	if (too_large(task->in, OP_MAX_INPUTS) || too_large(task->out, OP_MAX_OUTPUTS))
	{
		strlcpy(task->reason, "a tensor has more than 2147483647 elements", sizeof(task->reason));
		return OP_CANNOT;
	}
	nv_clear_fault();
	foreign_enter(&call_mask);
	return OP_DONE;
}

OpOutcome
nv_end(OpTask *task, bool ok)
{
	mem_free_scratch(0);
	foreign_leave(&call_mask);
	return nv_outcome(ok, task->reason, sizeof(task->reason));
}

/* Elements and shapes ----------------------------------------------------- */

cudnnDataType_t
nv_type(DType dtype)
{
	static const cudnnDataType_t types[] = {
		[DT_FLOAT32] = CUDNN_DATA_FLOAT,
		[DT_FLOAT64] = CUDNN_DATA_DOUBLE,
		[DT_FLOAT16] = CUDNN_DATA_HALF,
		[DT_BFLOAT16] = CUDNN_DATA_BFLOAT16,
	};

	return types[dtype];
}

DType
nv_scalar_dtype(DType dtype)
{
	return dtype == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32;
}

const void *
nv_one(DType dtype)
{
	static const float one_float = 1;
	static const double one_double = 1;

	return dtype == DT_FLOAT64 ? (const void *) &one_double : &one_float;
}

bool
nv_tensor(int slot, DType dtype, TensorLayout layout, int rank, const int *dims)
{
	cudnnTensorFormat_t format = layout == LAYOUT_CHANNELS_LAST ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;

	return NV_DNN(cudnnSetTensorNdDescriptorEx(nv.tensor[slot], format, nv_type(dtype), rank, dims));
}

bool
nv_uses_tensor_cores(DType dtype)
{
	return dtype == DT_FLOAT32 ? nv.settings->allow_tf32 : dtype != DT_FLOAT64;
}

bool
nv_tensor_strided(int slot, DType dtype, int rank, const int *dims, const int *strides)
{
	return NV_DNN(cudnnSetTensorNdDescriptor(nv.tensor[slot], nv_type(dtype), rank, dims, strides));
}

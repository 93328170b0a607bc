/*
 * What went wrong in a call, and what that means: for the task, for the session,
 * or that we have a bug. Setting a fault never raises; nv_outcome does, when no
 * foreign frame is on the stack any more.
 */
#include "postgres.h"

#include "session.h"

void
nv_clear_fault(void)
{
	nv.fault.set = nv.fault.bug = false;
}

bool
nv_fault(OpOutcome outcome, const char *format,...)
{
	va_list		args;

	if (nv.fault.set)
		return false;
	nv.fault.set = true;
	nv.fault.outcome = outcome;
	va_start(args, format);
	vsnprintf(nv.fault.text, sizeof(nv.fault.text), format, args);
	va_end(args);
	return false;
}

/* A fault that our checks should have prevented. */
static bool
nv_bug(const char *text, const char *call, const char *detail)
{
	if (nv.fault.set)
		return false;
	nv_fault(OP_CANNOT, "%s", text);
	nv.fault.bug = true;
	snprintf(nv.fault.detail, sizeof(nv.fault.detail), "%.*s: %s",
			 (int) strcspn(call, "("), call, detail[0] != '\0' ? detail : text);
	return false;
}

/* Errors after which the context, and so this process, can use no GPU any more. */
bool
nv_check_lost(cudaError_t error)
{
	switch (error)
	{
		case cudaErrorECCUncorrectable:
		case cudaErrorNvlinkUncorrectable:
		case cudaErrorContained:
		case cudaErrorIllegalAddress:
		case cudaErrorLaunchTimeout:
		case cudaErrorContextIsDestroyed:
		case cudaErrorAssert:
		case cudaErrorHardwareStackError:
		case cudaErrorIllegalInstruction:
		case cudaErrorMisalignedAddress:
		case cudaErrorInvalidAddressSpace:
		case cudaErrorInvalidPc:
		case cudaErrorLaunchFailure:
		case cudaErrorTensorMemoryLeak:
		case cudaErrorMpsClientTerminated:
		case cudaErrorExternalDevice:
		case cudaErrorUnknown:
			break;
		default:
			return false;
	}
	if (!nv.lost)
		snprintf(nv.lost_reason, sizeof(nv.lost_reason), "device %d failed: %s",
				 nv.device, cudaGetErrorString(error));
	nv.lost = true;
	return true;
}

bool
nv_cuda(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return true;
	(void) cudaGetLastError();	/* an error that is not sticky is forgotten */
	if (nv_check_lost(error))
		return nv_fault(OP_DEVICE_LOST, "%s", nv.lost_reason);
	if (error == cudaErrorMemoryAllocation)
		return nv_fault(OP_NO_MEMORY, "the device has no memory left");
	return nv_bug("CUDA failed", call, cudaGetErrorString(error));
}

bool
nv_dnn(cudnnStatus_t status, const char *call)
{
	char		detail[512] = "";
	cudaError_t error;

	if (status == CUDNN_STATUS_SUCCESS)
		return true;
	cudnnGetLastErrorString(detail, sizeof(detail));
	error = cudaGetLastError();
	if (nv_check_lost(error))
		return nv_fault(OP_DEVICE_LOST, "%s", nv.lost_reason);
	if (error == cudaErrorMemoryAllocation ||
		status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
		status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED)
		return nv_fault(OP_NO_MEMORY, "cuDNN found no memory for its own use");
	if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED)
		return nv_fault(OP_CANNOT, "cuDNN does not support it: %s",
						detail[0] != '\0' ? detail : cudnnGetErrorString(status));
	return nv_bug(cudnnGetErrorString(status), call, detail);
}

OpOutcome
nv_outcome(bool ok, char *reason, Size reason_size)
{
	if (ok)
		return OP_DONE;
	if (nv.fault.bug)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("computation on the GPU failed: %s", nv.fault.text),
				 errdetail_internal("%s", nv.fault.detail)));
	strlcpy(reason, nv.fault.text, reason_size);
	return nv.fault.outcome;
}

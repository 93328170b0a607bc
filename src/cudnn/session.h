/*
 * What this backend holds of the GPU: device, stream, handle and the descriptors
 * that every call fills anew; and how a kernel runs between nv_begin and nv_end.
 *
 *		OpOutcome
 *		nv_something(OpTask *task)
 *		{
 *			OpOutcome	outcome = nv_begin(task);
 *
 *			if (outcome != OP_DONE)
 *				return outcome;
 *			return nv_end(task, NV_DNN(cudnnThis(...)) && NV_DNN(cudnnThat(...)));
 *		}
 *
 * In between all signals are blocked and nothing raises: what fails leaves a
 * fault (the first one counts) and false.
 */
#ifndef SESSION_H
#define SESSION_H

#include "cuda_api.h"
#include "provider.h"

#define NV_TENSORS 5			/* tensor descriptors that a call may need at once */
#define NV_MAX_ELEMENTS PG_INT32_MAX	/* the classic API counts in int */

/* Something failed, and what that means for the task. */
typedef struct NvFault
{
	bool		set;
	bool		bug;			/* our checks should have prevented it: raised */
	OpOutcome	outcome;		/* else */
	char		text[160];
	char		detail[512];	/* when a bug */
} NvFault;

typedef struct NvSession
{
	const Settings *settings;
	int			pid;			/* of the process that started; 0: not started */
	int			device;
	bool		lost;			/* sticky error: no call makes sense any more */
	char		lost_reason[160];
	cudaStream_t stream;
	cudaEvent_t event;			/* for waiting */
	cudaMemPool_t pool;
	cudnnHandle_t handle;
	cudnnBackendDescriptor_t properties;	/* of the device, for planning */
	cudnnTensorDescriptor_t tensor[NV_TENSORS];
	cudnnPoolingDescriptor_t pooling;
	cudnnActivationDescriptor_t activation;
	cudnnOpTensorDescriptor_t multiply[2];	/* in float, in double */
	ProviderCounters counters;
	NvFault		fault;
} NvSession;

extern NvSession nv;

/*
 * Starts what is not started yet. OP_DONE when the device can be used, else the
 * reason. Never throws.
 */
extern OpOutcome nv_ready(char *reason, Size reason_size);

/* OP_DONE: go on, and call nv_end whatever happens. */
extern OpOutcome nv_begin(OpTask *task);

/* Gives back the call's scratch memory; ERROR XX000 when the fault is a bug. */
extern OpOutcome nv_end(OpTask *task, bool ok);

/* What nv_end makes of `ok` and the fault, for work that is not a kernel. */
extern OpOutcome nv_outcome(bool ok, char *reason, Size reason_size);

/* Faults ------------------------------------------------------------------ */

/* True on success; else a fault is set. `call` is the source text of the call. */
extern bool nv_cuda(cudaError_t error, const char *call);
extern bool nv_dnn(cudnnStatus_t status, const char *call);

#define NV_CUDA(call) nv_cuda((call), #call)
#define NV_DNN(call) nv_dnn((call), #call)

extern void nv_clear_fault(void);

/* Sets a fault of that outcome; gives false. */
extern bool nv_fault(OpOutcome outcome, const char *format, ...) pg_attribute_printf(2, 3);

/* Remembers that the device is lost when the error is a sticky one. */
extern bool nv_check_lost(cudaError_t error);

/* Elements and shapes ------------------------------------------------------ */

extern cudnnDataType_t nv_type(DType dtype);

/* Type of alpha, beta, batch-norm parameters and of what is accumulated. */
extern DType nv_scalar_dtype(DType dtype);

/* Pointer to 1 in the type of scalars for tensors of dtype; zero is 0 in any type. */
extern const void *nv_one(DType dtype);
extern const double nv_zero;

/* Describes a packed tensor in descriptor `slot`; 4 or 5 axes. */
extern bool nv_tensor(int slot, DType dtype, TensorLayout layout, int rank, const int *dims);

/* Do convolutions of that type run on tensor cores, by the settings? */
extern bool nv_uses_tensor_cores(DType dtype);

/* Same with strides, for a part of a larger tensor. */
extern bool nv_tensor_strided(int slot, DType dtype, int rank, const int *dims, const int *strides);

#endif							/* SESSION_H */

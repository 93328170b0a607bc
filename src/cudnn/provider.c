/*
 * The cuDNN provider: what it can, whether it can be used here, and on which
 * devices. Answering that makes no device context.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "foreign.h"
#include "kernels.h"
#include "mem.h"
#include "plan.h"

extern PGDLLEXPORT const Provider *cudnn_ops_provider(const ProviderHost *host);

static const char *
nv_version(void)
{
	static char version[64];
	int			runtime = 0;
	size_t		cudnn = cudnnGetVersion();

	(void) cudaRuntimeGetVersion(&runtime);
	snprintf(version, sizeof(version), "cuDNN %zu.%zu.%zu, CUDA %d.%d",
			 cudnn / 10000, cudnn / 100 % 100, cudnn % 100, runtime / 1000, runtime % 1000 / 10);
	return version;
}

/* Driver and library, in the order in which they are found missing. */
static const char *
nv_probe(void)
{
	static char reason[256];
	int			driver = 0,
				runtime = 0,
				count = 0;
	size_t		cudnn = cudnnGetVersion();
	cudaError_t error;
	sigset_t	mask;

	if (IsPostmasterEnvironment && !IsUnderPostmaster)
		return "the postmaster must not start CUDA, which does not survive a fork";
	if (cudnn < NV_CUDNN_OLDEST || cudnn / 10000 != CUDNN_MAJOR)
	{
		snprintf(reason, sizeof(reason), "cuDNN %zu.%zu.%zu is installed, this provider needs 9.8 or a later 9",
				 cudnn / 10000, cudnn / 100 % 100, cudnn % 100);
		return reason;
	}

	foreign_enter(&mask);
	error = cudaDriverGetVersion(&driver);
	if (error == cudaSuccess && driver > 0)
		error = cudaGetDeviceCount(&count);
	(void) cudaRuntimeGetVersion(&runtime);
	(void) cudaGetLastError();
	foreign_leave(&mask);

	if (driver == 0)
		return "no CUDA driver";
	if (error == cudaErrorInsufficientDriver)
		snprintf(reason, sizeof(reason), "the CUDA driver is for CUDA %d.%d, the CUDA runtime is %d.%d",
				 driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
	else if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
		return "no CUDA device";
	else if (error != cudaSuccess)
		snprintf(reason, sizeof(reason), "CUDA cannot be used: %s", cudaGetErrorString(error));
	else
		return NULL;
	return reason;
}

/* Free memory is known only of the device in use: to ask makes a context. */
static int
nv_devices(ProviderDevice *list, int max)
{
	int			count = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess)
		count = 0;
	count = Min(count, max);
	for (int i = 0; i < count; i++)
	{
		struct cudaDeviceProp properties;
		size_t		available,
					total;

		memset(&properties, 0, sizeof(properties));
		(void) cudaGetDeviceProperties(&properties, i);
		list[i].device = i;
		strlcpy(list[i].name, properties.name, sizeof(list[i].name));
		list[i].major = properties.major;
		list[i].minor = properties.minor;
		list[i].total_bytes = properties.totalGlobalMem;
		list[i].free_bytes = -1;
		if (nv.pid == MyProcPid && i == nv.device && cudaMemGetInfo(&available, &total) == cudaSuccess)
			list[i].free_bytes = available;
	}
	(void) cudaGetLastError();
	return count;
}

/* Handle and stream stay: tensors may still be in use. */
static void
nv_release(void)
{
	sigset_t	mask;

	if (nv.pid != MyProcPid || nv.lost)
		return;
	foreign_enter(&mask);
	plan_forget_all();
	mem_stop();
	foreign_leave(&mask);
}

static const Provider provider = {
	.abi = PROVIDER_ABI,
	.pg_major = PG_VERSION_NUM / 100,
	.name = "cudnn",
	.probe = nv_probe,
	.version = nv_version,
	.devices = nv_devices,
	.release = nv_release,
	.memory = &nv_memory,
	.counters = &nv.counters,
	.ops = {
		[OP_CONV] = {nv_conv, DT_FLOATS, nv_conv_layout},
		[OP_CONV_BACKWARD_INPUT] = {nv_conv_backward_input, DT_FLOATS, nv_conv_layout},
		[OP_CONV_BACKWARD_WEIGHT] = {nv_conv_backward_weight, DT_FLOATS, nv_conv_layout},
		[OP_CONV_BACKWARD_BIAS] = {nv_conv_backward_bias, DT_FLOATS},
		[OP_POOL] = {nv_pool, DT_FLOATS, nv_pool_layout},
		[OP_POOL_BACKWARD] = {nv_pool_backward, DT_FLOATS},
		[OP_BATCH_NORM] = {nv_batch_norm, DT_FLOATS, nv_batch_norm_layout},
		[OP_BATCH_NORM_TRAIN] = {nv_batch_norm_train, DT_FLOATS},
		[OP_BATCH_NORM_BACKWARD] = {nv_batch_norm_backward, DT_FLOATS},
		[OP_ACTIVATION] = {nv_activation, DT_FLOATS, nv_activation_layout},
		[OP_COPY] = {nv_copy, DT_ALL},
	},
};

const Provider *
cudnn_ops_provider(const ProviderHost *host)
{
	nv.settings = host->settings;
	return &provider;
}

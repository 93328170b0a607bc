/*
 * The interface between operations and the libraries that compute them: THE
 * table of operations, their parameters, and what a provider is. A provider sees
 * checked arguments and allocated results; it never sees a Datum. Above this
 * header nobody sees a word of CUDA or oneDNN.
 */
#ifndef PROVIDER_H
#define PROVIDER_H

#include "shape.h"
#include "tensor.h"

#define PROVIDER_ABI 2

#define OP_MAX_INPUTS 5
#define OP_MAX_OUTPUTS 5

/* Operations ------------------------------------------------------------- */

/*
 * Tensors are written input -> output with their shapes; i.. and o.. are 1 to 3
 * spatial axes, k.. the window's; [b] may be absent (data == NULL). Unless said
 * otherwise every tensor has the type of the first input. Sizes of 0 never reach
 * a kernel, except that reference takes N = 0 where the result has elements.
 */
typedef enum OpId
{
	/* ConvParams: x (N,C,i..), w (O,C/g,k..), [b (O)] -> y (N,O,o..) */
	OP_CONV,
	/* ConvParams: dy (N,O,o..), w (O,C/g,k..), [b (C)] -> dx (N,C,i..) (+ b) */
	OP_CONV_BACKWARD_INPUT,
	/* ConvParams: dy (N,O,o..), x (N,C,i..) -> dw (O,C/g,k..) */
	OP_CONV_BACKWARD_WEIGHT,
	/* no parameters: dy (N,O,S) -> db (O) */
	OP_CONV_BACKWARD_BIAS,
	/* PoolParams: x (N,C,i..) -> y (N,C,o..) */
	OP_POOL,
	/* PoolParams: dy (N,C,o..), [x (N,C,i..), y (N,C,o..): max only] -> dx (N,C,i..) */
	OP_POOL_BACKWARD,
	/*
	 * NormParams: x (N,C,S), mean (C), var (C), [weight (C)], [bias (C)] ->
	 * y (N,C,S) = (x - mean) / sqrt(var + eps) * weight + bias. Parameters are
	 * float32 when x is of a half type. Per-activation is (N, C*H*W, 1).
	 */
	OP_BATCH_NORM,
	/*
	 * NormParams: x (N,C,S), [weight (C)], [bias (C)], [running_mean (C)],
	 * [running_var (C)] -> y, mean (C), invstd (C), [running_mean (C)],
	 * [running_var (C)]; running = (1 - momentum) * running + momentum * batch,
	 * the batch variance there with factor m / (m - 1), 1 when m = N * S = 1.
	 */
	OP_BATCH_NORM_TRAIN,
	/* NormParams: dy (N,C,S), x (N,C,S), [weight (C)], mean (C), invstd (C) -> dx, dweight (C), dbias (C) */
	OP_BATCH_NORM_BACKWARD,
	/* ActivationParams: x (M) -> y (M) */
	OP_ACTIVATION,
	/* no parameters: x (M) of any type -> y (M), the same elements */
	OP_COPY
} OpId;

#define OP_COUNT (OP_COPY + 1)

/* Parameters are zeroed before they are filled: they are cache keys too. */

typedef struct ConvParams
{
	Window		window;
	int64		groups;
} ConvParams;

typedef enum PoolMode
{
	POOL_MAX,					/* NaN wins, padding never does, first maximum takes the gradient */
	POOL_AVG_INCLUDE_PAD,		/* divisor: window clipped to input and padding */
	POOL_AVG_EXCLUDE_PAD		/* divisor: window clipped to input */
} PoolMode;

/*
 * With ceil_mode the last window may reach beyond the padding (the result's
 * shape tells): what lies there does not exist, it is not padding.
 */
typedef struct PoolParams
{
	Window		window;
	int64		mode;			/* PoolMode */
} PoolParams;

typedef struct NormParams
{
	double		eps;
	double		momentum;
} NormParams;

typedef enum ActivationKind
{
	ACTIVATION_RELU				/* max(x, 0); NaN stays */
} ActivationKind;

typedef struct ActivationParams
{
	int64		kind;			/* ActivationKind */
	double		alpha;
} ActivationParams;

/* One computation: what a kernel is given. */
typedef struct OpTask
{
	OpId		id;
	const void *params;
	TensorView	in[OP_MAX_INPUTS];
	TensorView	out[OP_MAX_OUTPUTS];
	TensorLayout layout;		/* on a device: of all that have channels and positions */
	char		reason[160];	/* why the outcome is not OP_DONE */
} OpTask;

typedef enum OpOutcome
{
	OP_DONE,
	OP_CANNOT,					/* not this type, size or option: the next provider may */
	OP_NO_MEMORY,				/* out of device memory, after trimming and retrying */
	OP_DEVICE_LOST				/* sticky device error: provider is dead for this session */
} OpOutcome;

/*
 * Computes a task, or leaves the reason it did not in task->reason. A status
 * that our checks should have prevented is ereport(ERROR) with XX000, when no
 * foreign frame is on the stack and signals are unblocked. Work may still be
 * under way on the device when it returns.
 */
typedef OpOutcome (*OpKernel) (OpTask *task);

/*
 * Layout in which a kernel wants a task, whose shapes and parameters are there and
 * whose layout is that of its first input; the core brings all tensors into it.
 * For results to be the same bits wherever the inputs were, it depends on where
 * they are only where the kernel gives the same bits in both layouts.
 */
typedef TensorLayout (*OpLayout) (const OpTask *task);

/* Providers -------------------------------------------------------------- */

/* In the order of preference of cudnn_ops.provider = auto. */
typedef enum ProviderId
{
	PROVIDER_CUDNN,
	PROVIDER_ONEDNN,
	PROVIDER_REFERENCE
} ProviderId;

#define PROVIDER_COUNT (PROVIDER_REFERENCE + 1)

/* The settings that change where and how fast, never what; the GUCs live here. */
typedef struct Settings
{
	int			provider;		/* ProviderId, or PROVIDER_AUTO */
	int			device;			/* -1: the one with most free memory */
	bool		allow_tf32;
	bool		deterministic;
	bool		autotune;
	int			workspace_limit_kb;
	int			plan_cache_size;
	int			device_memory_limit_kb; /* 0: none */
	int			threads;		/* 0: all usable cores */
} Settings;

#define PROVIDER_AUTO (-1)

/* What the core gives a provider when it loads it. */
typedef struct ProviderHost
{
	const Settings *settings;
} ProviderHost;

/* Kept by the provider, read by the core (the first four only ever grow). */
typedef struct ProviderCounters
{
	int64		plan_hits;
	int64		plan_misses;
	int64		bytes_to_device;
	int64		bytes_to_host;
	int64		device_bytes;	/* in device buffers now, workspace apart */
	int64		pinned_bytes;
	int64		workspace_bytes;
	int64		cached_plans;
} ProviderCounters;

typedef struct ProviderDevice
{
	int			device;
	char		name[256];
	int			major;			/* compute capability */
	int			minor;
	int64		total_bytes;
	int64		free_bytes;
} ProviderDevice;

/*
 * Where bytes that go up come from: puts bytes `offset` to `offset` + `size` of
 * them at dst, before which VARHDRSZ bytes are addressable. May throw.
 */
typedef void (*UploadSource) (const void *arg, char *dst, Size offset, Size size);

/*
 * Memory of a provider that computes elsewhere. alloc and upload say why they
 * did not in the caller's buffer. free never throws.
 * reorder copies a float tensor that has one layout into the other, or says why
 * it did not: the core can do without.
 * upload may return before the copy ends, but has read the source when it
 * returns; download waits for the work that precedes it, checking for
 * interrupts, and raises 38000 when the device is lost.
 */
typedef struct DeviceMemory
{
	OpOutcome	(*alloc) (void **device, Size size, char *reason, Size reason_size);
	void		(*free) (void *ptr, Size size);
	OpOutcome	(*upload) (void *device, UploadSource source, const void *arg, Size size,
						   char *reason, Size reason_size);
	OpOutcome	(*reorder) (void *to, const void *from, const TensorView *view, TensorLayout to_layout,
							char *reason, Size reason_size);
	void		(*download) (void *host, const void *device, Size size);
} DeviceMemory;

typedef struct OpSupport
{
	OpKernel	kernel;			/* NULL: cannot */
	uint32		dtypes;			/* DT_BIT set of the first input's type */
	OpLayout	layout;			/* NULL: C order */
} OpSupport;

typedef struct Provider
{
	int			abi;			/* PROVIDER_ABI; looked at before anything else */
	int			pg_major;		/* PG_VERSION_NUM / 100 */
	const char *name;

	/* Is it usable here? NULL, or why not. Makes no device context. */
	const char *(*probe) (void);
	/* Version of the library, e.g. "cuDNN 9.19.0"; called only after a good probe. */
	const char *(*version) (void);
	/* (optional) lists at most max devices; makes no context on any */
	int			(*devices) (ProviderDevice *list, int max);
	/* (optional) gives back caches, workspace and pooled memory; never throws */
	void		(*release) (void);

	const DeviceMemory *memory; /* NULL: tensors are in host memory */
	const ProviderCounters *counters;
	OpSupport	ops[OP_COUNT];
} Provider;

/* The one symbol of a provider's library. */
typedef const Provider *(*ProviderEntry) (const ProviderHost *host);
#define PROVIDER_ENTRY "cudnn_ops_provider"

/* Choosing (core only) --------------------------------------------------- */

extern const char *const provider_names[PROVIDER_COUNT];

typedef struct OpInfo
{
	const char *name;			/* in cudnn_ops_stats() and error contexts */
	void		(*describe) (StringInfo buf, const void *params);	/* (optional) options, for error contexts */
} OpInfo;

extern const OpInfo op_info[OP_COUNT];

/* The provider, loading it on first use; NULL when not usable, with the reason. */
extern const Provider *provider_get(ProviderId id, const char **reason);

/* From now on the provider is not usable in this session. */
extern void provider_mark_dead(ProviderId id, const char *reason);

/* Already loaded and usable, else NULL: loads nothing. */
extern const Provider *provider_loaded(ProviderId id);

/* Is a provider with memory of its own loaded and usable? */
extern bool provider_device_loaded(void);

extern const Provider *reference_provider(const ProviderHost *host);

#endif							/* PROVIDER_H */

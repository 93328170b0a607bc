/* The reference provider's table, and how elements come in and go out. */
#include "postgres.h"

#include "utils/memutils.h"

#include "half.h"
#include "ref.h"

static void *
alloc(const TensorView *view, int flags)
{
	Size		size = Max(shape_numel(&view->shape), 1) * sizeof(double);

	return MemoryContextAllocExtended(CurrentMemoryContext, size, MCXT_ALLOC_HUGE | flags);
}

const double *
ref_load(const TensorView *view)
{
	int64		n = shape_numel(&view->shape);
	double	   *values;

	if (view->data == NULL || view->dtype == DT_FLOAT64)
		return view->data;
	values = alloc(view, 0);
	if (view->dtype == DT_FLOAT32)
		for (int64 i = 0; i < n; i++)
			values[i] = ((const float *) view->data)[i];
	else
		for (int64 i = 0; i < n; i++)
			values[i] = tensor_get_double(view, i);
	return values;
}

double *
ref_result(const TensorView *view)
{
	return view->data == NULL ? NULL : alloc(view, MCXT_ALLOC_ZERO);
}

void
ref_store(const TensorView *view, const double *values)
{
	int64		n = shape_numel(&view->shape);

	if (view->data == NULL)
		return;
	if (view->dtype == DT_FLOAT32)
		for (int64 i = 0; i < n; i++)
			((float *) view->data)[i] = values[i];
	else
		for (int64 i = 0; i < n; i++)
			tensor_set_double(view, i, values[i]);
}

void
ref_window(RefWindow *r, const Window *w, const TensorShape *in, const TensorShape *out)
{
	int			missing = MAX_SPATIAL - w->nd;

	memset(r, 0, sizeof(*r));
	r->w.nd = MAX_SPATIAL;
	r->in_size = r->out_size = r->kernel_size = 1;
	for (int i = 0; i < MAX_SPATIAL; i++)
	{
		int			from = i - missing;

		r->w.kernel[i] = from < 0 ? 1 : w->kernel[from];
		r->w.stride[i] = from < 0 ? 1 : w->stride[from];
		r->w.dilation[i] = from < 0 ? 1 : w->dilation[from];
		r->w.pad_begin[i] = from < 0 ? 0 : w->pad_begin[from];
		r->w.pad_end[i] = from < 0 ? 0 : w->pad_end[from];
		r->in[i] = from < 0 ? 1 : in->dims[2 + from];
		r->out[i] = from < 0 ? 1 : out->dims[2 + from];
		r->in_size *= r->in[i];
		r->out_size *= r->out[i];
		r->kernel_size *= r->w.kernel[i];
	}
}

/* The one operation that is no arithmetic. */
static void
ref_copy(OpTask *task)
{
	const TensorView *x = &task->in[0];

	memcpy(task->out[0].data, x->data, tensor_payload_size(x->dtype, &x->shape));
}

typedef void (*RefKernel) (OpTask *task);

static const RefKernel kernels[] = {
	[OP_CONV] = ref_conv,
	[OP_CONV_BACKWARD_INPUT] = ref_conv_backward_input,
	[OP_CONV_BACKWARD_WEIGHT] = ref_conv_backward_weight,
	[OP_CONV_BACKWARD_BIAS] = ref_conv_backward_bias,
	[OP_POOL] = ref_pool,
	[OP_POOL_BACKWARD] = ref_pool_backward,
	[OP_BATCH_NORM] = ref_batch_norm,
	[OP_BATCH_NORM_TRAIN] = ref_batch_norm_train,
	[OP_BATCH_NORM_BACKWARD] = ref_batch_norm_backward,
	[OP_ACTIVATION] = ref_activation,
	[OP_COPY] = ref_copy,
};

StaticAssertDecl(lengthof(kernels) == OP_COUNT, "reference has every operation");

static OpOutcome
ref_run(OpTask *task)
{
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "cudnn_ops reference",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(scratch);

	kernels[task->id] (task);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(scratch);
	return OP_DONE;
}

static const char *
ref_probe(void)
{
	return NULL;
}

static const char *
ref_version(void)
{
	return "plain C";
}

const Provider *
reference_provider(const ProviderHost *host)
{
	static const ProviderCounters counters;
	static Provider provider = {
		.abi = PROVIDER_ABI,
		.pg_major = PG_VERSION_NUM / 100,
		.name = "reference",
		.probe = ref_probe,
		.version = ref_version,
		.counters = &counters,
	};

	for (int op = 0; op < OP_COUNT; op++)
		provider.ops[op] = (OpSupport) {ref_run, op == OP_COPY ? DT_ALL : DT_FLOATS};
	return &provider;
}

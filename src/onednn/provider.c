/* The oneDNN provider: what it can, on this CPU. */
#include "postgres.h"

#include "foreign.h"
#include "kernels.h"
#include "plan.h"

extern PGDLLEXPORT const Provider *cudnn_ops_provider(const ProviderHost *host);

/* Half of it is decided by the CPU: a type it lacks is found when a plan is made. */
#define DN_FLOATS (DT_BIT(DT_FLOAT32) | DT_BIT(DT_BFLOAT16))

static const char *
dn_version(void)
{
	static char version[64];
	const dnnl_version_t *v = dnnl_version();

	snprintf(version, sizeof(version), "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
	return version;
}

static const char *
dn_probe(void)
{
	static char reason[128];

	if (dnnl_version()->major == DNNL_VERSION_MAJOR)
		return NULL;
	snprintf(reason, sizeof(reason), "%s is installed, this provider was built for %d",
			 dn_version(), DNNL_VERSION_MAJOR);
	return reason;
}

static void
dn_release(void)
{
	sigset_t	mask;

	foreign_enter(&mask);
	dn_forget_plans();
	dn_free_scratch();
	foreign_leave(&mask);
}

static const Provider provider = {
	.abi = PROVIDER_ABI,
	.pg_major = PG_VERSION_NUM / 100,
	.name = "onednn",
	.probe = dn_probe,
	.version = dn_version,
	.release = dn_release,
	.counters = &dn.counters,
	.ops = {
		[OP_CONV] = {dn_conv, DN_FLOATS},
		[OP_CONV_BACKWARD_INPUT] = {dn_conv_backward_input, DN_FLOATS},
		[OP_CONV_BACKWARD_WEIGHT] = {dn_conv_backward_weight, DN_FLOATS},
		[OP_CONV_BACKWARD_BIAS] = {dn_conv_backward_bias, DN_FLOATS},
		[OP_POOL] = {dn_pool, DN_FLOATS},
		[OP_POOL_BACKWARD] = {dn_pool_backward, DN_FLOATS},
		[OP_BATCH_NORM] = {dn_batch_norm, DN_FLOATS},
		[OP_BATCH_NORM_TRAIN] = {dn_batch_norm_train, DN_FLOATS},
		[OP_BATCH_NORM_BACKWARD] = {dn_batch_norm_backward, DN_FLOATS},
		[OP_ACTIVATION] = {dn_activation, DN_FLOATS},
		[OP_COPY] = {dn_copy, DT_ALL},
	},
};

const Provider *
cudnn_ops_provider(const ProviderHost *host)
{
	dn.settings = host->settings;
	return &provider;
}

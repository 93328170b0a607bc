/*
 * Choosing and loading providers. A provider's library is opened the first time
 * it is wanted, from the folder of this library, with its symbols kept local:
 * two libraries' globals must not interpose. A provider is untried, failed (with
 * the reason, for the rest of the session) or loaded.
 */
#include "postgres.h"

#include <dlfcn.h>

#include "miscadmin.h"

#include "foreign.h"
#include "guc.h"
#include "provider.h"

const char *const provider_names[PROVIDER_COUNT] = {
	[PROVIDER_CUDNN] = "cudnn",
	[PROVIDER_ONEDNN] = "onednn",
	[PROVIDER_REFERENCE] = "reference",
};

typedef enum ProviderState
{
	UNTRIED,
	FAILED,
	LOADED
} ProviderState;

typedef struct ProviderSlot
{
	ProviderState state;
	const Provider *provider;
	char		reason[512];	/* when FAILED */
} ProviderSlot;

static ProviderSlot slots[PROVIDER_COUNT];

static const ProviderHost host = {.settings = &settings};

/* The operations ---------------------------------------------------------- */

static void
append_list(StringInfo buf, const char *name, const int64 *values, int n)
{
	TensorShape list = {.rank = n};

	memcpy(list.dims, values, n * sizeof(*values));
	appendStringInfo(buf, " %s ", name);
	shape_append(buf, &list);
}

/* " stride {1,1} padding {0,0,0,0} dilation {1,1}" */
static void
window_describe(StringInfo buf, const Window *window)
{
	int64		padding[2 * MAX_SPATIAL];
	int			nd = window->nd;

	memcpy(padding, window->pad_begin, nd * sizeof(*padding));
	memcpy(padding + nd, window->pad_end, nd * sizeof(*padding));
	append_list(buf, "stride", window->stride, nd);
	append_list(buf, "padding", padding, 2 * nd);
	append_list(buf, "dilation", window->dilation, nd);
}

static void
conv_describe(StringInfo buf, const void *params)
{
	const ConvParams *p = params;

	window_describe(buf, &p->window);
	appendStringInfo(buf, " groups " INT64_FORMAT, p->groups);
}

static void
pool_describe(StringInfo buf, const void *params)
{
	static const char *const modes[] = {"max", "avg, padding counted", "avg, padding not counted"};
	const PoolParams *p = params;

	appendStringInfo(buf, " %s,", modes[p->mode]);
	append_list(buf, "kernel", p->window.kernel, p->window.nd);
	window_describe(buf, &p->window);
}

static void
norm_describe(StringInfo buf, const void *params)
{
	const NormParams *p = params;

	appendStringInfo(buf, " eps %g momentum %g", p->eps, p->momentum);
}

static void
activation_describe(StringInfo buf, const void *params)
{
	static const char *const kinds[] = {[ACTIVATION_RELU] = "relu"};
	const ActivationParams *p = params;

	appendStringInfo(buf, " %s alpha %g", kinds[p->kind], p->alpha);
}

const OpInfo op_info[] = {
	[OP_CONV] = {"conv", conv_describe},
	[OP_CONV_BACKWARD_INPUT] = {"conv_backward_input", conv_describe},
	[OP_CONV_BACKWARD_WEIGHT] = {"conv_backward_weight", conv_describe},
	[OP_CONV_BACKWARD_BIAS] = {"conv_backward_bias", NULL},
	[OP_POOL] = {"pool", pool_describe},
	[OP_POOL_BACKWARD] = {"pool_backward", pool_describe},
	[OP_BATCH_NORM] = {"batch_norm", norm_describe},
	[OP_BATCH_NORM_TRAIN] = {"batch_norm_train", norm_describe},
	[OP_BATCH_NORM_BACKWARD] = {"batch_norm_backward", norm_describe},
	[OP_ACTIVATION] = {"activation", activation_describe},
	[OP_COPY] = {"copy", NULL},
};

StaticAssertDecl(lengthof(op_info) == OP_COUNT, "op_info needs a row for each operation");

/* Loading ----------------------------------------------------------------- */

/* Opens the provider's library; NULL with the reason. Never throws. */
static const Provider *
provider_open(ProviderId id, char *reason, Size reason_size)
{
	char		path[MAXPGPATH];
	Dl_info		self;
	void	   *library;
	ProviderEntry entry;
	const Provider *provider;
	const char *why;
	sigset_t	mask;

	if (!dladdr(&slots, &self))
	{
		snprintf(reason, reason_size, "the directory of the core library is unknown");
		return NULL;
	}
	strlcpy(path, self.dli_fname, sizeof(path));
	get_parent_directory(path);
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "/cudnn_ops_%s%s",
			 provider_names[id], DLSUFFIX);

	/* libraries start threads in their constructors */
	foreign_enter(&mask);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	foreign_leave(&mask);
	if (library == NULL)
	{
		strlcpy(reason, dlerror(), reason_size);
		return NULL;
	}

	entry = (ProviderEntry) dlsym(library, PROVIDER_ENTRY);
	provider = entry == NULL ? NULL : entry(&host);
	if (provider == NULL)
		snprintf(reason, reason_size, "\"%s\" is not a provider", path);
	else if (provider->abi != PROVIDER_ABI)
		snprintf(reason, reason_size, "\"%s\" has provider ABI %d, this library wants %d",
				 path, provider->abi, PROVIDER_ABI);
	else if (provider->pg_major != PG_VERSION_NUM / 100)
		snprintf(reason, reason_size, "\"%s\" was built for PostgreSQL version number %d, this server has %d",
				 path, provider->pg_major, PG_VERSION_NUM / 100);
	else if ((why = provider->probe()) != NULL)
		strlcpy(reason, why, reason_size);
	else
		return provider;

	dlclose(library);
	return NULL;
}

const Provider *
provider_get(ProviderId id, const char **reason)
{
	ProviderSlot *slot = &slots[id];

	if (slot->state == UNTRIED)
	{
		slot->provider = id == PROVIDER_REFERENCE ? reference_provider(&host) :
			provider_open(id, slot->reason, sizeof(slot->reason));
		slot->state = slot->provider != NULL ? LOADED : FAILED;
	}
	if (slot->state == LOADED)
		return slot->provider;
	*reason = slot->reason;
	return NULL;
}

const Provider *
provider_loaded(ProviderId id)
{
	return slots[id].state == LOADED ? slots[id].provider : NULL;
}

bool
provider_device_loaded(void)
{
	for (int id = 0; id < PROVIDER_COUNT; id++)
		if (slots[id].state == LOADED && slots[id].provider->memory != NULL)
			return true;
	return false;
}

void
provider_mark_dead(ProviderId id, const char *reason)
{
	slots[id].state = FAILED;
	strlcpy(slots[id].reason, reason, sizeof(slots[id].reason));
}

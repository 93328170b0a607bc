/* The settings, cudnn_ops.*: they change where and how fast, never what. */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "compat.h"
#include "guc.h"

Settings	settings = {.provider = PROVIDER_AUTO, .device = -1, .deterministic = true};

static const struct config_enum_entry provider_options[] = {
	{"auto", PROVIDER_AUTO, false},
	{"cudnn", PROVIDER_CUDNN, false},
	{"onednn", PROVIDER_ONEDNN, false},
	{"reference", PROVIDER_REFERENCE, false},
	{NULL, 0, false}
};

/* Defines every setting and reserves the prefix. */
void
guc_init(void)
{
	DefineCustomEnumVariable("cudnn_ops.provider",
							 "Library that computes: auto takes the first usable of cudnn, onednn, reference.",
							 "A named provider never falls back to another one.",
							 &settings.provider, PROVIDER_AUTO, provider_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("cudnn_ops.device",
							"GPU to use, as cudnn_ops_devices() numbers them; -1 takes the one with most free memory.",
							"Read when the session first uses the GPU.",
							&settings.device, -1, -1, 1023,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("cudnn_ops.allow_tf32",
							 "Allows TF32 tensor cores for float32: faster, 10 bits of mantissa.",
							 NULL,
							 &settings.allow_tf32, false,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("cudnn_ops.deterministic",
							 "Takes only algorithms that give the same bits every time.",
							 NULL,
							 &settings.deterministic, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("cudnn_ops.autotune",
							 "Times the candidate plans of a new shape and keeps the fastest.",
							 NULL,
							 &settings.autotune, false,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("cudnn_ops.workspace_limit",
							"Largest scratch memory that one operation may take on the device.",
							NULL,
							&settings.workspace_limit_kb, 256 * 1024, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("cudnn_ops.plan_cache_size",
							"Prepared operations that a session keeps for each provider.",
							NULL,
							&settings.plan_cache_size, 256, 1, 1 << 20,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("cudnn_ops.device_memory_limit",
							"Device memory that a session may hold in tensors and scratch memory; 0 sets no limit.",
							NULL,
							&settings.device_memory_limit_kb, 0, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("cudnn_ops.threads",
							"Threads of the CPU provider; 0 takes all usable cores.",
							NULL,
							&settings.threads, 0, 0, 1024,
							PGC_USERSET, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("cudnn_ops");
}

/*
 * Introspection: what is here, what it did in this session and what it holds.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "guc.h"
#include "resident.h"
#include "stats.h"

#define CUDNN_OPS_VERSION "1.0.0"

/* Adds a row to the set that this function returns. */
#define put_row(fcinfo, values, nulls) \
	tuplestore_putvalues(((ReturnSetInfo *) (fcinfo)->resultinfo)->setResult, \
						 ((ReturnSetInfo *) (fcinfo)->resultinfo)->setDesc, values, nulls)

/* cudnn_ops_version() */
PG_FUNCTION_INFO_V1(cudnn_ops_version);
Datum
cudnn_ops_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(CUDNN_OPS_VERSION));
}

/*
 * cudnn_ops_providers(): name, available, version, device, reason. Loads every
 * provider, as auto would; makes no device context.
 */
PG_FUNCTION_INFO_V1(cudnn_ops_providers);
Datum
cudnn_ops_providers(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	for (int id = 0; id < PROVIDER_COUNT; id++)
	{
		const char *reason = NULL;
		const Provider *provider = provider_get(id, &reason);
		ProviderDevice device;
		Datum		values[5] = {CStringGetTextDatum(provider_names[id]), BoolGetDatum(provider != NULL)};
		bool		nulls[5] = {false, false, true, true, true};

		if (provider != NULL)
		{
			values[2] = CStringGetTextDatum(provider->version());
			nulls[2] = false;
			if (provider->devices != NULL && provider->devices(&device, 1) > 0)
			{
				values[3] = CStringGetTextDatum(device.name);
				nulls[3] = false;
			}
		}
		else
		{
			values[4] = CStringGetTextDatum(reason);
			nulls[4] = false;
		}
		put_row(fcinfo, values, nulls);
	}
	return (Datum) 0;
}

/*
 * cudnn_ops_devices(): device, name, compute_capability, total_bytes,
 * free_bytes (NULL where only a context on the device could tell).
 */
PG_FUNCTION_INFO_V1(cudnn_ops_devices);
Datum
cudnn_ops_devices(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	for (int id = 0; id < PROVIDER_COUNT; id++)
	{
		const char *reason;
		const Provider *provider = provider_get(id, &reason);
		ProviderDevice list[64];
		int			n = provider != NULL && provider->devices != NULL ?
			provider->devices(list, lengthof(list)) : 0;

		for (int i = 0; i < n; i++)
		{
			Datum		values[5];
			bool		nulls[5] = {false};

			values[0] = Int32GetDatum(list[i].device);
			values[1] = CStringGetTextDatum(list[i].name);
			values[2] = CStringGetTextDatum(psprintf("%d.%d", list[i].major, list[i].minor));
			values[3] = Int64GetDatum(list[i].total_bytes);
			values[4] = Int64GetDatum(list[i].free_bytes);
			nulls[4] = list[i].free_bytes < 0;
			put_row(fcinfo, values, nulls);
		}
	}
	return (Datum) 0;
}

/* cudnn_ops_stats(): a row an operation and provider that was used in this session. */
PG_FUNCTION_INFO_V1(cudnn_ops_stats);
Datum
cudnn_ops_stats(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	for (int op = 0; op < OP_COUNT; op++)
		for (int id = 0; id < PROVIDER_COUNT; id++)
		{
			const OpStats *s = &op_stats[op][id];
			Datum		values[10];
			bool		nulls[10] = {false};

			if (s->calls == 0 && s->fallbacks == 0)
				continue;
			values[0] = CStringGetTextDatum(op_info[op].name);
			values[1] = CStringGetTextDatum(provider_names[id]);
			values[2] = Int64GetDatum(s->calls);
			values[3] = Float8GetDatum(s->total_ms);
			values[4] = Int64GetDatum(s->bytes_to_device);
			values[5] = Int64GetDatum(s->bytes_to_host);
			values[6] = Int64GetDatum(s->plan_hits);
			values[7] = Int64GetDatum(s->plan_misses);
			values[8] = Int64GetDatum(s->fallbacks);
			values[9] = CStringGetTextDatum(s->last_fallback_reason);
			nulls[9] = s->fallbacks == 0;
			put_row(fcinfo, values, nulls);
		}
	return (Datum) 0;
}

/* cudnn_ops_stats_reset() */
PG_FUNCTION_INFO_V1(cudnn_ops_stats_reset);
Datum
cudnn_ops_stats_reset(PG_FUNCTION_ARGS)
{
	stats_reset();
	PG_RETURN_VOID();
}

/*
 * cudnn_ops_memory(): live_tensors, device_bytes, pinned_bytes, workspace_bytes,
 * cached_plans of this session, over the providers it has loaded.
 */
PG_FUNCTION_INFO_V1(cudnn_ops_memory);
Datum
cudnn_ops_memory(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	ProviderCounters sum = {0};
	Datum		values[5];
	bool		nulls[5] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	for (int id = 0; id < PROVIDER_COUNT; id++)
	{
		const Provider *provider = provider_loaded(id);

		if (provider == NULL)
			continue;
		sum.device_bytes += provider->counters->device_bytes;
		sum.pinned_bytes += provider->counters->pinned_bytes;
		sum.workspace_bytes += provider->counters->workspace_bytes;
		sum.cached_plans += provider->counters->cached_plans;
	}
	values[0] = Int64GetDatum(resident_live());
	values[1] = Int64GetDatum(sum.device_bytes);
	values[2] = Int64GetDatum(sum.pinned_bytes);
	values[3] = Int64GetDatum(sum.workspace_bytes);
	values[4] = Int64GetDatum(sum.cached_plans);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/* cudnn_ops_release(): gives back caches, workspace and pooled memory; live tensors stay. */
PG_FUNCTION_INFO_V1(cudnn_ops_release);
Datum
cudnn_ops_release(PG_FUNCTION_ARGS)
{
	for (int id = 0; id < PROVIDER_COUNT; id++)
	{
		const Provider *provider = provider_loaded(id);

		if (provider != NULL && provider->release != NULL)
			provider->release();
	}
	tensor_release_heap();
	PG_RETURN_VOID();
}

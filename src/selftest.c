/*
 * cudnn_ops_selftest(): runs random problems on the provider in force and
 * compares each with the reference provider's float64 answer. The problems come
 * from selftest_draw.c, as SQL, so that the worst one can be run again by hand.
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "compat.h"
#include "guc.h"
#include "op.h"
#include "selftest.h"
#include "stats.h"

static const DType tested_types[] = {DT_FLOAT32, DT_FLOAT64, DT_FLOAT16, DT_BFLOAT16};

/* One operation and type. */
typedef struct Verdict
{
	int64		problems;		/* that the provider took */
	double		worst_error;
	bool		passed;
	bool		used[PROVIDER_COUNT];	/* who computed */
	StringInfoData reproducer;	/* of the worst */
} Verdict;

/* Largest ||out - exact|| / ||exact|| that passes. */
static double
tolerance(DType dtype)
{
	if (dtype == DT_FLOAT64)
		return 1e-13;
	if (dtype == DT_FLOAT32)
		return settings.allow_tf32 ? 1e-3 : 1e-6;
	return 1e-2;
}

/* ||a - b|| / ||b||; infinite when shapes differ or an element is NaN. */
static double
relative_error(const TensorView *a, const TensorView *b)
{
	int64		n = shape_numel(&b->shape);
	double		difference = 0,
				norm = 0;

	if (!shape_equal(&a->shape, &b->shape))
		return INFINITY;
	for (int64 i = 0; i < n; i++)
	{
		double		x = tensor_get_double(a, i);
		double		y = tensor_get_double(b, i);

		difference += (x - y) * (x - y);
		norm += y * y;
	}
	if (isnan(difference) || isnan(norm))
		return INFINITY;
	return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

/*
 * Evaluates the expression under a provider (NULL: the one in force) to a tensor
 * in the current memory context. The SPI connection is the caller's.
 */
static void
evaluate(const char *expression, const char *provider, TensorView *view)
{
	MemoryContext result_cxt = CurrentMemoryContext;
	int			nest = NewGUCNestLevel();
	char	   *query = psprintf("SELECT %s", expression);
	bool		isnull;
	Datum		value;

	if (provider != NULL)
		(void) set_config_option("cudnn_ops.provider", provider, PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	if (SPI_execute(query, true, 1) != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "no answer to %s", query);
	value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	if (isnull)
		elog(ERROR, "NULL from %s", query);
	MemoryContextSwitchTo(result_cxt);
	tensor_view_flat(DatumGetByteaPCopy(value), view);
	SPI_freetuptable(SPI_tuptable);
	AtEOXact_GUC(true, nest);
}

/*
 * Runs a problem on the provider in force; false when that does not do such a
 * problem (0A000). Other errors pass through.
 */
static bool
try_problem(const Problem *problem, TensorView *got)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool taken = true;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		evaluate(problem->run.data, NULL, got);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(cxt);
		edata = CopyErrorData();
		RollbackAndReleaseCurrentSubTransaction();
		if (edata->sqlerrcode != ERRCODE_FEATURE_NOT_SUPPORTED)
		{
			edata->context = psprintf("%s%sself-test problem: SELECT %s",
									  edata->context ? edata->context : "", edata->context ? "\n" : "",
									  problem->run.data);
			ReThrowError(edata);
		}
		FlushErrorState();
		taken = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	return taken;
}

/* Calls that each provider has completed in this session. */
static void
count_calls(int64 *calls)
{
	memset(calls, 0, PROVIDER_COUNT * sizeof(int64));
	for (int op = 0; op < OP_COUNT; op++)
		for (int id = 0; id < PROVIDER_COUNT; id++)
			calls[id] += op_stats[op][id].calls;
}

/* Draws and runs n problems of a family and type. */
static void
run_family(const ProblemFamily *family, DType dtype, int n, uint64 seed, Verdict *verdict)
{
	MemoryContext outer = CurrentMemoryContext;
	MemoryContext scratch = AllocSetContextCreate(outer, "cudnn_ops self-test", ALLOCSET_DEFAULT_SIZES);

	for (int i = 0; i < n; i++)
	{
		Problem		problem = {.dtype = dtype, .state = seed + (uint64) i * UINT64CONST(0xD1342543DE82EF95)};
		TensorView	exact,
					got;
		int64		before[PROVIDER_COUNT],
					after[PROVIDER_COUNT];

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(scratch);
		initStringInfo(&problem.run);
		initStringInfo(&problem.exact);
		family->draw(&problem, family->variant);
		evaluate(problem.exact.data, "reference", &exact);
		count_calls(before);
		if (try_problem(&problem, &got))
		{
			double		error = relative_error(&got, &exact);

			count_calls(after);
			for (int id = 0; id < PROVIDER_COUNT; id++)
				verdict->used[id] |= after[id] > before[id];
			verdict->problems++;
			if (error > verdict->worst_error || verdict->reproducer.len == 0)
			{
				verdict->worst_error = error;
				resetStringInfo(&verdict->reproducer);
				appendStringInfo(&verdict->reproducer, "SELECT %s", problem.run.data);
			}
			if (error > tolerance(dtype))
				verdict->passed = false;
		}
		MemoryContextSwitchTo(outer);
		MemoryContextReset(scratch);
	}
	MemoryContextDelete(scratch);
}

/* The providers that computed, as text. */
static char *
used_providers(const Verdict *verdict)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int id = 0; id < PROVIDER_COUNT; id++)
		if (verdict->used[id])
			appendStringInfo(&buf, "%s%s", buf.len > 0 ? ", " : "", provider_names[id]);
	return buf.data;
}

static void
put_verdict(FunctionCallInfo fcinfo, const char *op, DType dtype, const Verdict *verdict)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		none = verdict->problems == 0;
	Datum		values[7];
	bool		nulls[7] = {false, false, none, false, none, none, none};

	values[0] = CStringGetTextDatum(op);
	values[1] = CStringGetTextDatum(dtype_info[dtype].name);
	values[2] = CStringGetTextDatum(used_providers(verdict));
	values[3] = Int64GetDatum(verdict->problems);
	values[4] = Float8GetDatum(verdict->worst_error);
	values[5] = BoolGetDatum(verdict->passed);
	values[6] = CStringGetTextDatum(verdict->reproducer.data);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * cudnn_ops_selftest(op, n, seed): op, dtype, provider, problems, worst_error,
 * passed, reproducer; a row an operation and type. Problems that a named
 * provider does not do (0A000) are left out; where that leaves none, passed is
 * NULL. ERROR 22023 for an unknown operation or a negative n.
 */
PG_FUNCTION_INFO_V1(cudnn_ops_selftest);
Datum
cudnn_ops_selftest(PG_FUNCTION_ARGS)
{
	char	   *only = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	int			n = arg_int(fcinfo, 1, 100);
	int64		seed = PG_ARGISNULL(2) ? 1 : PG_GETARG_INT64(2);
	bool		known = only == NULL;

	if (n < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of problems must not be negative, but is %d", n)));
	InitMaterializedSRF(fcinfo, 0);
	SPI_connect();
	for (int f = 0; f < problem_family_count; f++)
	{
		const ProblemFamily *family = &problem_families[f];

		if (only != NULL && strcmp(only, family->name) != 0)
			continue;
		known = true;
		for (int t = 0; t < lengthof(tested_types); t++)
		{
			Verdict		verdict = {.passed = true};

			initStringInfo(&verdict.reproducer);
			run_family(family, tested_types[t], n, (uint64) seed * 1000003 + f, &verdict);
			put_verdict(fcinfo, family->name, tested_types[t], &verdict);
		}
	}
	SPI_finish();
	if (!known)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown operation \"%s\"", only),
				 errhint("SELECT DISTINCT op FROM cudnn_ops_selftest(NULL, 0) lists the operations.")));
	return (Datum) 0;
}

/*
 * Batch normalization: inference, training and gradient. The shape of the
 * parameters says whether statistics are taken over batch and space (one a
 * channel) or over the batch alone (one an activation); a kernel sees both as
 * (N, C, S), the latter with S = 1.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"

#include "op.h"

typedef struct NormLayout
{
	DType		param_dtype;	/* float32 for half types, else the input's */
	TensorShape input;			/* as given */
	TensorShape param;			/* of the first parameter given, else (C) */
	const char *param_name;		/* NULL while none was given */
	TensorShape merged;			/* (N, C, S), what kernels see */
} NormLayout;

/* The input: a float type, (N, C) and up to three spatial axes. */
static void
norm_check_input(const char *name, const TensorView *x, NormLayout *layout)
{
	check_float(name, x);
	check_spatial_rank(name, x, 2);
	check_not_empty(name, &x->shape, 1);

	layout->param_dtype = x->dtype == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32;
	layout->input = x->shape;
	layout->param = (TensorShape) {1, {x->shape.dims[1]}};
	layout->param_name = NULL;
	layout->merged = x->shape;
	merge_spatial(&layout->merged);
}

/*
 * Is `param` (a, b, ..) with a leading 1 or without it, where x is (N, a, b, ..)
 * and, when spatial, all but the first are 1 or left out?
 */
static bool
param_fits(const TensorShape *param, const TensorShape *x, bool spatial)
{
	int			skip = param->rank == x->rank && param->dims[0] == 1 ? 1 : 0;
	int			n = param->rank - skip;

	if (spatial && n == 1 && skip == 0)
		return param->dims[0] == x->dims[1];
	if (n != x->rank - 1)
		return false;
	for (int i = 0; i < n; i++)
		if (param->dims[skip + i] != (spatial && i > 0 ? 1 : x->dims[1 + i]))
			return false;
	return true;
}

/*
 * A parameter or statistic: its type and, for the first one given, which mode
 * its shape asks for; later ones must have as many elements. The view becomes
 * (C), as kernels see it. Nothing happens when it was not given.
 */
static void
norm_check_param(const char *name, TensorView *param, NormLayout *layout)
{
	const TensorShape *x = &layout->input;

	if (param == NULL)
		return;
	if (param->dtype != layout->param_dtype)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("%s must be %s, not %s", name,
						dtype_info[layout->param_dtype].name, dtype_info[param->dtype].name),
				 errdetail("Parameters have the type of the input, float32 for half types.")));

	if (layout->param_name == NULL)
	{
		if (param_fits(&param->shape, x, true))
			 /* one a channel */ ;
		else if (param_fits(&param->shape, x, false))
		{
			layout->merged.dims[1] *= layout->merged.dims[2];
			layout->merged.dims[2] = 1;
		}
		else
			ereport(ERROR,
					(errcode(ERRCODE_DATA_EXCEPTION),
					 errmsg("shape of %s does not fit the input", name),
					 errdetail("The shape of %s is %s, of the input %s; wanted is (C), or (C, spatial axes) for one value an activation.",
							   name, shape_text(&param->shape), shape_text(x))));
		layout->param_name = name;
		layout->param = param->shape;
	}
	else if (shape_numel(&param->shape) != layout->merged.dims[1] ||
			 !(param_fits(&param->shape, x, true) || param_fits(&param->shape, x, false)))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("shapes of %s and %s do not fit", layout->param_name, name),
				 errdetail("The shape of %s is %s, of %s %s.",
						   layout->param_name, shape_text(&layout->param), name, shape_text(&param->shape))));
	param->shape = (TensorShape) {1, {layout->merged.dims[1]}};
}

static void
norm_check_eps(double eps)
{
	if (!(eps >= 0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("eps must not be negative, but is %g", eps)));
}

/* Next output: a tensor shaped like the input that kernels see as (N, C, S). */
static void
norm_output(OpCall *call, DType dtype, const NormLayout *layout)
{
	op_output(call, dtype, &layout->input)->shape = layout->merged;
}

/* Next output: a statistic in the shape that its parameter was given. */
static void
norm_statistic(OpCall *call, const NormLayout *layout, const TensorShape *shape)
{
	op_output(call, layout->param_dtype, shape)->shape = (TensorShape) {1, {layout->merged.dims[1]}};
}

/* The outputs of a call as the row that the SQL function returns. */
static Datum
norm_row(FunctionCallInfo fcinfo, OpCall *call)
{
	TupleDesc	desc;
	bool		nulls[OP_MAX_OUTPUTS];

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(desc);
	for (int i = 0; i < call->nout; i++)
		nulls[i] = DatumGetPointer(op_datum(call, i)) == NULL;
	return HeapTupleGetDatum(heap_form_tuple(desc, call->datum, nulls));
}

/* batch_norm(input, running_mean, running_var, weight, bias, eps) */
PG_FUNCTION_INFO_V1(batch_norm);
Datum
batch_norm(PG_FUNCTION_ARGS)
{
	OpCall		call;
	NormParams	params = {0};
	NormLayout	layout;
	TensorView *x,
			   *mean,
			   *var,
			   *weight,
			   *bias;

	op_begin(&call, OP_BATCH_NORM, &params, fcinfo);
	x = op_input(&call, 0, "input");
	mean = op_input(&call, 1, "running_mean");
	var = op_input(&call, 2, "running_var");
	weight = op_input(&call, 3, "weight");
	bias = op_input(&call, 4, "bias");
	if (x == NULL || mean == NULL || var == NULL)
		PG_RETURN_NULL();

	norm_check_input("input", x, &layout);
	norm_check_param("running_mean", mean, &layout);
	norm_check_param("running_var", var, &layout);
	norm_check_param("weight", weight, &layout);
	norm_check_param("bias", bias, &layout);
	params.eps = arg_float8(fcinfo, 5, 1e-5);
	norm_check_eps(params.eps);
	x->shape = layout.merged;

	norm_output(&call, x->dtype, &layout);
	op_execute(&call);
	return op_datum(&call, 0);
}

/* batch_norm_train(input, weight, bias, running_mean, running_var, momentum, eps) */
PG_FUNCTION_INFO_V1(batch_norm_train);
Datum
batch_norm_train(PG_FUNCTION_ARGS)
{
	OpCall		call;
	NormParams	params = {0};
	NormLayout	layout;
	TensorShape mean_shape = {0},
				var_shape = {0};
	TensorView *x,
			   *weight,
			   *bias,
			   *mean,
			   *var;

	op_begin(&call, OP_BATCH_NORM_TRAIN, &params, fcinfo);
	x = op_input(&call, 0, "input");
	weight = op_input(&call, 1, "weight");
	bias = op_input(&call, 2, "bias");
	mean = op_input(&call, 3, "running_mean");
	var = op_input(&call, 4, "running_var");
	if (x == NULL)
		PG_RETURN_NULL();
	if ((mean == NULL) != (var == NULL))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s is given but %s is not", mean != NULL ? "running_mean" : "running_var",
						mean != NULL ? "running_var" : "running_mean")));
	if (mean != NULL)
	{
		mean_shape = mean->shape;
		var_shape = var->shape;
	}

	norm_check_input("input", x, &layout);
	norm_check_param("weight", weight, &layout);
	norm_check_param("bias", bias, &layout);
	norm_check_param("running_mean", mean, &layout);
	norm_check_param("running_var", var, &layout);
	params.momentum = arg_float8(fcinfo, 5, 0.1);
	params.eps = arg_float8(fcinfo, 6, 1e-5);
	norm_check_eps(params.eps);
	x->shape = layout.merged;

	norm_output(&call, x->dtype, &layout);
	norm_statistic(&call, &layout, &layout.param);
	norm_statistic(&call, &layout, &layout.param);
	if (mean != NULL)
	{
		norm_statistic(&call, &layout, &mean_shape);
		norm_statistic(&call, &layout, &var_shape);
	}
	else
	{
		op_no_output(&call);
		op_no_output(&call);
	}
	op_execute(&call);
	return norm_row(fcinfo, &call);
}

/* batch_norm_backward(grad_output, input, weight, save_mean, save_invstd) */
PG_FUNCTION_INFO_V1(batch_norm_backward);
Datum
batch_norm_backward(PG_FUNCTION_ARGS)
{
	OpCall		call;
	NormParams	params = {0};
	NormLayout	layout;
	TensorView *dy,
			   *x,
			   *weight,
			   *mean,
			   *invstd;

	op_begin(&call, OP_BATCH_NORM_BACKWARD, &params, fcinfo);
	dy = op_input(&call, 0, "grad_output");
	x = op_input(&call, 1, "input");
	weight = op_input(&call, 2, "weight");
	mean = op_input(&call, 3, "save_mean");
	invstd = op_input(&call, 4, "save_invstd");
	if (dy == NULL || x == NULL || mean == NULL || invstd == NULL)
		PG_RETURN_NULL();

	norm_check_input("input", x, &layout);
	check_same_dtype("grad_output", dy, "input", x);
	check_shape("grad_output", dy, &x->shape, "the input");
	norm_check_param("weight", weight, &layout);
	norm_check_param("save_mean", mean, &layout);
	norm_check_param("save_invstd", invstd, &layout);
	dy->shape = x->shape = layout.merged;

	norm_output(&call, x->dtype, &layout);
	norm_statistic(&call, &layout, &layout.param);
	norm_statistic(&call, &layout, &layout.param);
	op_execute(&call);
	return norm_row(fcinfo, &call);
}

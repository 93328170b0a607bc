/*
 * Plans: the primitives that compute a task, with reorders between the caller's
 * layout and the one that each primitive likes best, kept for the next task of
 * the same kind.
 *
 * A kernel gives dn_run a function that writes the plan down, which is called
 * only when none is kept:
 *
 *		x = dn_tensor(plan, task, PLAN_IN(0));
 *		...
 *		made = dn_primitive(plan);
 *		return DN(dnnl_..._primitive_desc_create(made, dn.engine, ...)) && dn_step(plan, *made, args, nargs);
 */
#ifndef ONEDNN_PLAN_H
#define ONEDNN_PLAN_H

#include "session.h"

#define PLAN_MAX_PRIMITIVES 16
#define PLAN_MAX_TENSORS 24
#define PLAN_MAX_SHAPES 16
#define PLAN_MAX_ARGS 10

/* Where a tensor is: input or output i of the task, or scratch memory. */
#define PLAN_IN(i) (i)
#define PLAN_OUT(i) (OP_MAX_INPUTS + (i))
#define PLAN_SCRATCH (OP_MAX_INPUTS + OP_MAX_OUTPUTS)

/* The layout of the task's tensors. */
#define PLAN_C_ORDER dnnl_format_tag_undef

/* All that a plan depends on. Zeroed before it is filled: it is compared as bytes. */
typedef struct PlanKey
{
	OpId		id;
	int			threads;
	union
	{
		ConvParams	conv;
		PoolParams	pool;
		NormParams	norm;
		ActivationParams activation;
	}			params;
	struct
	{
		int			given;
		int			dtype;
		int64		rank;
		int64		dims[MAX_SPATIAL + 2];
	}			tensors[PLAN_SCRATCH];
} PlanKey;

/* A tensor of a plan: the caller's, or one in scratch memory. */
typedef struct PlanTensor
{
	int			place;
	Size		offset;			/* in scratch memory */
	dnnl_data_type_t type;		/* of a caller's, as its dimensions */
	int			rank;
	dnnl_dims_t dims;
	DnShape		shape;			/* the plan's or a primitive's */
	dnnl_memory_t memory;
} PlanTensor;

typedef struct PlanStep
{
	dnnl_primitive_t primitive;
	int			nargs;
	dnnl_exec_arg_t args[PLAN_MAX_ARGS];
} PlanStep;

/* Owns all that is in it. */
typedef struct Plan
{
	int			nshapes;
	DnOwnedShape shapes[PLAN_MAX_SHAPES];
	int			nprimitives;
	dnnl_primitive_desc_t primitives[PLAN_MAX_PRIMITIVES];
	int			nsteps;
	PlanStep	steps[PLAN_MAX_PRIMITIVES];
	int			ntensors;
	PlanTensor	tensors[PLAN_MAX_TENSORS];
	Size		scratch_size;
	char	   *scratch;		/* that the memories in it point to */
	bool		clean_scratch;	/* a primitive reads what it did not write there */
} Plan;

/* An argument of a primitive and the tensor that it is. */
typedef struct PlanArg
{
	int			arg;			/* DNNL_ARG_... */
	PlanTensor *tensor;			/* NULL: not given */
} PlanArg;

/* Writes the plan down for a task; false with a fault. */
typedef bool (*PlanWriter) (Plan *plan, const OpTask *task);

/*
 * Runs the task by its plan. ERROR XX000 when oneDNN refuses what it should
 * not.
 */
extern OpOutcome dn_run(OpTask *task, PlanWriter write_plan);

/* Gives back all plans. Never throws. */
extern void dn_forget_plans(void);

/* The following, for plan writers, leave a fault where they give NULL or false. */

/* The task's tensor at a place, in C order, with the dimensions that it has or with others. NULL also where it was not given. */
extern PlanTensor *dn_tensor(Plan *plan, const OpTask *task, int place);
extern PlanTensor *dn_tensor_as(Plan *plan, const OpTask *task, int place, int rank, const int64 *dims);

/* A tensor in scratch memory, of a shape that lives as long as the plan. */
extern PlanTensor *dn_temporary(Plan *plan, DnShape shape);

/* What a primitive is told of a tensor of the task: its layout, or with dnnl_format_tag_any to choose one. */
extern DnShape dn_layout(Plan *plan, const PlanTensor *tensor, dnnl_format_tag_t layout);

/* Where the next primitive descriptor goes; the plan owns it. */
extern dnnl_primitive_desc_t *dn_primitive(Plan *plan);

/*
 * Runs a primitive of the plan on these tensors, with reorders before and after
 * where its layout is another than a tensor's.
 */
extern bool dn_step(Plan *plan, const_dnnl_primitive_desc_t primitive, const PlanArg *args, int nargs);

#endif							/* ONEDNN_PLAN_H */

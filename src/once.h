/*
 * Once a query: an argument that repeats from row to row (weights from a
 * subquery, a cross join, a parameter, a constant) is detoasted once and
 * uploaded once. The second sight of the same value keeps it, for as long as
 * the function's expression lives; nothing is kept of values that change.
 */
#ifndef ONCE_H
#define ONCE_H

#include "access/detoast.h"
#include "fmgr.h"
#include "provider.h"
#include "resident.h"

/* A value that repeats. */
typedef struct KeptValue
{
	TensorView	view;			/* on the host */
	ResidentTensor *resident;	/* on the device, once it was wanted there */
	MemoryContext cxt;			/* owns both */
} KeptValue;

/*
 * Takes notice of argument `argno`; gives the kept value when it is the one seen
 * in the calls before, else NULL. The value must be a tensor.
 */
extern KeptValue *once_find(FunctionCallInfo fcinfo, int argno);

/* Uploads the kept value unless it is there; fills kept->resident on OP_DONE. */
extern OpOutcome once_upload(KeptValue *kept, ProviderId provider, OpId op, char *reason, Size reason_size);

#endif							/* ONCE_H */

/* Random problems of every operation, as SQL. */
#ifndef SELFTEST_H
#define SELFTEST_H

#include "tensor.h"

/*
 * One expression, written twice: `run` over tensors of the type under test,
 * `exact` over the same values as float64.
 */
typedef struct Problem
{
	StringInfoData run;
	StringInfoData exact;
	DType		dtype;
	uint64		state;			/* of the random numbers */
} Problem;

typedef struct ProblemFamily
{
	const char *name;
	void		(*draw) (Problem *problem, int variant);
	int			variant;
} ProblemFamily;

extern const ProblemFamily problem_families[];
extern const int problem_family_count;

#endif							/* SELFTEST_H */

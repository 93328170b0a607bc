/* Counters of this session. */
#include "postgres.h"

#include "stats.h"

OpStats		op_stats[OP_COUNT][PROVIDER_COUNT];

void
stats_reset(void)
{
	memset(op_stats, 0, sizeof(op_stats));
}

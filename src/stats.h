/* Counters of this session, a row an operation and provider that ran it. */
#ifndef STATS_H
#define STATS_H

#include "provider.h"

typedef struct OpStats
{
	int64		calls;
	double		total_ms;		/* host time in the frame, device work may go on */
	int64		bytes_to_device;
	int64		bytes_to_host;
	int64		plan_hits;
	int64		plan_misses;
	int64		fallbacks;		/* calls that went on to another provider */
	char		last_fallback_reason[160];
} OpStats;

extern OpStats op_stats[OP_COUNT][PROVIDER_COUNT];

extern void stats_reset(void);

#endif							/* STATS_H */

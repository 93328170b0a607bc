/* The library's entry. Nothing foreign is loaded here: this runs in the postmaster too. */
#include "postgres.h"

#include "fmgr.h"

#include "guc.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	guc_init();
}

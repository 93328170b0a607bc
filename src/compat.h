/* Every test of PG_VERSION_NUM is here. PostgreSQL 14 to 18. */
#ifndef COMPAT_H
#define COMPAT_H

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#if PG_VERSION_NUM >= 150000
#define guc_reserve_prefix(prefix) MarkGUCPrefixReserved(prefix)
#else
#define guc_reserve_prefix(prefix) EmitWarningsOnPlaceholders(prefix)
#endif

#endif							/* COMPAT_H */

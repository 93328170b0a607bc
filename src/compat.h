/* Every test of PG_VERSION_NUM is here. PostgreSQL 14 to 18. */
#ifndef COMPAT_H
#define COMPAT_H

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#endif							/* COMPAT_H */

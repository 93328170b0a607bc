/* Every test of PG_VERSION_NUM is here. PostgreSQL 15 and later. */
#ifndef COMPAT_H
#define COMPAT_H

#if PG_VERSION_NUM < 150000
#error "cudnn_ops needs PostgreSQL 15 or later"
#endif

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#endif							/* COMPAT_H */

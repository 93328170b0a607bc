/* The settings, cudnn_ops.*: what each one means is said in guc.c. */
#ifndef GUC_H
#define GUC_H

#include "provider.h"

extern Settings settings;

extern void guc_init(void);

#endif							/* GUC_H */

/* The settings, cudnn_ops.*: what each one means is said in guc.c. */
#ifndef OPS_GUC_H
#define OPS_GUC_H

#include "provider.h"

extern Settings settings;

extern void guc_init(void);

#endif							/* OPS_GUC_H */

/*
 * Big tensors that a table stores out of line, uncompressed, go up to a device
 * slice by slice as TOAST reads them, and are not put together in host memory
 * before.
 */
#ifndef STORED_H
#define STORED_H

#include "access/detoast.h"
#include "compat.h"
#include "provider.h"

typedef struct StoredTensor
{
	Datum		value;
	struct varatt_external toast;
	Size		data_offset;	/* of the elements, in the value */
} StoredTensor;

/*
 * The value when it is such a tensor, palloc'd, with dtype and shape in the view
 * (data is NULL); else NULL.
 */
extern StoredTensor *stored_tensor(Datum value, TensorView *view);

/* The source of an upload: arg is a StoredTensor. Checks for interrupts. */
extern void upload_from_storage(const void *arg, char *dst, Size offset, Size size);

#endif							/* STORED_H */

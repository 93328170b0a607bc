/* See stored.h. */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "miscadmin.h"

#include "compat.h"
#include "op.h"
#include "stored.h"

/* Smaller ones are detoasted: finding a slice costs more than it saves. */
#define BIG_ENOUGH (1024 * 1024)

StoredTensor *
stored_tensor(Datum value, TensorView *view)
{
	struct varlena *pointer = (struct varlena *) DatumGetPointer(value);
	struct varatt_external toast;
	StoredTensor *stored;
	NpyHeader	header;
	NpyError	err;

	if (!VARATT_IS_EXTERNAL_ONDISK(pointer))
		return NULL;
	VARATT_EXTERNAL_GET_POINTER(toast, pointer);
	if (toast.va_rawsize < BIG_ENOUGH || VARATT_EXTERNAL_IS_COMPRESSED(toast) ||
		!read_header(value, &header, &err) || header.fortran_order || header.big_endian)
		return NULL;

	stored = palloc(sizeof(*stored));
	stored->value = value;
	stored->toast = toast;
	stored->data_offset = header.data_offset;
	view->dtype = header.dtype;
	view->shape = header.shape;
	view->data = NULL;
	return stored;
}

void
upload_from_storage(const void *arg, char *dst, Size offset, Size size)
{
	const StoredTensor *stored = arg;
	Relation	toast = table_open(stored->toast.va_toastrelid, AccessShareLock);

	CHECK_FOR_INTERRUPTS();
	/* it fills what would be the data of a varlena */
	table_relation_fetch_toast_slice(toast, stored->toast.va_valueid, stored->toast.va_rawsize - VARHDRSZ,
									 stored->data_offset + offset, size,
									 (struct varlena *) (dst - VARHDRSZ));
	table_close(toast, AccessShareLock);
}

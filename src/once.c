/* See once.h. The memory is in fn_extra and belongs to the function's context. */
#include "postgres.h"

#include "fmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "once.h"

#define MAX_ARGS 8

/*
 * What tells that a value is the same. A TOAST pointer does for as long as the
 * snapshot stays; a pointer into memory is only a hint that the bytes may be the
 * same, and they are compared.
 */
typedef struct Identity
{
	Oid			toast_relation;
	Oid			toast_value;
	TransactionId xmin;
	TransactionId xmax;
	CommandId	command;
	const void *pointer;
	Size		size;
} Identity;

typedef enum SlotState
{
	NEVER_SEEN,
	SEEN,						/* once, with this identity */
	KEPT,
	CHANGING					/* same place, other bytes: not looked at again */
} SlotState;

typedef struct Slot
{
	SlotState	state;
	Identity	identity;
	struct varlena *flat;		/* when KEPT */
	KeptValue	kept;
} Slot;

static bool
is_toast_pointer(const struct varlena *value)
{
	return VARATT_IS_EXTERNAL_ONDISK(value);
}

static void
identify(const struct varlena *value, Identity *identity)
{
	memset(identity, 0, sizeof(*identity));
	if (is_toast_pointer(value))
	{
		struct varatt_external toast;

		VARATT_EXTERNAL_GET_POINTER(toast, value);
		identity->toast_relation = toast.va_toastrelid;
		identity->toast_value = toast.va_valueid;
		if (ActiveSnapshotSet())
		{
			Snapshot	snapshot = GetActiveSnapshot();

			identity->xmin = snapshot->xmin;
			identity->xmax = snapshot->xmax;
			identity->command = snapshot->curcid;
		}
	}
	else
	{
		identity->pointer = value;
		identity->size = VARSIZE_ANY(value);
	}
}

/* Are the bytes of a value with the slot's identity those that were kept? */
static bool
same_bytes(const Slot *slot, struct varlena *value)
{
	Size		size;

	if (is_toast_pointer(value))
		return true;
	if (VARATT_IS_COMPRESSED(value) || VARATT_IS_EXTERNAL(value))
		return false;
	size = VARSIZE_ANY_EXHDR(value);
	return size == VARSIZE_ANY_EXHDR(slot->flat) &&
		memcmp(VARDATA_ANY(value), VARDATA_ANY(slot->flat), size) == 0;
}

static void
forget(Slot *slot)
{
	if (slot->kept.cxt != NULL)
		MemoryContextDelete(slot->kept.cxt);
	memset(&slot->kept, 0, sizeof(slot->kept));
	slot->flat = NULL;
}

static void
keep(Slot *slot, struct varlena *value, MemoryContext parent)
{
	MemoryContext old;

	slot->kept.cxt = AllocSetContextCreate(parent, "cudnn_ops repeated argument", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(slot->kept.cxt);
	slot->flat = pg_detoast_datum_copy(value);
	tensor_view_flat(slot->flat, &slot->kept.view);
	MemoryContextSwitchTo(old);
	slot->state = KEPT;
}

KeptValue *
once_find(FunctionCallInfo fcinfo, int argno)
{
	struct varlena *value = (struct varlena *) DatumGetPointer(fcinfo->args[argno].value);
	FmgrInfo   *flinfo = fcinfo->flinfo;
	Identity	identity;
	Slot	   *slot;

	if (flinfo == NULL || argno >= MAX_ARGS || VARATT_IS_EXTERNAL_EXPANDED(value))
		return NULL;
	/* what is in memory already is worth keeping only elsewhere */
	if (!is_toast_pointer(value) && !provider_device_loaded())
		return NULL;
	if (flinfo->fn_extra == NULL)
		flinfo->fn_extra = MemoryContextAllocZero(flinfo->fn_mcxt, MAX_ARGS * sizeof(Slot));
	slot = (Slot *) flinfo->fn_extra + argno;
	if (slot->state == CHANGING)
		return NULL;

	identify(value, &identity);
	if (slot->state == NEVER_SEEN || memcmp(&identity, &slot->identity, sizeof(identity)) != 0)
	{
		forget(slot);
		memcpy(&slot->identity, &identity, sizeof(identity));
		slot->state = SEEN;
		return NULL;
	}
	if (slot->state == SEEN)
		keep(slot, value, flinfo->fn_mcxt);
	else if (!same_bytes(slot, value))
	{
		forget(slot);
		slot->state = CHANGING;
		return NULL;
	}
	return &slot->kept;
}

OpOutcome
once_upload(KeptValue *kept, ProviderId provider, OpId op, char *reason, Size reason_size)
{
	if (kept->resident != NULL)
		return OP_DONE;
	return resident_upload(&kept->resident, kept->cxt, provider, op, &kept->view,
						   upload_from_host, kept->view.data, reason, reason_size);
}

/*
 * Device buffers, and tensors that live on a device: the only place where
 * device memory is born and dies. A resident tensor is an expanded object over
 * bytea: PostgreSQL flattens it (downloads it) where it needs bytes.
 */
#ifndef RESIDENT_H
#define RESIDENT_H

#include "provider.h"
#include "utils/expandeddatum.h"
#include "utils/palloc.h"

/* Owned by a memory context: resetting or deleting that is the one way to free. */
typedef struct DeviceBuffer
{
	MemoryContextCallback callback;
	const DeviceMemory *memory;
	void	   *ptr;
	Size		size;
} DeviceBuffer;

typedef struct ResidentTensor
{
	ExpandedObjectHeader hdr;
	TensorView	view;			/* data is a device pointer */
	TensorLayout layout;
	ProviderId	provider;
	OpId		maker;			/* whose row counts the download */
	DeviceBuffer *buffer;
} ResidentTensor;

/*
 * A tensor of undefined elements in a child of `parent`; what is not OP_DONE comes
 * with the reason and no tensor.
 */
extern OpOutcome resident_new(ResidentTensor **tensor, MemoryContext parent, ProviderId provider,
							  OpId maker, DType dtype, const TensorShape *shape,
							  char *reason, Size reason_size);

/* A tensor of the view's type and shape, whose elements come from the source in C order; same rule. */
extern OpOutcome resident_upload(ResidentTensor **tensor, MemoryContext parent, ProviderId provider,
								 OpId maker, const TensorView *view, UploadSource source, const void *arg,
								 char *reason, Size reason_size);

/* Brings the elements into that order, in place; what is not OP_DONE comes with the reason. */
extern OpOutcome resident_set_layout(ResidentTensor *tensor, TensorLayout layout,
									 char *reason, Size reason_size);

/* The source of an upload from host memory: arg points to the bytes. */
extern void upload_from_host(const void *arg, char *dst, Size offset, Size size);

/* The resident tensor behind a bytea datum, NULL when it is something else. */
extern ResidentTensor *resident_from_datum(Datum value);

/* Device buffers alive now. */
extern int64 resident_live(void);

#endif							/* RESIDENT_H */

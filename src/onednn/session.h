/*
 * What this backend holds of oneDNN: engine, stream, scratch memory; and how a
 * kernel runs between dn_begin and dn_end.
 *
 * In between all signals are blocked and nothing raises: what fails leaves a
 * fault (the first one counts) and false.
 */
#ifndef ONEDNN_SESSION_H
#define ONEDNN_SESSION_H

#include "compat.h"
#include "provider.h"

/* Something failed, and what that means for the task. */
typedef struct DnFault
{
	bool		set;
	bool		bug;			/* our checks should have prevented it: raised */
	OpOutcome	outcome;		/* else */
	char		text[160];
} DnFault;

typedef struct DnSession
{
	const Settings *settings;
	dnnl_engine_t engine;
	dnnl_primitive_attr_t attr; /* of all primitives */
	dnnl_stream_t stream;		/* NULL: not started */
	int			threads;		/* that the call at work may use */
	char	   *scratch;
	Size		scratch_size;
	ProviderCounters counters;
	DnFault		fault;
} DnSession;

extern DnSession dn;

/* OP_DONE: go on, and call dn_end whatever happens. Never throws. */
extern OpOutcome dn_begin(OpTask *task);

/* ERROR XX000 when the fault is a bug. */
extern OpOutcome dn_end(OpTask *task, bool ok);

/* Memory of at least this size until the next call; NULL with a fault. */
extern char *dn_scratch(Size size);

/* Gives back scratch memory. Never throws. */
extern void dn_free_scratch(void);

/* True on success; else a fault is set. `call` is the source text of the call. */
extern bool dn_check(dnnl_status_t status, const char *call);

#define DN(call) dn_check((call), #call)

/* Sets a fault of that outcome; gives false. */
extern bool dn_fault(OpOutcome outcome, const char *text);

/* The type as oneDNN knows it. */
extern dnnl_data_type_t dn_type(DType dtype);

#endif							/* ONEDNN_SESSION_H */

/*
 * Device memory, from the device's own pool and in the order of the stream, and
 * copies between it and the host.
 */
#ifndef MEM_H
#define MEM_H

#include "session.h"

/* What the core is given. */
extern const DeviceMemory nv_memory;

/*
 * Device memory until nv_end; NULL with a fault when there is none. Only between
 * nv_begin and nv_end.
 */
extern void *mem_scratch(Size size);

/* Scratch memory that holds a copy of host memory; the source has been read. */
extern void *mem_scratch_copy(const void *host, Size size);

/* How many pieces of scratch memory are held, and giving back all after the first so many. */
extern int	mem_scratch_count(void);
extern void mem_free_scratch(int keep);

/* Gives back all but device buffers. Never throws. */
extern void mem_stop(void);

#endif							/* MEM_H */

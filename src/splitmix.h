/* splitmix64: random bits of a counter, the same everywhere. */
#ifndef SPLITMIX_H
#define SPLITMIX_H

#define SPLITMIX_STEP UINT64CONST(0x9E3779B97F4A7C15)

/* The bits of this state; the next one of a stream is SPLITMIX_STEP further. */
static inline uint64
splitmix_bits(uint64 state)
{
	state = (state ^ (state >> 30)) * UINT64CONST(0xBF58476D1CE4E5B9);
	state = (state ^ (state >> 27)) * UINT64CONST(0x94D049BB133111EB);
	return state ^ (state >> 31);
}

#endif							/* SPLITMIX_H */

/*
 * Calling foreign code that may start threads: a thread inherits the mask of
 * its creator and must never take a signal that is meant for the backend. So
 * all signals are blocked while foreign code runs and restored before its
 * status is looked at:
 *
 *		foreign_enter(&mask);
 *		status = dnnl_something();
 *		foreign_leave(&mask);
 */
#ifndef FOREIGN_H
#define FOREIGN_H

#include <signal.h>

static inline void
foreign_enter(sigset_t *saved)
{
	sigset_t	all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, saved);
}

static inline void
foreign_leave(const sigset_t *saved)
{
	pthread_sigmask(SIG_SETMASK, saved, NULL);
}

#endif							/* FOREIGN_H */

/* The threads of one handle that wait for a flush, in the order of their arrival.
 *
 * Each waiter sleeps on a word of its own. The first waiter that is not served is the head: it
 * leads a flush, or follows the leader of another handle. After a flush the head calls the next
 * head, and takes the interpreter's lock. The threads that it served return one after another: each
 * of them calls the next one when it waits for a flush again. If all woke at once, they would queue
 * for the interpreter's lock, and sleep a second time. */
#ifndef CL_FLUSH_QUEUE_H
#define CL_FLUSH_QUEUE_H

#include <pthread.h>

#include "atomics.h"

enum cl_flush_role {
    CL_FLUSH_WAITS = 0,
    CL_FLUSH_HEADS = 1,
    CL_FLUSH_CALLED = 2, /* served and awake: spins until the thread before it waits again */
    CL_FLUSH_RETURNS = 3
};

/* A waiting thread; it is on that thread's stack. */
typedef struct cl_flush_waiter {
    struct cl_flush_waiter *next, *previous; /* to itself: in no list */
    uint64_t upto;
    uint32_t role; /* futex: a cl_flush_role */
} cl_flush_waiter;

typedef struct {
    pthread_mutex_t mutex; /* held for some instructions, and for the list in `serve` */
    cl_flush_waiter waiting; /* the list of the waiters that are not served */
    cl_flush_waiter served; /* the list of those that are served and asleep */
    cl_flush_waiter *head; /* NULL: no thread waits */
    cl_flush_waiter *called; /* the one waiter that is CL_FLUSH_CALLED */
    uint32_t in_vain; /* how many turns to take without a spin after the next fruitless spin */
    uint32_t rests; /* how many turns are still taken without a spin */
} cl_flush_queue;

/* Returns false if the system has no resources. Also starts anew, in the child of a fork. */
bool cl_flush_queue_init(cl_flush_queue *queue);

/* Adds the calling thread, and calls the next served one. */
void cl_flush_queue_join(cl_flush_queue *queue, cl_flush_waiter *waiter, uint64_t upto);

static inline bool cl_flush_queue_heads(const cl_flush_waiter *waiter) {
    return cl_load32(&waiter->role) == CL_FLUSH_HEADS;
}

/* Sleeps until another thread calls this one, or timeout_ns passed (CL_E_TIMEOUT), or a signal
 * handler ran (CL_E_INTERRUPTED). */
int cl_flush_queue_wait(cl_flush_waiter *waiter, int64_t timeout_ns);

/* Called by a head that continues to wait: lets those below `flushed` return. */
void cl_flush_queue_serve(cl_flush_queue *queue, uint64_t flushed);

/* Removes the calling thread, served or not; must follow `join`. If it was the head, it serves
 * those below `flushed` and calls the next head. */
void cl_flush_queue_leave(cl_flush_queue *queue, cl_flush_waiter *waiter, uint64_t flushed);

/* Calls the next served waiter, unless one is called already: that one, or the next thread that
 * joins, will. */
void cl_flush_queue_pass_on(cl_flush_queue *queue);

#endif

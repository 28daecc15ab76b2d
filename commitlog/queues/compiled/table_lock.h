/* The lock of a queue's table, and the sleep of its workers.
 *
 * An owner is a worker and its generation. A worker lives while its process holds an
 * open-file-description lock on the worker's byte, so a dead owner is found at once. A process must
 * not stop while it holds the lock: no system call and no Python code runs under it. */
#ifndef CLQ_TABLE_LOCK_H
#define CLQ_TABLE_LOCK_H

#include "lease_table.h"

enum clq_locked { CLQ_LOCKED, CLQ_TAKEN_OVER, CLQ_WAITING_FOR_LOCK, CLQ_STALLED };

static inline bool clq_try_lock(clq_table *table, uint32_t mine) {
    uint32_t unlocked = 0;
    return __atomic_compare_exchange_n(&table->lock, &unlocked, mine, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
}

/* Waits for the lock for a while. CLQ_TAKEN_OVER: its owner died, and the caller, who has it now,
 * makes the table anew. CLQ_STALLED: its owner lives, and has not moved for CLQ_PATIENCE_NS. */
int clq_await_lock(clq_table *table, uint32_t mine, int fd);
void clq_unlock(clq_table *table);

/* The process that holds the lock. */
uint32_t clq_lock_pid(const clq_table *table);

/* Whether no process has locked the byte of a worker. Not for a worker of this process. */
bool clq_is_dead(int fd, uint32_t worker);

/* Sleeps until `ready` differs from `seen`; wakes so many of those that sleep. */
void clq_sleep(clq_table *table, uint32_t seen, int64_t timeout_ns);
void clq_wake(clq_table *table, int workers);

/* Becomes the watcher unless another worker that lives is. Gives it up, and wakes another. */
bool clq_watch(clq_table *table, uint32_t mine, int fd);
void clq_unwatch(clq_table *table, uint32_t mine);

#endif

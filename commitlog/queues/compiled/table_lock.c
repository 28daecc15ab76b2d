#define _GNU_SOURCE
#include "table_lock.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "assertion.h"
#include "atomics.h"
#include "futex.h"

#define SPINS 200
#define NAP_NS 1000000ll /* then the owner is probed */
#define ROUNDS 50        /* of a call, before the caller handles signals */
#define PATIENCE_NS 30000000000ll

static inline uint32_t worker_of(uint32_t owner) { return (owner & 2047) - 1; }

bool clq_is_dead(int fd, uint32_t worker) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = worker, .l_len = 1};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

/* Whether an owner is gone: its process, or its place has another one by now. */
static bool is_gone(const clq_table *table, uint32_t owner, uint32_t mine, int fd) {
    uint32_t worker = worker_of(owner);
    if (worker >= CLQ_WORKERS) {
        return true; /* no worker: a torn word cannot be, but a file is input */
    }
    uint32_t generation = cl_load32(&table->workers[worker].generation);
    if ((generation << 11 | (worker + 1)) != owner) {
        return true;
    }
    return owner != mine && clq_is_dead(fd, worker);
}

uint32_t clq_lock_pid(const clq_table *table) {
    uint32_t worker = worker_of(cl_load32(&table->lock));
    return worker < CLQ_WORKERS ? table->workers[worker].pid : 0;
}

int clq_await_lock(clq_table *table, uint32_t mine, int fd) {
    for (int spin = 0; spin < SPINS; spin++) {
        if (clq_try_lock(table, mine)) {
            return CLQ_LOCKED;
        }
        cl_pause();
    }
    int64_t began_ns = cl_clock_monotonic_ns();
    for (int round = 0;; round++) {
        uint32_t owner = cl_load32(&table->lock);
        if (owner == 0 && clq_try_lock(table, mine)) {
            return CLQ_LOCKED;
        }
        if (owner != 0 && round > 0 && is_gone(table, owner, mine, fd)) {
            if (__atomic_compare_exchange_n(&table->lock, &owner, mine, false, __ATOMIC_SEQ_CST,
                                            __ATOMIC_RELAXED)) {
                return CLQ_TAKEN_OVER;
            }
            continue;
        }
        if (owner != 0) {
            cl_add32(&table->lock_sleepers, 1);
            cl_futex_wait(&table->lock, owner, NAP_NS);
            __atomic_fetch_sub(&table->lock_sleepers, 1, __ATOMIC_SEQ_CST);
        }
        if (cl_clock_monotonic_ns() - began_ns > PATIENCE_NS) {
            return CLQ_STALLED;
        }
    }
}

static void wake(uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

void clq_unlock(clq_table *table) {
    cl_assert(table->lock, !=, 0);
    __atomic_store_n(&table->lock, 0, __ATOMIC_SEQ_CST);
    /* A killed sleeper stays counted: then an unlock makes a system call too many. */
    if (cl_load32_ordered(&table->lock_sleepers) != 0) {
        wake(&table->lock, 1);
    }
}

void clq_sleep(clq_table *table, uint32_t seen, int64_t timeout_ns) {
    cl_add32(&table->sleepers, 1);
    cl_futex_wait(&table->ready, seen, timeout_ns);
    __atomic_fetch_sub(&table->sleepers, 1, __ATOMIC_SEQ_CST);
}

void clq_wake(clq_table *table, int workers) {
    cl_add32(&table->ready, 1);
    if (cl_load32_ordered(&table->sleepers) != 0) {
        wake(&table->ready, workers);
    }
}

bool clq_watch(clq_table *table, uint32_t mine, int fd) {
    uint32_t watcher = cl_load32(&table->watcher);
    /* Another thread of this process that watches is alive as long as this one. */
    if (watcher != 0 && !is_gone(table, watcher, mine, fd)) {
        return false;
    }
    return __atomic_compare_exchange_n(&table->watcher, &watcher, mine, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
}

void clq_unwatch(clq_table *table, uint32_t mine) {
    if (__atomic_compare_exchange_n(&table->watcher, &mine, 0, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED)) {
        clq_wake(table, 1);
    }
}

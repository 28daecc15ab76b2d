/* The jobs of a queue that are handed out, wait, or can be taken: a table in shared memory.
 *
 * A job is the span [start, stop) of a log with one record. The spans tile the log: a job below
 * `scan` that has no slot is finished. All functions but `clq_format` require the lock of the
 * table, and make no system call; the caller passes the time. So they are plain transitions.
 *
 * The word of a slot says all of its state, and changes by one store. Lists, heaps, buckets and
 * counts follow from the words. A process that takes the lock of a dead process calls
 * `clq_rebuild`, which makes them anew. */
#ifndef CLQ_LEASE_TABLE_H
#define CLQ_LEASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLQ_SLOTS 65536u
#define CLQ_WORKERS 1024u
#define CLQ_BUCKETS 4096u
#define CLQ_IDENTITY 256u
#define CLQ_NONE UINT32_MAX
#define CLQ_ATTEMPTS_MOST 4000u /* 12 bits of a word */

enum clq_state { CLQ_FREE, CLQ_AVAILABLE, CLQ_ACQUIRED, CLQ_ACCEPTING, CLQ_WAITING };

enum clq_flag {
    CLQ_PENDING = 1, /* acquired, but the attempt is not durable yet, so it does not count */
    CLQ_SUSPECT = 2, /* it may have been handed out before a crash of the machine */
    CLQ_DYING = 4,   /* its last attempt has ended: it becomes a dead letter */
    CLQ_AGAIN = 8,   /* it was a dead letter, which may be left */
};

enum clq_cause { CLQ_NEW, CLQ_RELEASED, CLQ_LEASE_ENDED, CLQ_WORKER_DIED };

enum clq_limit { CLQ_UNLIMITED, CLQ_QUEUE_LIMIT, CLQ_WORKER_LIMIT };

typedef struct clq_slot {
    uint64_t word; /* state 4 bits, flags 4, worker 12, attempt 12, ticket 32 */
    int64_t start, position, stop;
    int64_t until_ns; /* when the lease or the wait ends, by CLOCK_BOOTTIME */
    int64_t taken_ns;
    int64_t noted_from;  /* accepting: its note in the state log is not below */
    int64_t history;     /* where the state log has what happened to the job; -1: nothing yet */
    uint64_t key;        /* a hash of the key; 0: no key */
    uint64_t print;      /* a fingerprint of the record */
    uint32_t next, prev; /* acquired: by end of the lease; free: `next` alone */
    uint32_t behind;     /* the next job of its bucket */
    uint32_t cause;      /* why it came back last */
} clq_slot;

typedef struct clq_worker {
    uint32_t generation; /* rises with each process that takes the place */
    uint32_t pid;
    uint32_t acquired;
    uint32_t unused;
    int64_t since_ns;
    uint64_t turns; /* rises with each lock of the table; the worker's process knows it, too */
} clq_worker;

typedef struct clq_terms {
    int64_t lease_ns;
    uint32_t attempts_most, in_flight, worker_in_flight, ordered;
} clq_terms;

typedef struct clq_table {
    uint8_t identity[CLQ_IDENTITY]; /* of the log and the machine; the caller's */
    uint64_t instance;              /* random; 0: the table was found to be overwritten */
    uint32_t lock;                  /* 0, or generation << 11 | worker + 1 */
    uint32_t lock_sleepers;
    uint32_t ready; /* futex: raised when a job can be taken */
    uint32_t sleepers;
    uint32_t watcher; /* as `lock`: the one sleeper that the log's appends wake */
    uint32_t paused;
    uint32_t ticket;
    uint32_t terms_version;
    clq_terms terms;
    int64_t scan; /* where the first record begins that no worker has seen */
    int64_t top;  /* the last record below `scan`, and its fingerprint */
    uint64_t top_print;
    int64_t base; /* where the state log has its last base */
    int64_t noted; /* the state log has the notes of all finished jobs, and ends behind this */
    int64_t suspect_below; /* a record below may have been handed out before the table was made */
    uint32_t free, oldest, newest;
    uint32_t available, waiting, acquired, unfinished;
    uint32_t unused;
    uint64_t taken, accepted, released, expired, orphaned, dead;
    clq_worker workers[CLQ_WORKERS];
    uint32_t bucket_first[CLQ_BUCKETS], bucket_last[CLQ_BUCKETS];
    uint32_t available_heap[CLQ_SLOTS], waiting_heap[CLQ_SLOTS];
    clq_slot slots[CLQ_SLOTS];
} clq_table;

/* A record that a scan has found. */
typedef struct clq_found {
    int64_t start, position, stop;
    uint64_t key, print;
} clq_found;

/* What the caller holds of an acquired job. */
typedef struct clq_lease {
    uint32_t slot, ticket;
} clq_lease;

static inline enum clq_state clq_state_of(uint64_t word) { return (enum clq_state)(word & 15); }
static inline uint32_t clq_flags_of(uint64_t word) { return (uint32_t)(word >> 4 & 15); }
static inline uint32_t clq_worker_of(uint64_t word) { return (uint32_t)(word >> 8 & 4095); }
static inline uint32_t clq_attempt_of(uint64_t word) { return (uint32_t)(word >> 20 & 4095); }
static inline uint32_t clq_ticket_of(uint64_t word) { return (uint32_t)(word >> 32); }

/* A slot by an index that was read from the table. The table is a file, which another program may
 * ruin, so an index is cut to the number of slots. */
static inline uint32_t clq_index(uint32_t index) { return index & (CLQ_SLOTS - 1); }

static inline clq_slot *clq_slot_at(const clq_table *table, uint32_t index) {
    return (clq_slot *)&table->slots[clq_index(index)];
}

static inline uint64_t clq_word(enum clq_state state, uint32_t flags, uint32_t worker,
                                uint32_t attempt, uint32_t ticket) {
    return (uint64_t)state | (uint64_t)flags << 4 | (uint64_t)worker << 8 |
           (uint64_t)attempt << 20 | (uint64_t)ticket << 32;
}

/* Whether the table is the one that a worker has used last, and nothing was written over it: a
 * backup has an older `turns`. The caller has the lock. */
static inline bool clq_take_turn(clq_table *table, uint64_t instance, uint32_t worker,
                                 uint64_t *turns) {
    if (table->instance != instance || instance == 0 || table->workers[worker].turns != *turns) {
        return false;
    }
    table->workers[worker].turns = ++*turns;
    return true;
}

/* Whether a lease is still that of `worker`: the slot is acquired under this ticket. */
static inline bool clq_is_held(const clq_table *table, clq_lease lease, uint32_t worker) {
    uint64_t word = clq_slot_at(table, lease.slot)->word;
    return clq_state_of(word) == CLQ_ACQUIRED && clq_worker_of(word) == worker &&
           clq_ticket_of(word) == lease.ticket;
}

/* Whether `worker` is accepting the job of a lease, and has not finished that. */
static inline bool clq_is_accepting(const clq_table *table, clq_lease lease, uint32_t worker) {
    uint64_t word = clq_slot_at(table, lease.slot)->word;
    return clq_state_of(word) == CLQ_ACCEPTING && clq_worker_of(word) == worker &&
           clq_ticket_of(word) == lease.ticket;
}

/* Makes a table without jobs in zeroed memory. */
void clq_format(clq_table *table, int64_t scan, const clq_terms *terms);

/* Makes everything anew that follows from the words, after a death in the middle of a change, or a
 * change of `terms.ordered`. A slot whose record is not below `scan` was being filled: it is freed.
 */
void clq_rebuild(clq_table *table);

/* Makes waiting jobs available whose time has come. Returns how many. */
uint32_t clq_wake_due(clq_table *table, int64_t now_ns);

/* Takes jobs back whose lease has ended. Returns how many. */
uint32_t clq_expire(clq_table *table, int64_t now_ns);

/* Takes all jobs of a dead worker back. Returns how many; `accepting` gets those that it was about
 * to accept, up to `most`: the caller completes that. */
uint32_t clq_orphan(clq_table *table, uint32_t worker, clq_lease *accepting, uint32_t most,
                    uint32_t *found);

/* Makes a job that a dead worker was about to accept another worker's, who completes that. */
void clq_adopt(clq_table *table, uint32_t slot, uint32_t worker);

/* Acquires up to `most` available jobs, the lowest positions first; `limit` says what prevented
 * more. A job of which all attempts are used is returned as CLQ_DYING. To purge jobs, limits do not
 * count. */
uint32_t clq_acquire(clq_table *table, uint32_t worker, uint32_t most, int64_t now_ns, bool purges,
                     clq_lease *leases, enum clq_limit *limit);

/* Adds records that a scan from `from` to `to` has found, and raises `scan`. `last` is the last
 * record, whether it is a job or not. Returns how many there
 * was room for; -1 if another worker has raised `scan` meanwhile. */
int64_t clq_add(clq_table *table, int64_t from, int64_t to, const clq_found *found, uint32_t count,
                const clq_found *last);

/* Adds one job that is not at `scan`: of a recovery, or of a requeue. False if there is no room. */
bool clq_restore(clq_table *table, const clq_found *found, uint32_t attempt, int64_t until_ns,
                 int64_t history, uint32_t flags);

/* The attempt of an acquired job is durable, so it may be handed out. */
void clq_confirm(clq_table *table, clq_lease lease);

/* Begins to accept a held job; then the job is noted as done, and `clq_finish` frees the slot. If
 * the note cannot be written, the job is held again. */
void clq_begin_accept(clq_table *table, clq_lease lease, int64_t noted_from);
void clq_undo_accept(clq_table *table, clq_lease lease);
void clq_finish(clq_table *table, uint32_t slot);

/* Gives a held job back: at `until_ns`, or at once if that is 0. If it was not `tried`, the attempt
 * does not count. */
void clq_release(clq_table *table, clq_lease lease, int64_t until_ns, bool tried);

/* Begins the lease of a held job again. */
void clq_renew(clq_table *table, clq_lease lease, int64_t now_ns);

/* Marks a held job as dying: the worker that acquires it next buries it. */
void clq_doom(clq_table *table, clq_lease lease);

/* The lowest position of an unfinished job, or `scan`. */
int64_t clq_low(const clq_table *table);

#endif

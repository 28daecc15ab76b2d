/* The `cursors` file: the shared live state of a log, mapped by every process that has it open.
 *
 * Each hot cell has a cache line of its own (two, because processors prefetch them in pairs), so
 * that a cell that readers poll never shares a line with a cell that writers add to. */
#ifndef CL_CURSORS_H
#define CL_CURSORS_H

#include "frame.h"

#define CL_CURSORS_MAGIC 0x31305352554C4D43ull /* "CMLURS01" */
#define CL_CURSORS_VERSION 1u
#define CL_CURSORS_SIZE (64u << 10)
#define CL_CURSORS_SLOTS 256u
#define CL_CURSORS_LINE 128u

enum cl_cursors_state { CL_STATE_NONE = 0, CL_STATE_RECOVERING = 1, CL_STATE_READY = 2 };
enum cl_cursors_mode { CL_MODE_MAPPED = 1, CL_MODE_POOLED = 2 };

/* A cell alone on its cache lines. */
typedef struct {
    uint64_t value;
    uint8_t unused[CL_CURSORS_LINE - sizeof(uint64_t)];
} cl_line;

/* A writer's slot. The counter is odd while its owner is between the add on the tail and the first
 * swap. */
typedef struct {
    uint64_t counter;
    uint32_t generation;
    uint32_t pid; /* diagnostic only: the lock on the slot shows whether the owner lives */
    int64_t attached_ns;
    uint64_t rolled_back; /* claims of this owner that another handle turned into SKIP */
    uint32_t pid_namespace; /* inode of the pid namespace in which `pid` is valid; 0: not known */
    uint8_t unused[CL_CURSORS_LINE - 36];
} cl_slot;

typedef struct {
    uint64_t magic;
    uint32_t version;
    uint32_t size;
    uint8_t log_uuid[CL_UUID_SIZE];
    uint8_t boot_id[CL_UUID_SIZE];
    uint64_t inode; /* of this file: a copied directory must not pass for the live one */
    uint64_t segment_size;
    uint32_t mode;
    uint32_t slot_count;
    uint8_t unused[4096 - 72];

    cl_line state;
    cl_line tail; /* segment number << 32 | offset; a pooled log's tail is private to its process */
    cl_line appended; /* positions, exclusive ends */
    cl_line committed;
    cl_line flushed;
    cl_line failed; /* the errno that failed the log; 0: the log has not failed */
    cl_line flusher; /* owner word of the flush leader; 0: there is no leader */
    cl_line flush_signal; /* futex: raised when a flush ends, or begins */
    cl_line waiters; /* 1: a reader sleeps on append_signal or is about to; its waker sets 0 */
    cl_line append_signal; /* futex: raised after a publish while there are waiters */
    cl_line rolled_back; /* claims turned into SKIP because their owners were dead or exceeded the
                            claim timeout */
    cl_line required; /* raised when a tailer becomes required or stops being so: writers then
                         reread the list */
    cl_line flush_wanted; /* a position: readers wait until everything below it is durable. Only
                             rises. 0 in files of older releases */
    cl_line allocated; /* segment number << 32 | offset: that segment has blocks up to the offset
                          and is a hole after it. All other segments have all of their blocks. 0:
                          every segment has */
    cl_line replicated; /* a position: enough copies have everything below it durably. 0: no writer
                           has asked for copies since the recovery; 1: none has anything yet */
    cl_line replicated_signal; /* futex: raised when `replicated` or `copied` moves */
    cl_line copied; /* likewise a position, which may be beyond `flushed`; the server of the log
                       raises it, and appends wait for it */
    cl_line cut; /* a position, plus 1: the log was cut there at a fork, and goes on with another
                    `cursors` file. Handles that map this one show the log as it was. 0: no */
    cl_line cuts; /* how many such cuts there were since the machine started */
    uint8_t more_cells[4096 - 19 * CL_CURSORS_LINE];

    cl_slot slots[CL_CURSORS_SLOTS];
    uint8_t readers[CL_CURSORS_SIZE - 8192 - CL_CURSORS_SLOTS * CL_CURSORS_LINE];
} cl_cursors;

_Static_assert(sizeof(cl_line) == CL_CURSORS_LINE, "a cell fills its line");
_Static_assert(sizeof(cl_slot) == CL_CURSORS_LINE, "a slot fills its line");
_Static_assert(offsetof(cl_cursors, state) == 4096, "cells start on the second page");
_Static_assert(offsetof(cl_cursors, slots) == 8192, "slots start on the third page");
_Static_assert(sizeof(cl_cursors) == CL_CURSORS_SIZE, "cursors is 64 KiB");
_Static_assert(CL_CURSORS_SLOTS <= CL_OWNER_SLOT_MASK, "a slot's index fits the owner word");

/* Slot locks are open-file-description locks on one byte each, past the file's end, so that a
 * handle can detect a dead owner even in another container or after its pid was reused. The owner
 * holds that byte of `lock` exclusively. It also holds that byte of `cursors` shared, for readers
 * that cannot open `lock` and for older releases, which lock it exclusively. A user who may only
 * read can place shared locks in `cursors`, but cannot open `lock`. */
#define CL_SLOT_LOCK_AT (1ll << 32)

/* Two open descriptions for slot locks, which are never mapped; -1: none. */
typedef struct {
    int lock; /* of `lock`; -1 for a reader that cannot open it */
    int cursors;
} cl_slot_fds;

#define CL_NO_SLOT_FDS ((cl_slot_fds){.lock = -1, .cursors = -1})

/* Takes a free slot. CL_E_SLOTS when all are taken. */
int cl_slot_attach(cl_cursors *cursors, cl_slot_fds fds, uint32_t *slot, uint32_t *generation);
void cl_slot_detach(cl_cursors *cursors, cl_slot_fds fds, uint32_t slot);

/* One handle at a time creates a segment, so that several handles do not each allocate disk space
 * for the same one. The lock, a byte of `lock`, is advisory: if its holder is stopped, other
 * handles proceed without it after a short timeout. Like a slot's lock, it is released when its
 * holder dies.
 */
#define CL_CREATION_LOCK_AT (CL_SLOT_LOCK_AT + CL_CURSORS_SLOTS)
bool cl_creation_try(cl_slot_fds fds);
void cl_creation_end(cl_slot_fds fds);

/* Whether other open descriptions hold the slot's locks. Must not be called for the caller's own
 * slot. */
bool cl_slot_alive(cl_slot_fds fds, uint32_t slot);

static inline uint32_t cl_owner(uint32_t slot, uint32_t generation) {
    return (generation & CL_OWNER_GENERATION_MASK) << CL_OWNER_SLOT_BITS | slot;
}
static inline uint32_t cl_owner_slot(uint32_t owner) { return owner & CL_OWNER_SLOT_MASK; }
static inline uint32_t cl_owner_generation(uint32_t owner) { return owner >> CL_OWNER_SLOT_BITS; }

#endif

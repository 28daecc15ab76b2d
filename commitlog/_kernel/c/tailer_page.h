/* `tailers/<name>`: where a named tailer stands, and on which terms it reads. One page, mapped by
 * its owner.
 *
 * Terms and place have two records each, in sectors of their own, which take turns: the valid one
 * with the higher count is in force. So a kill between two stores, or a torn sector, leaves the one
 * before. To save a place is a few stores into the mapping and no system call. */
#ifndef CL_TAILER_PAGE_H
#define CL_TAILER_PAGE_H

#include "atomics.h"
#include "crc32c.h"
#include "frame.h"

#define CL_TAILER_MAGIC 0x3130524C544C4D43ull /* "CMLTLR01" */
#define CL_TAILER_SIZE 4096u
#define CL_TAILER_MIX 0x9E3779B97F4A7C15ull
#define CL_TAILER_SALT 0x434D4C54u
#define CL_TAILER_TERMS_AT 0u
#define CL_TAILER_PLACES_AT 1024u
#define CL_TAILER_STRIDE 512u
#define CL_TAILER_DROPPED_AT                                                                       \
    2048u /* records that writers dropped because of this tailer: a counter, added to by any of    \
             them */

/* Written when the tailer is opened, evicted or reset. */
typedef struct {
    uint64_t magic;
    uint8_t log_uuid[CL_UUID_SIZE];
    uint64_t count;
    int64_t created_ns;
    int64_t evicted_ns; /* when it was last evicted; 0: never, or it was declared anew since */
    uint64_t max_lag_bytes; /* how far appends may be ahead of a required tailer; 0: any distance */
    int64_t owned_ns; /* since when its last owner has, or had, it */
    uint32_t pid; /* that owner: for people only, for it is the lock that tells who lives */
    uint32_t pid_namespace;
    uint32_t required;
    uint32_t crc;
} cl_tailer_terms;

typedef struct {
    uint64_t position;
    uint32_t count; /* goes round: of two records that take turns, the one that is one ahead is the
                       newer */
    uint32_t check; /* of position and count */
    int64_t saved_ns; /* for people, and not covered: when this save, or one shortly before it, was
                         made */
} cl_tailer_saved;

_Static_assert(sizeof(cl_tailer_terms) == 80, "a tailer's terms are 80 bytes");
_Static_assert(sizeof(cl_tailer_saved) == 24, "a tailer's saved is 24 bytes");

/* What tells a whole record from a torn or damaged one. A CRC would be a call, which is half of
 * what a save may cost; to multiply mixes these twelve bytes as well. A page of zeros is none. */
static inline uint32_t cl_tailer_saved_check(uint64_t position, uint32_t count) {
    return (uint32_t)((position ^ ((uint64_t)count << 32 | count)) * CL_TAILER_MIX >> 32) ^
           CL_TAILER_SALT;
}

/* How often this process is the child of a fork: a page mapped before the last one is the parent's.
 */
extern uint32_t cl_tailer_forks;

/* The record in force, from a page that others may be writing to. CL_E_ABSENT: none is valid;
 * CL_E_FOREIGN: they are another log's. */
int cl_tailer_read_terms(const uint8_t *page, const uint8_t *log_uuid, cl_tailer_terms *terms);
int cl_tailer_read_saved(const uint8_t *page, cl_tailer_saved *saved);

/* Writes the record after the one with terms->count, which it raises. One writer at a time. */
void cl_tailer_write_terms(uint8_t *page, cl_tailer_terms *terms);

/* To ask for the time takes as long as all the rest of a save. */
#define CL_TAILER_CLOCK_EVERY 16u

/* The place of a tailer, in the process that reads. */
typedef struct {
    uint8_t *page;
    uint64_t saved; /* the position that was saved last */
    int64_t now_ns; /* the time as of one of the last saves */
    uint32_t count; /* of the last save */
    uint32_t forks; /* of this process, when the page was mapped */
    bool with_care; /* the next save is more than the stores: see `TailerPage.save_position` */
} cl_tailer_mark;

/* Saves a position. The stores are made in this order, and no store of the next save, which
 * overwrites the record before, is seen ahead of them: whoever reads the page meanwhile, the disk
 * among them, finds one of the two records whole. */
static inline void cl_tailer_save(cl_tailer_mark *mark, uint64_t position) {
    cl_assert(mark->forks, ==, cl_tailer_forks);
    uint32_t next = ++mark->count;
    cl_tailer_saved *saved =
        (cl_tailer_saved *)(mark->page + CL_TAILER_PLACES_AT + next % 2 * CL_TAILER_STRIDE);
    cl_store(&saved->position, position);
    cl_store32(&saved->count, next);
    cl_store32(&saved->check, cl_tailer_saved_check(position, next));
    cl_store((uint64_t *)&saved->saved_ns, (uint64_t)mark->now_ns);
    mark->saved = position;
}

/* The same, where that is all there is to do; false, and nothing was saved, where it is not. */
static inline bool cl_tailer_save_plainly(cl_tailer_mark *mark, uint64_t position) {
    if (mark->with_care || mark->forks != cl_tailer_forks ||
        mark->count % CL_TAILER_CLOCK_EVERY == 0 || position == mark->saved) {
        return false;
    }
    cl_tailer_save(mark, position);
    return true;
}

#endif

/* `tailers/<name>`: the position and the terms of a named tailer. One page, which its owner maps.
 *
 * Terms and position have two records each, in separate sectors, which are written alternately: the
 * valid one with the higher count is in force. A kill between two stores, or a torn sector, thus
 * leaves the previous record. Saving a position takes a few stores into the mapping and no system
 * call. */
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
    2048u /* records that writers dropped because of this tailer; every writer adds to this        \
             counter */

/* Written when the tailer is opened, evicted or reset. */
typedef struct {
    uint64_t magic;
    uint8_t log_uuid[CL_UUID_SIZE];
    uint64_t count;
    int64_t created_ns;
    int64_t evicted_ns; /* when it was last evicted; 0: never, or not since it was declared again */
    uint64_t max_lag_bytes; /* how far appends may be ahead of a required tailer; 0: any distance */
    int64_t owned_ns; /* when its current or last owner took it */
    uint32_t pid; /* that owner: diagnostic only, the lock shows whether it lives */
    uint32_t pid_namespace;
    uint32_t required;
    uint32_t crc;
} cl_tailer_terms;

typedef struct {
    uint64_t position;
    uint32_t count; /* wraps around: the newer of the two records is one ahead */
    uint32_t check; /* of position and count */
    int64_t saved_ns; /* diagnostic only, not covered by `check`: the time of this save, or of one
                         shortly before */
} cl_tailer_saved;

_Static_assert(sizeof(cl_tailer_terms) == 80, "a tailer's terms are 80 bytes");
_Static_assert(sizeof(cl_tailer_saved) == 24, "a tailer's saved is 24 bytes");

/* Tells a whole record from a torn or damaged one. A CRC would be a function call, which is half of
 * the time that a save may take; a multiplication mixes these twelve bytes as well. A page of zeros
 * is no valid record. */
static inline uint32_t cl_tailer_saved_check(uint64_t position, uint32_t count) {
    return (uint32_t)((position ^ ((uint64_t)count << 32 | count)) * CL_TAILER_MIX >> 32) ^
           CL_TAILER_SALT;
}

/* How many forks lie between this process and the first: a page mapped before the last fork is the
 * parent's. */
extern uint32_t cl_tailer_forks;

/* Reads the record in force, from a page that another process may be writing. CL_E_ABSENT: no
 * record is valid; CL_E_FOREIGN: they belong to another log. */
int cl_tailer_read_terms(const uint8_t *page, const uint8_t *log_uuid, cl_tailer_terms *terms);
int cl_tailer_read_saved(const uint8_t *page, cl_tailer_saved *saved);

/* Writes the record that follows terms->count, and raises the count. One writer at a time. */
void cl_tailer_write_terms(uint8_t *page, cl_tailer_terms *terms);

/* Reading the clock takes as long as the rest of a save. */
#define CL_TAILER_CLOCK_EVERY 16u

/* A tailer's position, in the process that reads. */
typedef struct {
    uint8_t *page;
    uint64_t saved; /* the last saved position */
    int64_t now_ns; /* the time as of one of the last saves */
    uint32_t count; /* of the last save */
    uint32_t forks; /* of this process, when the page was mapped */
    bool with_care; /* the next save takes more than the stores: see `TailerPage.save_position` */
} cl_tailer_mark;

/* Saves a position. The stores become visible in this order, and before any store of the next save,
 * which overwrites the older record. A concurrent reader of the page, or writeback, therefore
 * always sees one complete record. */
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
    cl_assert(cl_tailer_saved_check(saved->position, saved->count), ==, saved->check);
}

/* As cl_tailer_save, if the stores are all that the save needs; otherwise returns false and saves
 * nothing. */
static inline bool cl_tailer_save_plainly(cl_tailer_mark *mark, uint64_t position) {
    if (mark->with_care || mark->forks != cl_tailer_forks ||
        mark->count % CL_TAILER_CLOCK_EVERY == 0 || position == mark->saved) {
        return false;
    }
    cl_tailer_save(mark, position);
    return true;
}

#endif

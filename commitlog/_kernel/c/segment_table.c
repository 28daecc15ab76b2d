/* The segments that a handle has open, by number. */
#include <stdlib.h>
#include <string.h>

#include "atomics.h"
#include "segment.h"

#define TRIM_ONCE 16u /* segments that a trim takes out of the table at once */

/* The tables of this process, for a fork: a child that inherited one in the middle of a change
 * would follow pointers to freed memory. */
static cl_table *tables;
static pthread_mutex_t tables_mutex = PTHREAD_MUTEX_INITIALIZER;

static void lock_tables(void) {
    pthread_mutex_lock(&tables_mutex);
    for (cl_table *table = tables; table != NULL; table = table->next_table) {
        pthread_mutex_lock(&table->mutex);
    }
}

static void unlock_tables(void) {
    for (cl_table *table = tables; table != NULL; table = table->next_table) {
        pthread_mutex_unlock(&table->mutex);
    }
    pthread_mutex_unlock(&tables_mutex);
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(lock_tables, unlock_tables, unlock_tables);
}

int cl_table_init(cl_table *table, int dir_fd, const uint8_t *log_uuid, uint64_t segment_size,
                  bool writable) {
    *table = (cl_table){.dir_fd = dir_fd, .writable = writable, .segment_size = segment_size};
    memcpy(table->log_uuid, log_uuid, sizeof table->log_uuid);
    if (pthread_mutex_init(&table->mutex, NULL) != 0) {
        return CL_E_MEMORY;
    }
    pthread_mutex_lock(&tables_mutex);
    table->next_table = tables;
    tables = table;
    pthread_mutex_unlock(&tables_mutex);
    return CL_OK;
}

void cl_table_after_fork(cl_table *table) {
    for (size_t index = 0; index < table->count; index++) {
        table->entries[index]->tallied =
            0; /* a thread of the parent may have been counting: the tally is invalid */
    }
}

void cl_table_clear(cl_table *table) {
    pthread_mutex_lock(&tables_mutex);
    for (cl_table **at = &tables; *at != NULL; at = &(*at)->next_table) {
        if (*at == table) {
            *at = table->next_table;
            break;
        }
    }
    pthread_mutex_unlock(&tables_mutex);
    for (size_t index = 0; index < table->count; index++) {
        cl_assert(cl_load32(&table->entries[index]->references), >, 0);
        cl_segment_release(table->entries[index]);
    }
    free(table->entries);
    table->entries = NULL;
    table->count = table->room = 0;
}

/* The first entry whose number is not below `number`. */
static size_t table_find(const cl_table *table, uint64_t number) {
    size_t low = 0;
    size_t high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->entries[middle]->number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int table_insert(cl_table *table, size_t at, cl_segment *segment) {
    cl_assert(at, <=, table->count);
    cl_assert(at == 0 || table->entries[at - 1]->number < segment->number, ==, true);
    cl_assert(at == table->count || table->entries[at]->number > segment->number, ==, true);
    if (table->count == table->room) {
        size_t room = table->room == 0 ? 16 : table->room * 2;
        cl_segment **entries = realloc(table->entries, room * sizeof *entries);
        if (entries == NULL) {
            return CL_E_MEMORY;
        }
        table->entries = entries;
        table->room = room;
    }
    memmove(&table->entries[at + 1], &table->entries[at],
            (table->count - at) * sizeof *table->entries);
    table->entries[at] = segment;
    table->count++;
    cl_assert(table->count, <=, table->room);
    return CL_OK;
}

static void table_remove(cl_table *table, size_t at) {
    cl_assert(at, <, table->count);
    table->count--;
    memmove(&table->entries[at], &table->entries[at + 1],
            (table->count - at) * sizeof *table->entries);
    cl_assert(at == 0 || at == table->count ||
                  table->entries[at - 1]->number < table->entries[at]->number,
              ==, true);
}

/* Returns the segment that the table holds under that number, with one more reference. If it holds
 * none, inserts `opened`; returns NULL if there is none either. */
static cl_segment *table_hold(cl_table *table, uint64_t number, cl_segment *opened, int *code) {
    cl_segment *held = NULL;
    pthread_mutex_lock(&table->mutex);
    size_t at = table_find(table, number);
    if (at < table->count && table->entries[at]->number == number) {
        held = table->entries[at];
    } else if (opened != NULL && (*code = table_insert(table, at, opened)) == CL_OK) {
        held = opened;
    }
    if (held != NULL) {
        cl_assert(held->number, ==, number);
        cl_segment_hold(held);
    }
    pthread_mutex_unlock(&table->mutex);
    return held;
}

int cl_table_acquire(cl_table *table, uint64_t number, cl_segment **out) {
    int code = CL_OK;
    *out = table_hold(table, number, NULL, &code);
    if (*out != NULL) {
        return CL_OK;
    }
    /* Opening reads from the disk, so it is done without the mutex. Of two threads that open the
     * same segment one keeps its own. */
    cl_segment *opened;
    code = cl_segment_open(table->dir_fd, number, table->segment_size, table->log_uuid,
                           table->writable, &opened);
    if (code != CL_OK) {
        return code;
    }
    *out = table_hold(table, number, opened, &code);
    if (*out != opened) {
        cl_segment_release(opened);
    }
    cl_assert(*out != NULL, ==, code == CL_OK);
    return code;
}

uint32_t cl_table_forget(cl_table *table, uint64_t number) {
    cl_segment *segment = NULL;
    pthread_mutex_lock(&table->mutex);
    size_t at = table_find(table, number);
    if (at < table->count && table->entries[at]->number == number) {
        segment = table->entries[at];
        cl_assert(cl_load32(&segment->references), >, 0);
        table_remove(table, at);
    }
    uint32_t others = segment == NULL ? 0 : cl_load32(&segment->references) - 1;
    pthread_mutex_unlock(&table->mutex);
    cl_segment_release(segment);
    return others;
}

/* Takes up to TRIM_ONCE segments that cl_table_trim may drop out of the table, and returns their
 * number. */
static size_t take_idle(cl_table *table, uint64_t number, size_t keep,
                        cl_segment *taken[TRIM_ONCE]) {
    size_t count = 0;
    pthread_mutex_lock(&table->mutex);
    for (size_t at = 0; at < table->count && table->count > keep &&
                        table->entries[at]->number < number && count < TRIM_ONCE;) {
        cl_segment *segment = table->entries[at];
        if (cl_load32(&segment->references) > 1) {
            at++;
            continue;
        }
        table_remove(table, at);
        cl_assert(cl_load32(&segment->references), ==, 1);
        taken[count++] = segment;
    }
    pthread_mutex_unlock(&table->mutex);
    return count;
}

void cl_table_trim(cl_table *table, uint64_t number, size_t keep) {
    cl_segment *taken[TRIM_ONCE];
    size_t count;
    /* Each round leaves the table shorter. */
    do {
        count = take_idle(table, number, keep, taken);
        /* Unmapping takes milliseconds, and an append that rolls takes the mutex. */
        for (size_t index = 0; index < count; index++) {
            cl_segment_release(taken[index]);
        }
    } while (count == TRIM_ONCE);
}

#include "tailer_page.h"

#include <pthread.h>
#include <string.h>

#define WORDS_MOST (sizeof(cl_tailer_terms) / sizeof(uint64_t)) /* of a record */
#define LOOKS 1000 /* reads of a page whose owner writes both records faster than one is read */

uint32_t cl_tailer_forks;

static void count_fork(void) { cl_tailer_forks++; }

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, count_fork);
}

/* Copies 8-byte words, each loaded and stored once, in order: another process may access the
 * page. */
static void read_record(const uint8_t *page, size_t at, void *record, size_t size) {
    uint64_t words[WORDS_MOST];
    for (size_t index = 0; index < size / sizeof *words; index++) {
        words[index] = cl_load((const uint64_t *)(page + at) + index);
    }
    memcpy(record, words, size);
}

static void write_record(uint8_t *page, size_t at, const void *record, size_t size) {
    uint64_t words[WORDS_MOST];
    memcpy(words, record, size);
    for (size_t index = 0; index < size / sizeof *words; index++) {
        cl_store((uint64_t *)(page + at) + index, words[index]);
    }
}

static uint32_t terms_crc(const cl_tailer_terms *terms) {
    return cl_crc32c(0, terms, offsetof(cl_tailer_terms, crc));
}

int cl_tailer_read_terms(const uint8_t *page, const uint8_t *log_uuid, cl_tailer_terms *terms) {
    bool found = false;
    for (int look = 0; look < LOOKS && !found; look++) {
        for (uint32_t turn = 0; turn < 2; turn++) {
            cl_tailer_terms record;
            read_record(page, CL_TAILER_TERMS_AT + turn * CL_TAILER_STRIDE, &record, sizeof record);
            if (record.magic == CL_TAILER_MAGIC && terms_crc(&record) == record.crc &&
                (!found || record.count > terms->count)) {
                *terms = record;
                found = true;
            }
        }
    }
    if (!found) {
        return CL_E_ABSENT;
    }
    return memcmp(terms->log_uuid, log_uuid, sizeof terms->log_uuid) == 0 ? CL_OK : CL_E_FOREIGN;
}

int cl_tailer_read_saved(const uint8_t *page, cl_tailer_saved *saved) {
    bool found = false;
    for (int look = 0; look < LOOKS && !found; look++) {
        for (uint32_t turn = 0; turn < 2; turn++) {
            cl_tailer_saved record;
            read_record(page, CL_TAILER_PLACES_AT + turn * CL_TAILER_STRIDE, &record,
                        sizeof record);
            bool valid = cl_tailer_saved_check(record.position, record.count) == record.check;
            if (valid && (!found || (int32_t)(record.count - saved->count) > 0)) {
                *saved = record;
                found = true;
            }
        }
    }
    return found ? CL_OK : CL_E_ABSENT;
}

void cl_tailer_write_terms(uint8_t *page, cl_tailer_terms *terms) {
    terms->count++;
    terms->crc = terms_crc(terms);
    write_record(page, CL_TAILER_TERMS_AT + terms->count % 2 * CL_TAILER_STRIDE, terms,
                 sizeof *terms);
#ifdef CL_ASSERT
    cl_tailer_terms written;
    cl_assert(cl_tailer_read_terms(page, terms->log_uuid, &written), ==, CL_OK);
    cl_assert(written.count, ==, terms->count);
#endif
}

/* threads */
/* The page of a named tailer: writes alternate between two records, the newer valid one counts, and
 * a concurrent reader sees only what the writer wrote. */
#include "kernel_test.h"

#include <pthread.h>
#include <sys/wait.h>

#include "tailer_page.h"

#define SAVES 200000u
#define TERMS_EVERY 16u

static const uint8_t UUID[16] = "a log's identity";
static _Alignas(64) uint8_t page[CL_TAILER_SIZE];

static uint8_t *terms_at(uint64_t count) {
    return page + CL_TAILER_TERMS_AT + count % 2 * CL_TAILER_STRIDE;
}
static uint8_t *place_at(uint64_t count) {
    return page + CL_TAILER_PLACES_AT + count % 2 * CL_TAILER_STRIDE;
}

/* The n-th saved position is a function of n, and so are the n-th terms. */
static uint64_t position_of(uint32_t count) { return (uint64_t)count * 0x9E3779B1u * 8; }

static cl_tailer_terms first_terms(void) {
    cl_tailer_terms terms = {.magic = CL_TAILER_MAGIC};
    memcpy(terms.log_uuid, UUID, sizeof UUID);
    return terms;
}

static void declare(cl_tailer_terms *terms) {
    terms->max_lag_bytes = terms->count + 1;
    terms->created_ns = -(int64_t)terms->count - 1;
    terms->required = (uint32_t)terms->count * 0x9E3779B1u;
    cl_tailer_write_terms(page, terms);
}

static void check_terms(uint64_t count) {
    cl_tailer_terms terms;
    CHECK(cl_tailer_read_terms(page, UUID, &terms) == CL_OK);
    CHECK(terms.count == count && terms.max_lag_bytes == count &&
          terms.created_ns == -(int64_t)count);
    CHECK(terms.required == (uint32_t)(count - 1) * 0x9E3779B1u);
}

static void check_place(uint32_t count) {
    cl_tailer_saved place;
    CHECK(cl_tailer_read_saved(page, &place) == CL_OK);
    CHECK(place.count == count && place.position == position_of(count));
}

static void save(cl_tailer_mark *mark) { cl_tailer_save(mark, position_of(mark->count + 1)); }

static cl_tailer_mark empty_page(uint32_t count) {
    memset(page, 0, sizeof page);
    return (cl_tailer_mark){.page = page, .count = count, .forks = cl_tailer_forks};
}

static void saved_positions_alternate(void) {
    cl_tailer_mark mark = empty_page(0);
    for (uint32_t count = 1; count < 100; count++) {
        uint8_t other[sizeof(cl_tailer_saved)];
        memcpy(other, place_at(count + 1), sizeof other);
        mark.now_ns = 1000 + count;
        save(&mark);
        cl_tailer_saved record;
        memcpy(&record, place_at(count), sizeof record);
        CHECK(record.position == position_of(count) && record.count == count &&
              record.saved_ns == 1000 + count);
        CHECK(memcmp(other, place_at(count + 1), sizeof other) == 0);
        CHECK(mark.saved == position_of(count));
        check_place(count);
    }
}

static void terms_alternate(void) {
    cl_tailer_terms terms = first_terms();
    empty_page(0);
    for (uint64_t count = 1; count < 100; count++) {
        uint8_t other[sizeof(cl_tailer_terms)];
        memcpy(other, terms_at(count + 1), sizeof other);
        declare(&terms);
        CHECK(terms.count == count && memcmp(terms_at(count), &terms, sizeof terms) == 0);
        CHECK(memcmp(other, terms_at(count + 1), sizeof other) == 0);
        check_terms(count);
    }
}

/* Flips each bit, and then all bits, of each byte that the newest record's check covers. */
static void damaged_position_leaves_the_previous_one(void) {
    cl_tailer_mark mark = empty_page(6);
    save(&mark);
    save(&mark);
    for (size_t at = 0; at < offsetof(cl_tailer_saved, saved_ns); at++) {
        for (uint32_t flipped = 1; flipped <= 0x100; flipped *= 2) {
            uint8_t bits = flipped == 0x100 ? 0xFF : (uint8_t)flipped;
            place_at(8)[at] ^= bits;
            check_place(7);
            place_at(8)[at] ^= bits;
        }
    }
    check_place(8);
    place_at(8)[offsetof(cl_tailer_saved, saved_ns)] ^= 1; /* for information only, not covered */
    check_place(8);
}

static void damaged_terms_leave_the_previous_ones(void) {
    cl_tailer_terms terms = first_terms();
    empty_page(0);
    declare(&terms);
    declare(&terms);
    for (size_t at = 0; at < sizeof terms; at++) {
        for (uint32_t flipped = 1; flipped <= 0x100; flipped *= 2) {
            uint8_t bits = flipped == 0x100 ? 0xFF : (uint8_t)flipped;
            terms_at(2)[at] ^= bits;
            check_terms(1);
            terms_at(2)[at] ^= bits;
        }
    }
    check_terms(2);
}

/* A record fits in a sector. A power cut while it is written leaves its first bytes new and the
 * rest from two records before, or the other way round. */
static void torn_record_leaves_the_previous_one(void) {
    cl_tailer_mark mark = empty_page(0);
    cl_tailer_terms terms = first_terms();
    uint8_t before[CL_TAILER_SIZE], after[CL_TAILER_SIZE];
    for (uint32_t count = 1; count <= 3; count++) {
        memcpy(before, page, sizeof page);
        save(&mark);
        declare(&terms);
    }
    memcpy(after, page, sizeof page);
    for (int back = 0; back < 2; back++) {
        const uint8_t *head = back ? before : after, *rest = back ? after : before;
        for (size_t at = 0; at <= sizeof terms; at++) {
            size_t place_end = at < sizeof(cl_tailer_saved) ? at : sizeof(cl_tailer_saved);
            memcpy(page, rest, sizeof page);
            memcpy(terms_at(3), head + (terms_at(3) - page), at);
            memcpy(place_at(3), head + (place_at(3) - page), place_end);
            bool terms_new = memcmp(terms_at(3), after + (terms_at(3) - page), sizeof terms) == 0;
            bool place_new = memcmp(place_at(3), after + (place_at(3) - page),
                                    offsetof(cl_tailer_saved, saved_ns)) == 0;
            check_terms(terms_new ? 3 : 2);
            check_place(place_new ? 3 : 2);
        }
    }
}

static void check_absent(void) {
    cl_tailer_terms terms;
    cl_tailer_saved place;
    CHECK(cl_tailer_read_terms(page, UUID, &terms) == CL_E_ABSENT &&
          cl_tailer_read_saved(page, &place) == CL_E_ABSENT);
}

static void random_bytes_hold_no_record(void) {
    uint64_t state = 77;
    empty_page(0);
    check_absent();
    memset(page, 0xFF, sizeof page);
    check_absent();
    for (int turn = 0; turn < 100; turn++) {
        for (size_t at = 0; at < sizeof page; at += sizeof state) {
            next_random(&state);
            memcpy(page + at, &state, sizeof state);
        }
        check_absent();
        /* The magic alone is no valid record. */
        uint64_t magic = CL_TAILER_MAGIC;
        memcpy(terms_at(0), &magic, sizeof magic);
        memcpy(terms_at(1), &magic, sizeof magic);
        check_absent();
    }
}

static void terms_of_another_log_are_foreign(void) {
    cl_tailer_terms terms = first_terms();
    uint8_t other[16];
    empty_page(0);
    declare(&terms);
    for (size_t at = 0; at < sizeof other; at++) {
        memcpy(other, UUID, sizeof other);
        other[at] ^= 1;
        CHECK(cl_tailer_read_terms(page, other, &terms) == CL_E_FOREIGN);
    }
    check_terms(1);
}

static void count_of_positions_wraps_around(void) {
    cl_tailer_mark mark = empty_page(UINT32_MAX - 5);
    for (uint32_t count = UINT32_MAX - 4; count != 6; count++) {
        save(&mark);
        check_place(count);
    }
    CHECK(mark.count == 5);
}

/* A plain save works only in the process that mapped the page and for a new position; it reads the
 * clock once in CL_TAILER_CLOCK_EVERY saves. */
static void save_that_needs_more_than_stores_is_not_plain(void) {
    cl_tailer_mark mark = empty_page(1);
    CHECK(cl_tailer_save_plainly(&mark, position_of(2)));
    check_place(2);
    CHECK(!cl_tailer_save_plainly(&mark, position_of(2)));
    mark.with_care = true;
    CHECK(!cl_tailer_save_plainly(&mark, position_of(3)));
    mark.with_care = false;
    for (uint32_t count = 3; count <= CL_TAILER_CLOCK_EVERY; count++) {
        CHECK(cl_tailer_save_plainly(&mark, position_of(count)));
    }
    CHECK(!cl_tailer_save_plainly(&mark, position_of(CL_TAILER_CLOCK_EVERY + 1)));
    check_place(CL_TAILER_CLOCK_EVERY);
}

static void forked_child_does_not_save_plainly(void) {
    cl_tailer_mark mark = empty_page(1);
    uint32_t forks = cl_tailer_forks;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        bool refused = !cl_tailer_save_plainly(&mark, position_of(2)) && mark.count == 1 &&
                       cl_tailer_forks == forks + 1;
        mark.forks = cl_tailer_forks; /* as for a page that the child maps itself */
        _exit(refused && cl_tailer_save_plainly(&mark, position_of(2)) ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(cl_tailer_forks == forks && cl_tailer_save_plainly(&mark, position_of(2)));
}

static uint32_t saved, declared; /* number of complete writes */

static void *save_on(void *argument) {
    cl_tailer_mark *mark = argument;
    cl_tailer_terms terms = first_terms();
    for (uint32_t count = 1; count <= SAVES; count++) {
        save(mark);
        cl_store32(&saved, count);
        if (count % TERMS_EVERY == 0) {
            declare(&terms);
            cl_store32(&declared, (uint32_t)terms.count);
        }
    }
    return NULL;
}

/* A reader gets a record that was written as a whole and is at most one record older than the last
 * one complete when the read began. */
static void concurrent_reader_sees_only_complete_records(void) {
    cl_tailer_mark mark = empty_page(0);
    pthread_t writer;
    CHECK(pthread_create(&writer, NULL, save_on, &mark) == 0);
    for (uint32_t complete = 0; complete < SAVES;) {
        cl_tailer_terms terms;
        cl_tailer_saved place;
        uint32_t complete_terms = cl_load32(&declared);
        complete = cl_load32(&saved);
        int code = cl_tailer_read_saved(page, &place);
        CHECK(code == CL_OK || (code == CL_E_ABSENT && complete < 2));
        CHECK(code != CL_OK || (place.position == position_of(place.count) &&
                                place.count + 1 >= complete && place.count <= SAVES));
        code = cl_tailer_read_terms(page, UUID, &terms);
        CHECK(code == CL_OK || (code == CL_E_ABSENT && complete_terms < 2));
        CHECK(code != CL_OK ||
              (terms.max_lag_bytes == terms.count && terms.count + 1 >= complete_terms));
        CHECK(code != CL_OK ||
              (terms.created_ns == -(int64_t)terms.count && terms.count <= SAVES / TERMS_EVERY));
    }
    pthread_join(writer, NULL);
    check_place(SAVES);
    check_terms(SAVES / TERMS_EVERY);
}

int main(void) {
    saved_positions_alternate();
    terms_alternate();
    damaged_position_leaves_the_previous_one();
    damaged_terms_leave_the_previous_ones();
    torn_record_leaves_the_previous_one();
    random_bytes_hold_no_record();
    terms_of_another_log_are_foreign();
    count_of_positions_wraps_around();
    save_that_needs_more_than_stores_is_not_plain();
    forked_child_does_not_save_plainly();
    concurrent_reader_sees_only_complete_records();
    return 0;
}

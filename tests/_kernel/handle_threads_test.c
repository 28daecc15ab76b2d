/* threads */
/* The threads of one handle, which share its mappings: one appends and rolls, others read, commit
 * and flush, seal and trim, open and close handles beside it, and fork. Handles of different
 * processes map a segment at different addresses, where no thread sanitizer sees that two accesses
 * meet: here they do. */
#include "kernel_test.h"

#include <sys/wait.h>

#define RECORDS 20000u
#define FORKS 4u
#define LONGEST 300u

/* The children of forks are as those of a Python process: they use what they have inherited. */
const char *__tsan_default_options(void) { return "die_after_fork=0"; }

typedef struct {
    test_place place;
    test_handle handle;
    bool plain;    /* appends with plain stores, as a pooled log */
    uint64_t done; /* 1: everything is appended */
} scene;

static uint32_t length_of(uint64_t number) { return 8u + (uint32_t)(number * 7 % LONGEST); }

static void check(const cl_record *record, uint64_t number) {
    uint64_t found;
    CHECK(record->value_length == length_of(number));
    memcpy(&found, record->value, sizeof found);
    CHECK(found == number);
    for (uint32_t at = sizeof found; at < record->value_length; at++) {
        CHECK(record->value[at] == (uint8_t)number);
    }
}

static void *append_all(void *argument) {
    scene *made = argument;
    uint8_t value[8 + LONGEST];
    for (uint64_t number = 0; number < RECORDS; number++) {
        memset(value, (uint8_t)number, sizeof value);
        memcpy(value, &number, sizeof number);
        append_value(&made->handle, value, length_of(number));
    }
    cl_store(&made->done, 1);
    return NULL;
}

static void *read_records(void *argument) {
    scene *made = argument;
    test_reader reader;
    cl_record record;
    open_reader(&reader, &made->handle.log);
    for (uint64_t number = 0; number < RECORDS;) {
        bool is_short = cl_reader_next_short(&reader.reader, &record);
        int code = is_short ? CL_OK : read_on(&reader, &record);
        CHECK(code == CL_OK || code == CL_E_END || code == CL_E_BUSY);
        if (code == CL_OK) {
            check(&record, number++);
        }
    }
    close_reader(&reader);
    return NULL;
}

/* In batches, and only what is durable. */
static void *read_durable(void *argument) {
    scene *made = argument;
    static int64_t ends[64];
    static uint8_t bytes[64 * (8 + LONGEST)];
    test_reader reader;
    uint64_t number = 0;
    open_reader(&reader, &made->handle.log);
    reader.reader.watermark = &made->place.cursors->flushed.value;
    while (number < RECORDS) {
        cl_batch batch = {
            .value_ends = ends, .data = bytes, .data_room = sizeof bytes - 16, .most = 64};
        int code = cl_reader_batch(&reader.reader, &batch);
        const uint8_t *at = bytes;
        for (size_t row = 0; row < batch.count; row++) {
            cl_record record = {.value = at, .value_length = (uint32_t)(bytes + ends[row] - at)};
            check(&record, number++);
            at = bytes + ends[row];
        }
        CHECK(code == CL_E_FULL || code == CL_E_END || code == CL_E_ROLL);
        if (code == CL_E_ROLL) {
            reader_enter(&reader, reader.held->number + 1, 0);
        }
    }
    close_reader(&reader);
    return NULL;
}

static void *flush_all(void *argument) {
    scene *made = argument;
    cl_log *log = &made->handle.log;
    bool last;
    do {
        last = cl_load(&made->done) != 0;
        CHECK(cl_flush(log, cl_log_position(log, cl_load(log->tail)),
                       cl_clock_monotonic_ns() + PATIENCE_NS) == CL_OK);
        cl_table_trim(&log->table, cl_load(&log->cursors->flushed.value) / log->segment_size, 2);
    } while (!last);
    return NULL;
}

/* Seals what is committed, in order, as the allocation service does. */
static void *seal_all(void *argument) {
    scene *made = argument;
    cl_log *log = &made->handle.log;
    uint64_t sequence = 0;
    for (uint64_t number = 0; cl_load(&made->done) == 0; number++) {
        cl_header_seal seal;
        cl_segment *segment;
        while (cl_load(&log->cursors->committed.value) < (number + 1) * SMALL &&
               cl_load(&made->done) == 0) {
            cl_sleep_ns(MILLISECOND / 4);
        }
        if (cl_load(&made->done) != 0) {
            break;
        }
        CHECK(cl_table_acquire(&log->table, number, &segment) == CL_OK);
        cl_log_pass_commits(log);
        CHECK(cl_segment_seal(segment, sequence, NULL) == CL_OK);
        CHECK(cl_segment_sealed(segment, &seal) == CL_OK && seal.first_sequence == sequence);
        sequence += seal.record_count;
        cl_segment_release(segment);
    }
    return NULL;
}

/* Other handles of the log come, read and go; their segments are forgotten, as after a deletion. */
static void *come_and_go(void *argument) {
    scene *made = argument;
    for (uint64_t round = 0; cl_load(&made->done) == 0; round++) {
        test_handle other;
        cl_segment *segment;
        if (round % 2 == 0 && !made->plain) {
            open_handle(&made->place, &other, false);
        } else {
            open_observer(&made->place, &other);
        }
        uint64_t appended;
        CHECK(cl_log_appended(&other.log, &appended) == CL_OK);
        if (cl_table_acquire(&other.log.table, round % 4, &segment) == CL_OK) {
            CHECK(cl_table_forget(&other.log.table, round % 4) == 1);
            cl_segment_release(segment);
        }
        close_handle(&other);
        cl_sleep_ns(MILLISECOND);
    }
    return NULL;
}

/* The child of a fork reads what its parent has appended so far. */
static void be_child(scene *made) {
    test_reader reader;
    cl_record record;
    uint64_t number = 0;
    int code;
    cl_log_after_fork(&made->handle.log);
    made->handle.log.resolves = false; /* it has no slot of its own */
    open_reader(&reader, &made->handle.log);
    while ((code = read_on(&reader, &record)) == CL_OK) {
        check(&record, number++);
    }
    _exit(code == CL_E_END || code == CL_E_BUSY ? 0 : 1);
}

static void *fork_some(void *argument) {
    scene *made = argument;
    for (uint32_t turn = 0; turn < FORKS; turn++) {
        int status;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            be_child(made);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    return NULL;
}

static void threads_of_a_handle_share_its_segments(bool plain) {
    void *(*const works[])(void *) = {append_all, read_records, read_records, read_durable,
                                      flush_all,  seal_all,     come_and_go,  fork_some};
    pthread_t threads[sizeof works / sizeof *works];
    static scene made;
    made = (scene){.plain = plain};
    make_place(&made.place, SMALL);
    open_handle(&made.place, &made.handle, plain);
    for (size_t at = 0; at < sizeof works / sizeof *works; at++) {
        CHECK(pthread_create(&threads[at], NULL, works[at], &made) == 0);
    }
    for (size_t at = 0; at < sizeof works / sizeof *works; at++) {
        CHECK(pthread_join(threads[at], NULL) == 0);
    }
    CHECK(scan_log(&made.handle) == RECORDS);
    close_handle(&made.handle);
    drop_place(&made.place);
}

int main(void) {
    threads_of_a_handle_share_its_segments(false);
    threads_of_a_handle_share_its_segments(true);
    return 0;
}

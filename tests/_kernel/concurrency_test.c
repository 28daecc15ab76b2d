/* threads */
/* Several writers, each with its own handle, table and slot, as separate processes have them, on
 * one directory and `cursors` file. They roll over small segments while readers follow and other
 * threads flush; some are killed with an open claim. No record is lost, duplicated or out of order.
 */
#include "kernel_test.h"

#include <sys/syscall.h>
#include <sys/wait.h>

#define WRITERS 4u
#define RECORDS 6000u /* of each writer */
#define DEATHS 5u
#define LONGEST 1500u

typedef struct {
    uint32_t writer;
    uint32_t sequence;
} test_stamp;

typedef struct {
    test_place *place;
    uint32_t number;
    uint64_t seed;
    bool dies;
    uint32_t *finished; /* number of writers that have finished */
} test_task;

static void fill_value(uint8_t *value, uint32_t length, test_stamp stamp) {
    memset(value, (int)(stamp.writer * 31 + stamp.sequence), length);
    memcpy(value, &stamp, sizeof stamp);
}

/* Simulates a kill between claim and publish: the slot's lock is released, the CLAIMED cell stays.
 */
static void die_and_reopen(test_handle *handle, test_place *place) {
    cl_claim claim;
    int code;
    while ((code = claim_bytes(&handle->writer, 100, &claim)) == CL_E_ROLL) {
        roll_on(handle);
    }
    CHECK(code == CL_OK);
    kill_handle(handle);
    forget_killed(handle);
    open_handle(place, handle, false);
}

static void *write_records(void *argument) {
    test_task *task = argument;
    test_handle handle;
    uint8_t value[LONGEST];
    open_handle(task->place, &handle, false);
    for (uint32_t sequence = 0; sequence < RECORDS;) {
        uint64_t chance = next_random(&task->seed);
        uint32_t length =
            (uint32_t)(sizeof(test_stamp) +
                       chance % (chance % 7 == 0 ? LONGEST - sizeof(test_stamp) : 100));
        if (task->dies && sequence % (RECORDS / DEATHS) == RECORDS / DEATHS - 1) {
            die_and_reopen(&handle, task->place);
        }
        if (chance % 5 != 0) {
            fill_value(value, length, (test_stamp){task->number, sequence++});
            append_value(&handle, value, length);
            continue;
        }
        /* One append in five is a batch of rows. */
        uint32_t rows_count = (uint32_t)(chance / 64 % 20) + 1;
        rows_count = rows_count < RECORDS - sequence ? rows_count : RECORDS - sequence;
        uint8_t rows[20 * 16];
        int64_t positions[20];
        for (uint32_t row = 0; row < rows_count; row++) {
            fill_value(rows + (size_t)row * 16, 16, (test_stamp){task->number, sequence++});
        }
        cl_rows input = {
            .data = rows, .count = rows_count, .stride = 16, .length = 16, .timestamp_ns = -1};
        size_t done = 0;
        int code;
        while ((code = cl_writer_append_rows(&handle.writer, &input, &done, positions)) ==
               CL_E_ROLL) {
            roll_on(&handle);
        }
        CHECK(code == CL_OK);
    }
    close_handle(&handle);
    cl_add32(task->finished, 1);
    return NULL;
}

static void *follow(void *argument) {
    test_task *task = argument;
    test_handle handle;
    test_reader reader;
    cl_record record;
    uint32_t next[WRITERS] = {0};
    uint64_t before = 0;
    open_handle(task->place, &handle, false);
    open_reader(&reader, &handle.log);
    for (uint64_t seen = 0; seen < (uint64_t)WRITERS * RECORDS;) {
        int code = read_on(&reader, &record);
        CHECK(code == CL_OK || code == CL_E_END || code == CL_E_BUSY);
        if (code != CL_OK) {
            cl_reader_wait(&reader.reader, (cl_idle)(task->number % 4), MILLISECOND);
            continue;
        }
        test_stamp stamp;
        uint8_t value[LONGEST];
        CHECK(record.position > before && record.value_length >= sizeof stamp &&
              record.value_length <= LONGEST);
        memcpy(&stamp, record.value, sizeof stamp);
        CHECK(stamp.writer < WRITERS && stamp.sequence == next[stamp.writer]);
        fill_value(value, record.value_length, stamp);
        CHECK(memcmp(value, record.value, record.value_length) == 0);
        next[stamp.writer]++;
        before = record.position;
        seen++;
    }
    close_reader(&reader);
    close_handle(&handle);
    return NULL;
}

/* Flushes to the tail in a loop and checks the order of the watermarks each time. */
static void *flush_on(void *argument) {
    test_task *task = argument;
    test_handle handle;
    open_handle(task->place, &handle, false);
    cl_cursors *cursors = task->place->cursors;
    while (cl_load32(task->finished) < WRITERS) {
        uint64_t upto = cl_log_position(&handle.log, cl_load(handle.log.tail));
        CHECK(cl_flush(&handle.log, upto, cl_clock_monotonic_ns() + PATIENCE_NS) == CL_OK);
        uint64_t flushed = cl_load(&cursors->flushed.value);
        uint64_t committed = cl_load(&cursors->committed.value);
        uint64_t appended = cl_load(&cursors->appended.value);
        uint64_t tail = cl_log_position(&handle.log, cl_load(handle.log.tail));
        CHECK(cl_log_downward(&handle.log, upto) <= flushed && flushed <= committed &&
              committed <= appended && appended <= tail);
    }
    close_handle(&handle);
    return NULL;
}

static void concurrent_appends_are_each_read_once_in_order(bool dying) {
    enum { READERS = 2, FLUSHERS = 2 };
    test_place place;
    uint32_t finished = 0;
    pthread_t threads[WRITERS + READERS + FLUSHERS];
    test_task tasks[WRITERS + READERS + FLUSHERS];
    make_place(&place, SMALL);
    for (uint32_t index = 0; index < WRITERS + READERS + FLUSHERS; index++) {
        bool writes = index < WRITERS;
        tasks[index] = (test_task){.place = &place,
                                   .number = index,
                                   .seed = 1000 + index,
                                   .dies = dying && index % 2,
                                   .finished = &finished};
        void *(*run)(void *) = writes                      ? write_records
                               : index < WRITERS + READERS ? follow
                                                           : flush_on;
        CHECK(pthread_create(&threads[index], NULL, run, &tasks[index]) == 0);
    }
    for (uint32_t index = 0; index < WRITERS + READERS + FLUSHERS; index++) {
        pthread_join(threads[index], NULL);
    }
    test_handle handle;
    open_handle(&place, &handle, false);
    CHECK(cl_flush(&handle.log, cl_log_position(&handle.log, *handle.log.tail),
                   cl_clock_monotonic_ns() + PATIENCE_NS) == CL_OK);
    CHECK(cl_tail_number(*handle.log.tail) > 10);
    CHECK(scan_log(&handle) == (uint64_t)WRITERS * RECORDS);
    close_handle(&handle);
    drop_place(&place);
}

typedef struct {
    cl_table *table;
    uint64_t seed;
} test_visitor;

static void *visit_segments(void *argument) {
    test_visitor *visitor = argument;
    for (int visit = 0; visit < 3000; visit++) {
        uint64_t number = next_random(&visitor->seed) % 8;
        cl_segment *segment;
        if (visit % 16 == 0) {
            cl_table_forget(visitor->table, number);
        } else if (visit % 16 == 8) {
            cl_table_trim(visitor->table, 8, 2);
        }
        CHECK(cl_table_acquire(visitor->table, number, &segment) == CL_OK);
        CHECK(segment->number == number && cl_load((uint64_t *)segment->map) == CL_SEGMENT_MAGIC);
        cl_segment_release(segment);
    }
    return NULL;
}

static void table_used_by_many_threads_keeps_its_references(void) {
    enum { VISITORS = 4 };
    test_place place;
    cl_table table;
    pthread_t threads[VISITORS];
    test_visitor visitors[VISITORS];
    make_place(&place, SMALL);
    for (uint64_t number = 0; number < 8; number++) {
        make_segment(&place, number, 0);
    }
    CHECK(cl_table_init(&table, place.dir_fd, place.uuid, place.size, true) == CL_OK);
    for (int index = 0; index < VISITORS; index++) {
        visitors[index] = (test_visitor){&table, 77 + (uint64_t)index};
        CHECK(pthread_create(&threads[index], NULL, visit_segments, &visitors[index]) == 0);
    }
    for (int index = 0; index < VISITORS; index++) {
        pthread_join(threads[index], NULL);
    }
    for (size_t index = 0; index < table.count; index++) {
        CHECK(table.entries[index]->references == 1);
    }
    cl_table_clear(&table);
    drop_place(&place);
}

/* A fork during table changes leaves the child a consistent table and a free mutex. */
static void fork_during_table_changes_leaves_a_consistent_table(void) {
    enum { VISITORS = 2, FORKS = 60 };
    test_place place;
    cl_table table;
    pthread_t threads[VISITORS];
    test_visitor visitors[VISITORS];
    make_place(&place, SMALL);
    for (uint64_t number = 0; number < 8; number++) {
        make_segment(&place, number, 0);
    }
    CHECK(cl_table_init(&table, place.dir_fd, place.uuid, place.size, true) == CL_OK);
    for (int index = 0; index < VISITORS; index++) {
        visitors[index] = (test_visitor){&table, 177 + (uint64_t)index};
        CHECK(pthread_create(&threads[index], NULL, visit_segments, &visitors[index]) == 0);
    }
    for (int fork_number = 0; fork_number < FORKS; fork_number++) {
        pid_t child = fork();
        if (child == 0) {
            int status = pthread_mutex_trylock(&table.mutex);
            for (size_t index = 1; index < table.count; index++) {
                status |= table.entries[index - 1]->number >= table.entries[index]->number;
            }
            /* exit_group, because the sanitizer's `_exit` waits for threads of the parent. */
            syscall(SYS_exit_group, status != 0);
        }
        int status = 1;
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    for (int index = 0; index < VISITORS; index++) {
        pthread_join(threads[index], NULL);
    }
    cl_table_clear(&table);
    drop_place(&place);
}

int main(void) {
    concurrent_appends_are_each_read_once_in_order(false);
    concurrent_appends_are_each_read_once_in_order(true);
    table_used_by_many_threads_keeps_its_references();
    fork_during_table_changes_leaves_a_consistent_table();
    return 0;
}

/* threads */
/* Flush: what the watermarks guarantee, which handle leads, final failures, the checkpoint, and the
 * commit and flush loops. */
#include "scene.h"

#include <signal.h>
#include <sys/syscall.h>

#include "checkpoint.h"

#define RECORD 1000u
#define FOREVER INT64_MAX

static uint32_t file_syncs; /* the linker prefers this function */

int fdatasync(int fd) {
    cl_add32(&file_syncs, 1);
    return (int)syscall(SYS_fdatasync, fd);
}

static void flush_behind_an_expired_claim_rolls_it_back(void) {
    test_scene scene;
    cl_claim claim;
    start(&scene, false, 0);
    scene.handle.log.claim_timeout_ns = 30 * MILLISECOND;
    CHECK(claim_bytes(&scene.handle.writer, 40, &claim) == CL_OK);
    append_value(&scene.handle, "behind", 6);
    int64_t began_ns = cl_clock_monotonic_ns();
    CHECK(flush_all(&scene) == CL_OK && cl_clock_monotonic_ns() - began_ns >= 30 * MILLISECOND);
    CHECK(scene.handle.log.counters.rolled_back == 1 && scan_log(&scene.handle) == 1);
    /* The leader polled many times, but the wait counts once. It starts at the second poll, which
     * already has the credit of the first. */
    CHECK(cl_histogram_above(&scene.handle.log.latencies.claim, 0) == 1);
    CHECK(scene.handle.log.latencies.claim.longest_ns >= 30 * MILLISECOND - CL_POLL_CREDIT_NS);
    end(&scene);
}

static void flush_raises_flushed_to_the_tail(bool pooled) {
    test_scene scene;
    start(&scene, pooled, 4096);
    cl_cursors *cursors = scene.place.cursors;
    for (int index = 0; index < 30; index++) {
        append_value(&scene.handle, "value", 5);
        CHECK(flush_all(&scene) == CL_OK && cursors->flushed.value == tail_position(&scene));
        CHECK(cursors->flushed.value <= cursors->committed.value &&
              cursors->committed.value <= cursors->appended.value);
        CHECK(flush_all(&scene) == CL_OK); /* nothing to flush */
    }
    CHECK(cl_histogram_above(&scene.handle.log.latencies.flush, 0) == 30 &&
          cursors->flusher.value == 0);
    /* Above the tail, only the deadline ends a flush. */
    CHECK(cl_flush(&scene.handle.log, tail_position(&scene) + 8, deadline(5 * MILLISECOND)) ==
          CL_E_TIMEOUT);
    end(&scene);
}

static void watermark_does_not_fall(void) {
    uint64_t watermark = 4096;
    cl_raise(&watermark, 4095);
    CHECK(watermark == 4096);
    cl_raise(&watermark, 4097);
    CHECK(watermark == 4097);
}

static void flush_of_several_segments_reaches_the_tail(void) {
    test_scene scene;
    start(&scene, false, 0);
    uint8_t value[RECORD] = {0};
    while (cl_tail_number(*scene.handle.log.tail) < 5) {
        append_value(&scene.handle, value, RECORD);
    }
    CHECK(flush_all(&scene) == CL_OK &&
          scene.place.cursors->flushed.value == tail_position(&scene));
    end(&scene);
}

static void dead_leader_is_replaced(void) {
    test_scene scene;
    test_handle leader;
    start(&scene, false, 0);
    open_handle(&scene.place, &leader, false);
    scene.handle.log.claim_timeout_ns = FOREVER;
    append_value(&scene.handle, "value", 5);
    scene.place.cursors->flusher.value = leader.log.owner; /* a leader that is alive and slow */
    CHECK(cl_flush(&scene.handle.log, tail_position(&scene), deadline(10 * MILLISECOND)) ==
          CL_E_TIMEOUT);
    CHECK(scene.place.cursors->flusher.value == leader.log.owner &&
          scene.place.cursors->flushed.value == 0);
    kill_handle(&leader);
    CHECK(flush_all(&scene) == CL_OK);
    /* A leader whose slot another handle has taken since. */
    append_value(&scene.handle, "value", 5);
    scene.place.cursors->flusher.value = leader.log.owner;
    test_handle successor;
    open_handle(&scene.place, &successor, false);
    CHECK(successor.log.slot == leader.log.slot && flush_all(&scene) == CL_OK);
    close_handle(&successor);
    forget_killed(&leader);
    end(&scene);
}

/* The leader is alive but makes no progress: another handle takes over after the claim timeout. */
static void stuck_leader_is_replaced_after_the_claim_timeout(void) {
    test_scene scene;
    test_handle leader;
    start(&scene, false, 0);
    open_handle(&scene.place, &leader, false);
    scene.handle.log.claim_timeout_ns = 60 * MILLISECOND;
    uint64_t *flusher = &scene.place.cursors->flusher.value;
    append_value(&scene.handle, "value", 5);
    *flusher = leader.log.owner;
    int64_t began_ns = cl_clock_monotonic_ns();
    int code;
    while ((code = cl_flush(&scene.handle.log, tail_position(&scene), deadline(5 * MILLISECOND))) ==
           CL_E_TIMEOUT) {
        /* In slices, as a caller waits that handles signals in between. */
        CHECK(cl_clock_monotonic_ns() - began_ns < PATIENCE_NS);
    }
    CHECK(code == CL_OK && cl_clock_monotonic_ns() - began_ns >= 60 * MILLISECOND && *flusher == 0);
    /* A leader that makes progress is not replaced, no matter how long it takes: each round is a
     * new flush. */
    append_value(&scene.handle, "value", 5);
    for (int round = 0; round < 20; round++) {
        *flusher = leader.log.owner;
        CHECK(cl_flush(&scene.handle.log, tail_position(&scene), deadline(6 * MILLISECOND)) ==
                  CL_E_TIMEOUT &&
              *flusher == leader.log.owner);
        cl_futex_raise((uint32_t *)&scene.place.cursors->flush_signal.value);
    }
    *flusher = 0;
    CHECK(flush_all(&scene) == CL_OK);
    close_handle(&leader);
    end(&scene);
}

/* Another process replaced this handle's leader as stuck while it is still flushing. The handle
 * must not start a second flush beside it. */
static void handle_leads_one_flush_at_a_time(void) {
    test_scene scene;
    start(&scene, false, 0);
    append_value(&scene.handle, "value", 5);
    scene.handle.log.leading = 1;
    CHECK(cl_flush(&scene.handle.log, tail_position(&scene), deadline(10 * MILLISECOND)) ==
          CL_E_TIMEOUT);
    CHECK(scene.place.cursors->flusher.value == 0 && scene.place.cursors->flushed.value == 0);
    scene.handle.log.leading = 0;
    CHECK(flush_all(&scene) == CL_OK && scene.handle.log.leading == 0);
    end(&scene);
}

static void *flush_on(void *scene) {
    CHECK(cl_flush(&((test_scene *)scene)->handle.log, tail_position(scene),
                   deadline(PATIENCE_NS)) == CL_OK);
    return NULL;
}

/* Another process has replaced this handle's leader as stuck, and leads itself: the end of the
 * replaced flush leaves it the lead. */
static void replaced_leader_leaves_the_lead_to_its_successor(void) {
    test_scene scene;
    test_handle other;
    pthread_t thread;
    cl_claim claim;
    start(&scene, false, 0);
    open_handle(&scene.place, &other, false);
    scene.handle.log.claim_timeout_ns = other.log.claim_timeout_ns = 2 * PATIENCE_NS;
    uint64_t *flusher = &scene.place.cursors->flusher.value;
    const uint32_t *leading = &scene.handle.log.leading;
    CHECK(claim_bytes(&other.writer, 64, &claim) == CL_OK); /* each lead ends without success */
    CHECK(pthread_create(&thread, NULL, flush_on, &scene) == 0);
    uint64_t mine = scene.handle.log.owner, successor = other.log.owner;
    while (!cl_swap(flusher, &mine, successor)) {
        mine = scene.handle.log.owner;
    }
    while (cl_load32(leading) != 0) { /* the replaced lead ends soon */
        cl_pause();
    }
    CHECK(cl_load(flusher) == successor);
    cl_writer_abandon(&other.writer, &claim);
    cl_store(flusher, 0);
    CHECK(pthread_join(thread, NULL) == 0);
    close_handle(&other);
    end(&scene);
}

/* A failed write fails the log for every process. Nothing later is acknowledged, and a retry does
 * not clear the error. */
static void failed_commit_is_final(void) {
    test_scene scene;
    start(&scene, true, 0);
    append_value(&scene.handle, "value", 5);
    CHECK(flush_all(&scene) == CL_OK);
    uint64_t flushed = scene.place.cursors->flushed.value;
    uint64_t lost = append_value(&scene.handle, "lost", 4);
    int fd = scene.segment->fd;
    scene.segment->fd = open("/dev/null", O_RDONLY);
    CHECK(cl_commit(&scene.handle.log, tail_position(&scene)) == CL_E_FAILED &&
          scene.place.cursors->failed.value == EBADF);
    /* Without its body, no cell is in the file. */
    CHECK(cl_load((const uint64_t *)(scene.segment->map + lost)) == 0);
    close(scene.segment->fd);
    scene.segment->fd = fd; /* a working descriptor again, but the failure is final */
    CHECK(cl_commit(&scene.handle.log, tail_position(&scene)) == CL_E_FAILED &&
          flush_all(&scene) == CL_E_FAILED);
    /* durable before the failure */
    CHECK(cl_flush(&scene.handle.log, flushed, FOREVER) == CL_OK);
    CHECK(scene.place.cursors->committed.value == flushed &&
          scene.place.cursors->flushed.value == flushed);
    cl_record_input input = record_of("x", 1);
    uint64_t position;
    CHECK(cl_writer_append(&scene.handle.writer, &input, &position) == CL_E_FAILED);
    cl_pace pace = {.interval_ns = MILLISECOND, .thorough_ns = 0, .least_bytes = 0};
    CHECK(cl_commit_loop(&scene.handle.log, &pace) == CL_E_FAILED &&
          cl_flush_loop(&scene.handle.log, &pace) == CL_E_FAILED);
    end(&scene);
}

/* The flush fails in one process. A flush of another process, which the system would let succeed,
 * must not raise the watermark. */
static void failed_flush_is_final_for_every_process(void) {
    test_scene scene;
    test_handle other;
    start(&scene, false, 0);
    open_handle(&scene.place, &other, false);
    append_value(&scene.handle, "value", 5);
    CHECK(cl_commit(&scene.handle.log, UINT64_MAX) == CL_OK);
    uint8_t *map = scene.segment->map;
    scene.segment->map = map + 1; /* msync refuses an address that is not page-aligned */
    CHECK(flush_all(&scene) == CL_E_FAILED && scene.place.cursors->failed.value == EINVAL);
    scene.segment->map = map;
    CHECK(cl_flush(&other.log, tail_position(&scene), FOREVER) == CL_E_FAILED &&
          flush_all(&scene) == CL_E_FAILED);
    CHECK(scene.place.cursors->flushed.value == 0 && scene.place.cursors->flusher.value == 0);
    close_handle(&other);
    end(&scene);
}

static void read_only_handle_neither_commits_nor_flushes(void) {
    test_scene scene;
    test_handle observer;
    start(&scene, false, 0);
    append_value(&scene.handle, "value", 5);
    open_observer(&scene.place, &observer);
    CHECK(mprotect(scene.place.cursors, CL_CURSORS_SIZE, PROT_READ) == 0);
    CHECK(cl_commit(&observer.log, UINT64_MAX) == CL_E_READ_ONLY &&
          cl_flush(&observer.log, tail_position(&scene), FOREVER) == CL_E_READ_ONLY);
    uint64_t appended;
    CHECK(cl_log_appended(&observer.log, &appended) == CL_OK && appended == tail_position(&scene));
    CHECK(mprotect(scene.place.cursors, CL_CURSORS_SIZE, PROT_READ | PROT_WRITE) == 0);
    CHECK(scene.place.cursors->appended.value == 0);
    close_handle(&observer);
    end(&scene);
}

static int open_checkpoint(const test_place *place) {
    int fd = openat(place->dir_fd, "checkpoint", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, CL_CHECKPOINT_SIZE) == 0);
    return fd;
}

static int read_checkpoint(int fd, const test_place *place, cl_checkpoint *record) {
    uint8_t bytes[CL_CHECKPOINT_SIZE];
    CHECK(pread(fd, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes);
    return cl_checkpoint_read(bytes, place->uuid, record);
}

static void torn_checkpoint_leaves_the_previous_one(void) {
    test_scene scene;
    cl_checkpoint record;
    start(&scene, false, 0);
    cl_log *log = &scene.handle.log;
    CHECK(cl_checkpoint_write(log, 5, false, true) == CL_OK); /* no checkpoint file */
    log->checkpoint_fd = open_checkpoint(&scene.place);
    CHECK(read_checkpoint(log->checkpoint_fd, &scene.place, &record) == CL_E_ABSENT);
    for (uint64_t count = 1; count < 6; count++) {
        CHECK(cl_checkpoint_write(log, count * 100, count == 5, count % 2) == CL_OK);
        CHECK(read_checkpoint(log->checkpoint_fd, &scene.place, &record) == CL_OK);
        CHECK(record.count == count && record.position == count * 100 &&
              record.clean == (count == 5) && record.written_ns > 0);
    }
    /* The fifth is in the second place; flip each of its bytes in turn. */
    for (size_t byte = 0; byte < sizeof record; byte++) {
        uint8_t was;
        off_t at = CL_CHECKPOINT_STRIDE + (off_t)byte;
        CHECK(pread(log->checkpoint_fd, &was, 1, at) == 1);
        CHECK(pwrite(log->checkpoint_fd, &(uint8_t){(uint8_t)~was}, 1, at) == 1);
        CHECK(read_checkpoint(log->checkpoint_fd, &scene.place, &record) == CL_OK &&
              record.count == 4 && !record.clean);
        CHECK(pwrite(log->checkpoint_fd, &was, 1, at) == 1);
    }
    scene.place.uuid[0] ^= 1;
    CHECK(read_checkpoint(log->checkpoint_fd, &scene.place, &record) == CL_E_ABSENT);
    close(log->checkpoint_fd);
    log->checkpoint_fd = open("/dev/null", O_RDONLY);
    CHECK(cl_checkpoint_write(log, 5, false, true) == CL_E_SYSTEM && errno == EBADF);
    close(log->checkpoint_fd);
    log->checkpoint_fd = -1;
    end(&scene);
}

static void flush_writes_a_checkpoint_that_never_leads(void) {
    test_scene scene;
    cl_checkpoint record;
    start(&scene, false, 0);
    scene.handle.log.checkpoint_fd = open_checkpoint(&scene.place);
    for (int index = 0; index < 10; index++) {
        append_value(&scene.handle, "value", 5);
        CHECK(flush_all(&scene) == CL_OK &&
              read_checkpoint(scene.handle.log.checkpoint_fd, &scene.place, &record) == CL_OK);
        CHECK(record.position == scene.place.cursors->flushed.value && !record.clean);
    }
    scene.handle.log.checkpoint_interval_ns = FOREVER / 2;
    append_value(&scene.handle, "value", 5);
    CHECK(flush_all(&scene) == CL_OK &&
          read_checkpoint(scene.handle.log.checkpoint_fd, &scene.place, &record) == CL_OK);
    CHECK(record.position < scene.place.cursors->flushed.value && record.count == 10);
    close(scene.handle.log.checkpoint_fd);
    end(&scene);
}

static void idle_log_settles_its_checkpoint_once(void) {
    test_scene scene;
    cl_checkpoint record;
    start(&scene, false, 0);
    cl_log *log = &scene.handle.log;
    log->checkpoint_fd = open_checkpoint(&scene.place);
    log->checkpoint_interval_ns = FOREVER / 2;
    append_value(&scene.handle, "value", 5);
    CHECK(flush_all(&scene) == CL_OK);
    uint64_t flushed = scene.place.cursors->flushed.value;
    CHECK(cl_checkpoint_settle_due(log) == CL_OK); /* not due: within the interval */
    CHECK(read_checkpoint(log->checkpoint_fd, &scene.place, &record) == CL_E_ABSENT);
    log->checkpoint_interval_ns = 0;
    uint32_t before = file_syncs;
    for (int turn = 0; turn < 3; turn++) {
        CHECK(cl_checkpoint_settle_due(log) == CL_OK && file_syncs == before + 1);
        CHECK(read_checkpoint(log->checkpoint_fd, &scene.place, &record) == CL_OK);
        CHECK(record.position == flushed && record.count == 1);
    }
    /* Another handle's record has a higher count: the next one is in force all the same. */
    CHECK(cl_checkpoint_put(log->checkpoint_fd, scene.place.uuid, 40, flushed, false, false) ==
          CL_OK);
    append_value(&scene.handle, "value", 5);
    CHECK(flush_all(&scene) == CL_OK && cl_checkpoint_settle_due(log) == CL_OK);
    CHECK(read_checkpoint(log->checkpoint_fd, &scene.place, &record) == CL_OK);
    CHECK(record.position > flushed && record.count > 41);
    close(log->checkpoint_fd);
    end(&scene);
}

static const cl_pace EAGER = {
    .interval_ns = MILLISECOND, .thorough_ns = MILLISECOND, .least_bytes = 1};

static void *run_commit_loop(void *log) { return (void *)(intptr_t)cl_commit_loop(log, &EAGER); }
static void *run_flush_loop(void *log) { return (void *)(intptr_t)cl_flush_loop(log, &EAGER); }

static void loops_flush_all_records_and_stop_on_request(bool pooled) {
    test_scene scene;
    pthread_t committer, flusher;
    void *ended;
    start(&scene, pooled, 4096);
    CHECK(pthread_create(&committer, NULL, run_commit_loop, &scene.handle.log) == 0);
    CHECK(pthread_create(&flusher, NULL, run_flush_loop, &scene.handle.log) == 0);
    for (int index = 0; index < 300; index++) {
        append_value(&scene.handle, "a value of some length", 22);
        if (index % 50 == 0) {
            CHECK(flush_all(&scene) == CL_OK); /* a second leader beside the loop */
        }
    }
    int64_t until_ns = deadline(PATIENCE_NS);
    while (cl_load(&scene.place.cursors->flushed.value) < tail_position(&scene) &&
           cl_clock_monotonic_ns() < until_ns) {
        cl_sleep_ns(MILLISECOND);
    }
    CHECK(cl_load(&scene.place.cursors->flushed.value) == tail_position(&scene));
    cl_log_stop(&scene.handle.log);
    CHECK(pthread_join(committer, &ended) == 0 && ended == NULL &&
          pthread_join(flusher, &ended) == 0 && ended == NULL);
    CHECK(scan_log(&scene.handle) == 300);
    end(&scene);
}

static void *run_slow_loop(void *log) {
    static const cl_pace slow = {
        .interval_ns = 1000 * MILLISECOND, .thorough_ns = 0, .least_bytes = 0};
    return (void *)(intptr_t)cl_commit_loop(log, &slow);
}

/* A loop with a long interval polls an open claim more often, so that the claim timeout is kept. */
static void slow_loop_rolls_back_a_claim_after_its_timeout(void) {
    test_scene scene;
    pthread_t committer;
    cl_claim claim;
    start(&scene, true, 4096);
    scene.handle.log.claim_timeout_ns = 200 * MILLISECOND;
    CHECK(claim_bytes(&scene.handle.writer, 40, &claim) == CL_OK);
    int64_t began_ns = cl_clock_monotonic_ns();
    CHECK(pthread_create(&committer, NULL, run_slow_loop, &scene.handle.log) == 0);
    while (cl_load(&scene.place.cursors->committed.value) < tail_position(&scene) &&
           cl_clock_monotonic_ns() - began_ns < PATIENCE_NS) {
        cl_sleep_ns(MILLISECOND);
    }
    /* With one poll an interval it would take ten seconds, because a poll counts for at most 20 ms.
     */
    CHECK(cl_clock_monotonic_ns() - began_ns < 9000 * MILLISECOND);
    cl_log_stop(&scene.handle.log);
    pthread_join(committer, NULL);
    end(&scene);
}

static void do_nothing(int number) { (void)number; }

static void *interrupt_soon(void *argument) {
    cl_sleep_ns(5 * MILLISECOND);
    pthread_kill(*(pthread_t *)argument, SIGUSR1);
    return NULL;
}

/* A signal interrupts a thread that waits for another handle's flush. */
static void signal_interrupts_a_follower(void) {
    test_scene scene;
    test_handle leader;
    pthread_t self = pthread_self(), thread;
    struct sigaction action = {.sa_handler = do_nothing};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    start(&scene, false, 0);
    open_handle(&scene.place, &leader, false);
    scene.handle.log.claim_timeout_ns = FOREVER;
    append_value(&scene.handle, "value", 5);
    scene.place.cursors->flusher.value = leader.log.owner;
    int code = CL_OK;
    /* The signal may arrive between two waits. */
    for (int attempt = 0; attempt < 500 && code != CL_E_INTERRUPTED; attempt++) {
        CHECK(pthread_create(&thread, NULL, interrupt_soon, &self) == 0);
        code = cl_flush(&scene.handle.log, tail_position(&scene), deadline(20 * MILLISECOND));
        pthread_join(thread, NULL);
    }
    CHECK(code == CL_E_INTERRUPTED);
    close_handle(&leader);
    scene.place.cursors->flusher.value = 0;
    end(&scene);
}

int main(void) {
    flush_behind_an_expired_claim_rolls_it_back();
    for (int pooled = 0; pooled < 2; pooled++) {
        flush_raises_flushed_to_the_tail(pooled);
        loops_flush_all_records_and_stop_on_request(pooled);
    }
    watermark_does_not_fall();
    flush_of_several_segments_reaches_the_tail();
    dead_leader_is_replaced();
    stuck_leader_is_replaced_after_the_claim_timeout();
    handle_leads_one_flush_at_a_time();
    replaced_leader_leaves_the_lead_to_its_successor();
    failed_commit_is_final();
    failed_flush_is_final_for_every_process();
    read_only_handle_neither_commits_nor_flushes();
    torn_checkpoint_leaves_the_previous_one();
    flush_writes_a_checkpoint_that_never_leads();
    idle_log_settles_its_checkpoint_once();
    slow_loop_rolls_back_a_claim_after_its_timeout();
    signal_interrupts_a_follower();
    return 0;
}

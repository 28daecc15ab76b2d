/* steps */
/* Drives a writer in another process through one append, instruction by instruction. While the
 * writer is stopped but alive, no process rolls its claim back. If it is stopped for longer than
 * the claim timeout, its append still lands exactly once. If it is killed, the log continues
 * without it, and its record is complete or absent.
 *
 * Other processes see the writer's slot, the tail and the claimed bytes. Few instructions change
 * these: the first run records which, and the later runs stop the writer just before and just after
 * each of them. An observer is driven through a roll-back in the same way, against an owner that
 * continues meanwhile. */
#include "driven.h"

#define AROUND 12u

/* The child: one append between two stops. Its exit status is the number of its claims that were
 * refused. */
static void append_once(test_scene *scene) {
    test_handle handle;
    uint64_t position;
    open_handle(&scene->place, &handle, false);
    cl_record_input input = record_of(victims, VALUE);
    if (scene->warm) {
        append_value(&handle, "other", 5);
    }
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        _exit(100);
    }
    raise(SIGSTOP);
    int code = cl_writer_append(&handle.writer, &input, &position);
    raise(SIGSTOP);
    _exit(code == CL_OK ? (int)handle.writer.counters.refused : 101);
}

/* Reads at the writer's claim twice, with a pause that is long enough for the second read to probe
 * the owner. */
static void look_twice(test_scene *scene) {
    cl_record record;
    int code = scene->seen ? CL_OK : read_on(&scene->reader, &record);
    int64_t until_ns = cl_clock_monotonic_ns() + 40000;
    if (code != CL_OK) {
        while (cl_clock_monotonic_ns() < until_ns) {
        }
        code = read_on(&scene->reader, &record);
    }
    CHECK(code == CL_OK || code == CL_E_END || code == CL_E_BUSY);
    /* The slot is odd until the claim names its owner, and the owner lives. */
    CHECK(scene->other.log.counters.rolled_back == 0);
    if (code == CL_OK && !scene->seen) {
        scene->seen = true;
        CHECK(record.position == scene->at && record.value_length == VALUE &&
              memcmp(record.value, victims, VALUE) == 0);
    }
}

/* Drives one append from start to end, with a reader that would roll back a dead claim after each
 * instruction: it never does. Returns the number of visible changes and, in `gaps`, the
 * instructions between them. */
static uint32_t stopped_writer_is_not_rolled_back_at_any_instruction(uint64_t *gaps, bool warm) {
    test_scene scene;
    start(&scene, NEVER_NS, warm);
    uint32_t changed = step_to_end(&scene, start_victim(&scene, append_once), gaps, look_twice);
    CHECK(scan_log(&scene.other) == 1u + warm);
    end(&scene);
    return changed;
}

static int read_patiently(test_reader *reader, cl_record *record) {
    int64_t until_ns = cl_clock_monotonic_ns() + PATIENCE_NS;
    int code;
    do {
        code = read_on(reader, record);
    } while (code == CL_E_BUSY && cl_clock_monotonic_ns() < until_ns);
    return code;
}

/* Counts the victim's records from the log's beginning, and checks that the others are `count`
 * records of other writers and the warm-up record. */
static uint32_t count_victims(test_scene *scene, uint32_t count) {
    test_reader reader;
    cl_record record;
    uint32_t found = 0, others = 0;
    open_reader(&reader, &scene->other.log);
    while (read_patiently(&reader, &record) == CL_OK) {
        bool whole = record.value_length == VALUE && memcmp(record.value, victims, VALUE) == 0;
        CHECK(whole || (record.value_length == 5 && memcmp(record.value, "other", 5) == 0));
        found += whole;
        others += !whole;
    }
    close_reader(&reader);
    CHECK(others == count + 1 && scan_log(&scene->other) == found + others);
    return found;
}

/* `later`: another writer's record follows the victim's claim. */
static void killed_writer_blocks_no_process(uint32_t index, uint64_t gap, bool later) {
    test_scene scene;
    cl_record record;
    start(&scene, NEVER_NS, true);
    pid_t victim = start_victim(&scene, append_once);
    drive(&scene, victim, index, gap, false);
    bool published = read_on(&scene.reader, &record) == CL_OK;
    if (later) {
        append_value(&scene.other, "other", 5);
    }
    kill_victim(victim);
    if (!published) {
        CHECK(read_patiently(&scene.reader, &record) == (later ? CL_OK : CL_E_END));
    }
    CHECK(count_victims(&scene, later) == published);
    append_value(&scene.other, "other", 5);
    CHECK(count_victims(&scene, later + 1u) == published);
    end(&scene);
}

/* Rolled back while it was stopped, the victim claims again when it continues. The reader that
 * rolled it back and a new reader see the same records. */
static void append_stopped_beyond_the_timeout_lands_once(uint32_t index, uint64_t gap, bool behind,
                                                         bool later) {
    test_scene scene;
    cl_record record;
    start(&scene, MILLISECOND / 5, true);
    pid_t victim = start_victim(&scene, append_once);
    drive(&scene, victim, index, gap, behind);
    int first = read_patiently(&scene.reader, &record);
    bool published = first == CL_OK;
    CHECK(first == CL_OK || first == CL_E_END);
    if (later) {
        append_value(&scene.other, "other", 5);
        CHECK(read_patiently(&scene.reader, &record) == CL_OK && record.value_length == 5);
    }
    CHECK(count_victims(&scene, later) == published);
    int refused = run_to_end(victim);
    CHECK(refused <= 1 && refused == (int)scene.other.log.counters.rolled_back);
    CHECK(count_victims(&scene, later) == 1);
    int code = read_patiently(&scene.reader, &record);
    CHECK(code == (published ? CL_E_END : CL_OK) && (published || record.value_length == VALUE));
    end(&scene);
}

/* The child: one poll at a claim, or a gap, whose owner has used up the timeout. */
static void look_once(test_scene *scene) {
    test_handle handle;
    test_reader reader;
    cl_record record;
    open_handle(&scene->place, &handle, false);
    open_reader(&reader, &handle.log);
    int code = read_on(&reader, &record);
    /* The present suspect has used up its timeout; the next one starts anew. */
    reader.watch.awake_ns = NEVER_NS;
    if (code != CL_E_BUSY || ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        _exit(100);
    }
    raise(SIGSTOP);
    code = read_on(&reader, &record);
    raise(SIGSTOP);
    _exit(code == CL_OK || code == CL_E_END || code == CL_E_BUSY ? 0 : 101);
}

/* Drives an observer into a roll-back. After `*steps` of its instructions the owner publishes, or
 * makes its first swap: exactly one of the two succeeds, and both agree which. Returns whether the
 * owner succeeded; `*steps` becomes the number of instructions run if the observer finished
 * earlier. */
static bool owner_and_observer_agree_on_a_roll_back(uint64_t *steps, bool gap) {
    test_scene scene;
    int status;
    start(&scene, NEVER_NS, false);
    cl_writer *owner = &scene.other.writer;
    cl_claim claim = {.segment = scene.reader.held, .offset = CL_SEGMENT_HEADER, .length = FRAME};
    if (gap) {
        scene.place.cursors->slots[0].counter++;
        cl_add(scene.other.log.tail, FRAME);
    } else {
        CHECK(claim_bytes(owner, FRAME, &claim) == CL_OK);
    }
    cl_record_input input = record_of(victims, VALUE);
    pid_t observer = fork();
    CHECK(observer >= 0);
    if (observer == 0) {
        look_once(&scene);
    }
    CHECK(waitpid(observer, &status, 0) == observer && WIFSTOPPED(status) &&
          WSTOPSIG(status) == SIGSTOP);
    uint64_t stepped = 0;
    while (stepped < *steps && step(observer)) {
        stepped++;
    }
    *steps = stepped;
    uint64_t zero = 0;
    uint64_t claimed = cl_cell(CL_WORD_CLAIMED | FRAME, scene.other.log.owner);
    uint64_t *cell = (uint64_t *)(claim.segment->bytes + claim.offset);
    bool kept =
        gap ? cl_swap(cell, &zero, claimed)
            : cl_writer_publish(owner, &claim, cl_frame_write(claim.segment, claim.offset, &input),
                                1) == CL_OK;
    CHECK(run_to_end(observer) == 0);
    uint64_t found = cl_load(cell);
    CHECK(kept == !(cl_cell_word(found) & CL_WORD_SKIP));
    if (gap) {
        scene.place.cursors->slots[0].counter++;
        CHECK(!kept ||
              cl_writer_publish(owner, &claim, cl_frame_write(claim.segment, claim.offset, &input),
                                1) == CL_OK);
    }
    CHECK(scan_log(&scene.other) == kept);
    end(&scene);
    return kept;
}

/* Finds the instruction after which the owner is too late, and lets the owner continue at each of
 * those around it. */
static void run_around_the_deciding_instruction(bool gap) {
    uint64_t late = MOST_STEPS;
    CHECK(!owner_and_observer_agree_on_a_roll_back(&late, gap) && late < MOST_STEPS);
    for (uint64_t in_time = 0; late - in_time > 1;) {
        uint64_t middle = in_time + (late - in_time) / 2;
        *(owner_and_observer_agree_on_a_roll_back(&middle, gap) ? &in_time : &late) = middle;
    }
    for (uint64_t steps = late > AROUND ? late - AROUND : 0; steps < late + AROUND; steps++) {
        uint64_t stepped = steps;
        owner_and_observer_agree_on_a_roll_back(&stepped, gap);
    }
}

int main(void) {
    uint64_t gaps[MOST_CHANGES];
    if (!can_be_driven()) {
        return 0;
    }
    stopped_writer_is_not_rolled_back_at_any_instruction(gaps, false);
    uint32_t changed = stopped_writer_is_not_rolled_back_at_any_instruction(gaps, true);
    CHECK(changed >= 6); /* the slot twice, the tail, the cell twice, and the body between */
    for (uint32_t index = 0; index < changed; index++) {
        /* For other processes, just before a change is the same as just after the previous one; for
         * the stopped writer it is not. */
        killed_writer_blocks_no_process(index, gaps[index], index % 2);
        killed_writer_blocks_no_process(index, gaps[index], index % 2 == 0);
        append_stopped_beyond_the_timeout_lands_once(index, gaps[index], false, index % 2);
        append_stopped_beyond_the_timeout_lands_once(index, gaps[index], true, index % 2 == 0);
    }
    run_around_the_deciding_instruction(false);
    run_around_the_deciding_instruction(true);
    return 0;
}

/* steps */
/* Drives an append on a condition in another process, instruction by instruction, while this
 * process appends on the same condition, appends without one, or kills the other. Of two appends
 * that expect one sequence, exactly one succeeds, and a record is at the sequence that its append
 * expected. */
#include "driven.h"

#include "conditional.h"

#define LOST 1 /* the exit status of a victim whose append was a conflict */

static int append_expected(test_handle *handle, const void *value, uint32_t length,
                           uint64_t expect) {
    cl_record_input input = record_of(value, length);
    cl_condition condition = {.expect = expect};
    int64_t until_ns = cl_clock_monotonic_ns() + PATIENCE_NS;
    uint64_t position;
    int code;
    do {
        code = cl_append_expected(&handle->writer, &input, &condition, &position);
        if (code == CL_E_UNCOUNTED) { /* counting from the log's start is quick here */
            cl_counted_set(&handle->writer, CL_SEGMENT_HEADER, 0);
        }
    } while ((code == CL_E_UNRESOLVED || code == CL_E_UNCOUNTED) &&
             cl_clock_monotonic_ns() < until_ns);
    CHECK(code == CL_OK || code == CL_E_CONFLICT);
    return code;
}

/* The child: one append between two stops, behind the record of sequence 0. */
static void append_second(test_scene *scene) {
    test_handle handle;
    open_handle(&scene->place, &handle, false);
    handle.log.claim_timeout_ns = NEVER_NS;
    CHECK(append_expected(&handle, "other", 5, 0) == CL_OK);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        _exit(100);
    }
    raise(SIGSTOP);
    int code = append_expected(&handle, victims, VALUE, 1);
    raise(SIGSTOP);
    _exit(code == CL_OK ? 0 : LOST);
}

static pid_t start_second(test_scene *scene, int64_t claim_timeout_ns) {
    start(scene, claim_timeout_ns, true);
    return start_victim(scene, append_second);
}

/* A count that waited for a claim goes on up to the tail of its beginning. What was appended behind
 * that meanwhile counts, too. */
static void record_behind_an_interrupted_count_is_a_conflict(void) {
    test_place place;
    test_handle one, other;
    cl_claim claim;
    uint64_t position;
    make_place(&place, SMALL);
    open_handle(&place, &one, false);
    open_handle(&place, &other, false);
    one.log.claim_timeout_ns = NEVER_NS;
    append_value(&other, "first", 5);
    CHECK(append_expected(&one, "second", 6, 1) == CL_OK);
    cl_record_input third = record_of("third", 5), fourth = record_of("fourth", 6);
    CHECK(cl_writer_claim(&other.writer, other.writer.largest, &third, &claim) == CL_OK);
    cl_condition condition = {.expect = 3};
    CHECK(cl_append_expected(&one.writer, &fourth, &condition, &position) == CL_E_UNRESOLVED);
    append_value(&other, "later", 5);
    memcpy(claim.segment->bytes + claim.offset + CL_FRAME_HEADER, "third", 5);
    CHECK(cl_claim_publish(&other.writer, &claim, &third) == CL_OK);
    CHECK(cl_append_expected(&one.writer, &fourth, &condition, &position) == CL_E_CONFLICT);
    CHECK(append_expected(&one, "fifth", 5, 4) == CL_OK && scan_log(&one) == 5);
    close_handle(&one);
    close_handle(&other);
    drop_place(&place);
}

/* Returns the number of changes that other processes see, and in `gaps` the instructions between
 * them. */
static uint32_t run_undisturbed(uint64_t *gaps) {
    test_scene scene;
    uint64_t steps = 0;
    uint32_t changed = 0;
    pid_t victim = start_second(&scene, NEVER_NS);
    test_view before = look(&scene);
    while (step(victim)) {
        test_view after = look(&scene);
        CHECK(++steps < MOST_STEPS);
        if (memcmp(&before, &after, sizeof before) != 0) {
            CHECK(changed < MOST_CHANGES);
            gaps[changed++] = steps;
            steps = 0;
            before = after;
        }
    }
    CHECK(run_to_end(victim) == 0);
    CHECK(scan_log(&scene.other) == 2);
    end(&scene);
    return changed;
}

/* Checks that the log has `count` records, and the victim's as its second one if it `won`. */
static void check_log(test_scene *scene, uint32_t count, bool won) {
    test_reader reader;
    cl_record record;
    open_reader(&reader, &scene->other.log);
    for (uint32_t sequence = 0; sequence < count; sequence++) {
        CHECK(read_on(&reader, &record) == CL_OK);
        CHECK((record.value_length == VALUE) == (won && sequence == 1));
    }
    CHECK(read_on(&reader, &record) == CL_E_END);
    close_reader(&reader);
}

static void one_of_two_that_expect_a_sequence_wins(uint32_t index, uint64_t gap, bool behind,
                                                   int64_t claim_timeout_ns) {
    test_scene scene;
    pid_t victim = start_second(&scene, claim_timeout_ns);
    drive(&scene, victim, index, gap, behind);
    bool mine = append_expected(&scene.other, "other", 5, 1) == CL_OK;
    CHECK(scene.other.writer.counted.sequence == 2);
    int lost = run_to_end(victim);
    CHECK(lost == (mine ? LOST : 0));
    check_log(&scene, 2, !mine);
    end(&scene);
}

static void other_append_leaves_the_victim_at_its_sequence_or_out(uint32_t index, uint64_t gap,
                                                                  bool behind) {
    test_scene scene;
    pid_t victim = start_second(&scene, MILLISECOND / 5);
    drive(&scene, victim, index, gap, behind);
    append_value(&scene.other, "other", 5);
    int lost = run_to_end(victim);
    check_log(&scene, 3u - (uint32_t)lost, !lost);
    CHECK(append_expected(&scene.other, "other", 5, 3u - (uint32_t)lost) == CL_OK);
    end(&scene);
}

static void killed_victim_is_counted_if_it_was_published(uint32_t index, uint64_t gap) {
    test_scene scene;
    pid_t victim = start_second(&scene, NEVER_NS);
    drive(&scene, victim, index, gap, false);
    kill_victim(victim);
    bool mine = append_expected(&scene.other, "other", 5, 1) == CL_OK;
    check_log(&scene, 2, !mine);
    CHECK(append_expected(&scene.other, "other", 5, 2) == CL_OK);
    end(&scene);
}

int main(void) {
    uint64_t gaps[MOST_CHANGES];
    record_behind_an_interrupted_count_is_a_conflict();
    if (!can_be_driven()) {
        return 0;
    }
    uint32_t changed = run_undisturbed(gaps);
    CHECK(changed >= 6); /* the slot twice, the tail, the cell twice, and the body between */
    for (uint32_t index = 0; index < changed; index++) {
        for (int behind = 0; behind < 2; behind++) {
            one_of_two_that_expect_a_sequence_wins(index, gaps[index], behind, MILLISECOND / 5);
            other_append_leaves_the_victim_at_its_sequence_or_out(index, gaps[index], behind);
        }
        killed_victim_is_counted_if_it_was_published(index, gaps[index]);
    }
    return 0;
}

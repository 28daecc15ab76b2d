/* A writer that another process drives through one append, instruction by instruction. Wherever it
 * is stopped, and lives, no process rolls its claim back; wherever it is stopped for longer than
 * the claim timeout, its append lands once all the same; wherever it is killed, the log goes on
 * without it, and its record is there whole or not at all.
 *
 * What others can see of a writer is its slot, the tail and the claimed bytes. They change at a few
 * of its instructions: the first drive finds out at which, and the writers that are killed or held
 * up are stopped just before and just behind each of those. An observer is driven through a
 * roll-back in the same way, against an owner that goes on meanwhile. */
#include "kernel_test.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#define NEVER_NS (3600000 * MILLISECOND)
#define MOST_STEPS 2000000ull
#define MOST_CHANGES 64u
#define AROUND 12u
#define VALUE 40u
#define FRAME (CL_FRAME_HEADER + VALUE)
#define OTHER (CL_FRAME_HEADER + 8u) /* the frame of five bytes */

typedef struct {
    test_place place;
    test_handle other;
    test_reader reader; /* of `other` */
    bool warm;          /* the victim has the segment open already: far fewer instructions */
    uint64_t at;        /* where the victim's claim will be */
} test_scene;

typedef struct {
    uint64_t counter;
    uint64_t tail;
    uint8_t frame[FRAME];
} test_view;

static const uint8_t victims[VALUE] = "what a writer appends that is held up";

static void start(test_scene *scene, int64_t claim_timeout_ns, bool warm) {
    memset(scene, 0, sizeof *scene);
    make_place(&scene->place, SMALL);
    open_handle(&scene->place, &scene->other, false);
    scene->other.log.claim_timeout_ns = claim_timeout_ns;
    open_reader(&scene->reader, &scene->other.log);
    scene->warm = warm;
    scene->at = CL_SEGMENT_HEADER + (warm ? OTHER : 0);
}

static void end(test_scene *scene) {
    close_reader(&scene->reader);
    close_handle(&scene->other);
    drop_place(&scene->place);
}

/* The child: one append between two stops. Its status says how often its claims were refused. */
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

/* A child that stands before its append. */
static pid_t start_victim(test_scene *scene) {
    int status;
    cl_record record;
    pid_t victim = fork();
    CHECK(victim >= 0);
    if (victim == 0) {
        append_once(scene);
    }
    CHECK(waitpid(victim, &status, 0) == victim && WIFSTOPPED(status) &&
          WSTOPSIG(status) == SIGSTOP);
    CHECK(!scene->warm || read_on(&scene->reader, &record) == CL_OK);
    return victim;
}

/* One instruction; false when the append is over. */
static bool step(pid_t victim) {
    int status;
    CHECK(ptrace(PTRACE_SINGLESTEP, victim, NULL, NULL) == 0);
    CHECK(waitpid(victim, &status, 0) == victim && WIFSTOPPED(status));
    return WSTOPSIG(status) != SIGSTOP;
}

/* Lets it run to its end, past its second stop, and returns how often it was refused. */
static int let_go(pid_t victim) {
    int status;
    for (;;) {
        CHECK(ptrace(PTRACE_CONT, victim, NULL, NULL) == 0 &&
              waitpid(victim, &status, 0) == victim);
        if (!WIFSTOPPED(status)) {
            break;
        }
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) < 100);
    return WEXITSTATUS(status);
}

static void kill_victim(pid_t victim) {
    int status;
    CHECK(kill(victim, SIGKILL) == 0 && waitpid(victim, &status, 0) == victim &&
          WIFSIGNALED(status));
}

static test_view look(const test_scene *scene) {
    test_view view = {.counter = cl_load(&scene->place.cursors->slots[1].counter),
                      .tail = cl_load(&scene->place.cursors->tail.value)};
    memcpy(view.frame, scene->reader.held->map + scene->at, FRAME);
    return view;
}

/* One instruction; whether others can see what it did. */
static bool step_visibly(const test_scene *scene, pid_t victim, test_view *view) {
    CHECK(step(victim));
    test_view after = look(scene);
    bool changed = memcmp(view, &after, sizeof after) != 0;
    *view = after;
    return changed;
}

/* Just before the change that comes `gap` instructions behind change `index`, or just behind it. */
static void drive(const test_scene *scene, pid_t victim, uint32_t index, uint64_t gap,
                  bool behind) {
    test_view view = look(scene);
    for (uint32_t seen = 0; seen < index;) {
        seen += step_visibly(scene, victim, &view);
    }
    bool changed = false;
    for (uint64_t steps = 1; steps < gap && !changed; steps++) {
        changed = step_visibly(scene, victim, &view);
    }
    while (behind && !changed) {
        changed = step_visibly(scene, victim, &view);
    }
}

/* Looks at the writer's place as a reader, twice with a moment in between, so that it also asks
 * whether the owner lives. */
static int look_twice(test_scene *scene, cl_record *record) {
    int code = read_on(&scene->reader, record);
    int64_t until_ns = cl_clock_monotonic_ns() + 40000;
    while (cl_clock_monotonic_ns() < until_ns) {
    }
    return code == CL_OK ? code : read_on(&scene->reader, record);
}

/* Drives one append from end to end under the eyes of a reader that would roll back what is dead:
 * it never is. Returns how often anything changed that others can see, and how many instructions
 * lie between. */
static uint32_t nothing_is_taken_from_a_stopped_writer_at_any_instruction(uint64_t *gaps,
                                                                          bool warm) {
    test_scene scene;
    cl_record record;
    uint64_t steps = 0, last = 0;
    uint32_t changed = 0;
    bool seen = false;
    start(&scene, NEVER_NS, warm);
    pid_t victim = start_victim(&scene);
    test_view before = look(&scene);
    while (step(victim)) {
        CHECK(++steps < MOST_STEPS);
        test_view after = look(&scene);
        if (memcmp(&before, &after, sizeof before) != 0) {
            CHECK(changed < MOST_CHANGES);
            gaps[changed++] = steps - last;
            last = steps;
            before = after;
        }
        int code = seen ? CL_OK : look_twice(&scene, &record);
        CHECK(code == CL_OK || code == CL_E_END || code == CL_E_BUSY);
        CHECK(scene.other.log.counters.rolled_back ==
              0); /* its slot is odd as long as its claim has no name, and it lives */
        if (code == CL_OK && !seen) {
            seen = true;
            CHECK(record.position == scene.at && record.value_length == VALUE &&
                  memcmp(record.value, victims, VALUE) == 0);
        }
    }
    CHECK(let_go(victim) == 0 && seen && scan_log(&scene.other) == 1u + warm);
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

/* How often the victim's record is in the log, read from its beginning, with `count` records of
 * others and the one that warmed it up. */
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

/* `later`: another writer's record stands behind the victim's claim. */
static void a_killed_writer_holds_nobody_up(uint32_t index, uint64_t gap, bool later) {
    test_scene scene;
    cl_record record;
    start(&scene, NEVER_NS, true);
    pid_t victim = start_victim(&scene);
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

/* Rolled back while it stood there, it claims again when it goes on; the reader that saw the
 * roll-back and one that begins now agree. */
static void a_writer_that_is_held_up_for_too_long_lands_once(uint32_t index, uint64_t gap,
                                                             bool behind, bool later) {
    test_scene scene;
    cl_record record;
    start(&scene, MILLISECOND / 5, true);
    pid_t victim = start_victim(&scene);
    drive(&scene, victim, index, gap, behind);
    int first = read_patiently(&scene.reader, &record);
    bool published = first == CL_OK;
    CHECK(first == CL_OK || first == CL_E_END);
    if (later) {
        append_value(&scene.other, "other", 5);
        CHECK(read_patiently(&scene.reader, &record) == CL_OK && record.value_length == 5);
    }
    CHECK(count_victims(&scene, later) == published);
    int refused = let_go(victim);
    CHECK(refused <= 1 && refused == (int)scene.other.log.counters.rolled_back);
    CHECK(count_victims(&scene, later) == 1);
    int code = read_patiently(&scene.reader, &record);
    CHECK(code == (published ? CL_E_END : CL_OK) && (published || record.value_length == VALUE));
    end(&scene);
}

/* The child: one look at a claim, or a gap, whose owner had the timeout. */
static void look_once(test_scene *scene) {
    test_handle handle;
    test_reader reader;
    cl_record record;
    open_handle(&scene->place, &handle, false);
    open_reader(&reader, &handle.log);
    int code = read_on(&reader, &record);
    reader.watch.awake_ns =
        NEVER_NS; /* the suspect of now had its timeout; the next one has it ahead */
    if (code != CL_E_BUSY || ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        _exit(100);
    }
    raise(SIGSTOP);
    code = read_on(&reader, &record);
    raise(SIGSTOP);
    _exit(code == CL_OK || code == CL_E_END || code == CL_E_BUSY ? 0 : 101);
}

/* An observer is driven into a roll-back, and behind so many of its instructions the owner
 * publishes, or makes its first swap: one of the two is refused, and both know which. Returns
 * whether the owner was in time; *steps is how many it took if the observer was through before. */
static bool an_owner_that_goes_on_in_a_roll_back_agrees_with_it(uint64_t *steps, bool gap) {
    test_scene scene;
    int status;
    start(&scene, NEVER_NS, false);
    cl_writer *owner = &scene.other.writer;
    cl_claim claim = {.segment = scene.reader.held, .offset = CL_SEGMENT_HEADER, .length = FRAME};
    if (gap) {
        scene.place.cursors->slots[0].counter++;
        cl_add(scene.other.log.tail, FRAME);
    } else {
        CHECK(cl_writer_claim(owner, FRAME, &claim) == CL_OK);
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
    CHECK(let_go(observer) == 0);
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

/* Finds the instruction behind which the owner is too late, and has it go on at each of those
 * around it. */
static void around_the_instruction_that_decides(bool gap) {
    uint64_t late = MOST_STEPS;
    CHECK(!an_owner_that_goes_on_in_a_roll_back_agrees_with_it(&late, gap) && late < MOST_STEPS);
    for (uint64_t in_time = 0; late - in_time > 1;) {
        uint64_t middle = in_time + (late - in_time) / 2;
        *(an_owner_that_goes_on_in_a_roll_back_agrees_with_it(&middle, gap) ? &in_time : &late) =
            middle;
    }
    for (uint64_t steps = late > AROUND ? late - AROUND : 0; steps < late + AROUND; steps++) {
        uint64_t stepped = steps;
        an_owner_that_goes_on_in_a_roll_back_agrees_with_it(&stepped, gap);
    }
}

/* Whether a process may be driven like this here. */
static bool can_be_driven(void) {
#if defined(__aarch64__)
    if (!(getauxval(AT_HWCAP) & HWCAP_ATOMICS)) {
        puts("nothing was driven: without the atomics of ARMv8.1, a load and store that belong "
             "together never succeed one step at a time");
        return false;
    }
#endif
    int status;
    pid_t child = fork();
    if (child == 0) {
        _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 100);
    }
    CHECK(waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        puts("nothing was driven: ptrace is not permitted here");
        return false;
    }
    return true;
}

int main(void) {
    uint64_t gaps[MOST_CHANGES];
    if (!can_be_driven()) {
        return 0;
    }
    nothing_is_taken_from_a_stopped_writer_at_any_instruction(gaps, false);
    uint32_t changed = nothing_is_taken_from_a_stopped_writer_at_any_instruction(gaps, true);
    CHECK(changed >= 6); /* the slot twice, the tail, the cell twice, and what is between */
    for (uint32_t index = 0; index < changed; index++) {
        /* To the living, before a change is as behind the one before it; to the stopped writer it
         * is not. */
        a_killed_writer_holds_nobody_up(index, gaps[index], index % 2);
        a_killed_writer_holds_nobody_up(index, gaps[index], index % 2 == 0);
        a_writer_that_is_held_up_for_too_long_lands_once(index, gaps[index], false, index % 2);
        a_writer_that_is_held_up_for_too_long_lands_once(index, gaps[index], true, index % 2 == 0);
    }
    around_the_instruction_that_decides(false);
    around_the_instruction_that_decides(true);
    return 0;
}

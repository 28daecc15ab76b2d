/* Shared by the tests that drive a writer in another process through one append, instruction by
 * instruction. Other processes see the writer's slot, the tail and the claimed bytes. Few
 * instructions change these. */
#ifndef DRIVEN_H
#define DRIVEN_H

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
#define VALUE 40u
#define FRAME (CL_FRAME_HEADER + VALUE)
#define OTHER (CL_FRAME_HEADER + 8u) /* the frame of five bytes */

typedef struct {
    test_place place;
    test_handle other;
    test_reader reader; /* of `other` */
    bool warm;          /* the victim has mapped the segment before: far fewer instructions */
    uint64_t at;        /* the offset of the victim's claim */
    bool seen;          /* the reader has read the victim's record */
} test_scene;

typedef struct {
    uint64_t counter;
    uint64_t tail;
    uint8_t frame[FRAME];
} test_view;

static const uint8_t victims[VALUE] = "what a writer appends that is held up";

static UNUSED void start(test_scene *scene, int64_t claim_timeout_ns, bool warm) {
    memset(scene, 0, sizeof *scene);
    make_place(&scene->place, SMALL);
    open_handle(&scene->place, &scene->other, false);
    scene->other.log.claim_timeout_ns = claim_timeout_ns;
    open_reader(&scene->reader, &scene->other.log);
    scene->warm = warm;
    scene->at = CL_SEGMENT_HEADER + (warm ? OTHER : 0);
}

static UNUSED void end(test_scene *scene) {
    close_reader(&scene->reader);
    close_handle(&scene->other);
    drop_place(&scene->place);
}

/* Forks a child and waits until it has stopped before its append. */
static UNUSED pid_t start_victim(test_scene *scene, void (*run)(test_scene *scene)) {
    int status;
    cl_record record;
    pid_t victim = fork();
    CHECK(victim >= 0);
    if (victim == 0) {
        run(scene);
    }
    CHECK(waitpid(victim, &status, 0) == victim && WIFSTOPPED(status) &&
          WSTOPSIG(status) == SIGSTOP);
    CHECK(!scene->warm || read_on(&scene->reader, &record) == CL_OK);
    return victim;
}

/* Runs one instruction; returns false when the append is over. */
static UNUSED bool step(pid_t victim) {
    int status;
    CHECK(ptrace(PTRACE_SINGLESTEP, victim, NULL, NULL) == 0);
    CHECK(waitpid(victim, &status, 0) == victim && WIFSTOPPED(status));
    return WSTOPSIG(status) != SIGSTOP;
}

/* Lets the child run to its end, past its second stop. Returns how often it was refused. */
static UNUSED int run_to_end(pid_t victim) {
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

static UNUSED void kill_victim(pid_t victim) {
    int status;
    CHECK(kill(victim, SIGKILL) == 0 && waitpid(victim, &status, 0) == victim &&
          WIFSIGNALED(status));
}

static UNUSED test_view look(const test_scene *scene) {
    test_view view = {.counter = cl_load(&scene->place.cursors->slots[1].counter),
                      .tail = cl_load(&scene->place.cursors->tail.value)};
    memcpy(view.frame, scene->reader.held->map + scene->at, FRAME);
    return view;
}

/* Runs one instruction; returns whether it changed what other processes see. */
static UNUSED bool step_visibly(const test_scene *scene, pid_t victim, test_view *view) {
    CHECK(step(victim));
    test_view after = look(scene);
    bool changed = memcmp(view, &after, sizeof after) != 0;
    *view = after;
    return changed;
}

/* Drives the victim to just before the change that comes `gap` instructions after change `index`,
 * or to just after it. */
static UNUSED void drive(const test_scene *scene, pid_t victim, uint32_t index, uint64_t gap,
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

/* Returns whether ptrace can drive a process on this machine. */
static UNUSED bool can_be_driven(void) {
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

/* Drives a victim to its end, and calls `looked` after each instruction. Returns the number of
 * visible changes and, in `gaps`, the instructions between them. */
static UNUSED uint32_t step_to_end(test_scene *scene, pid_t victim, uint64_t *gaps,
                                   void (*looked)(test_scene *scene)) {
    uint64_t steps = 0, last = 0;
    uint32_t changed = 0;
    test_view before = look(scene);
    while (step(victim)) {
        CHECK(++steps < MOST_STEPS);
        test_view after = look(scene);
        if (memcmp(&before, &after, sizeof before) != 0) {
            CHECK(changed < MOST_CHANGES);
            gaps[changed++] = steps - last;
            last = steps;
            before = after;
        }
        looked(scene);
    }
    CHECK(run_to_end(victim) == 0 && scene->seen);
    return changed;
}

#endif

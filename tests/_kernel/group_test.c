/* threads */
/* Group commit: whom a leader waits for, for how long, and when it does not. */
#include "scene.h"

#include "group_commit.h"

#define LONG_NS (20000 * MILLISECOND)

/* A flush that served `count` and took long enough, after which the next leader may wait for
 * `patience_ns`. */
static void flush_served(cl_group_commit *group, uint32_t count, int64_t patience_ns) {
    for (uint32_t index = 0; index < count; index++) {
        cl_group_commit_arrive(group);
    }
    cl_group_commit_begin(group);
    cl_sleep_ns(2 * MILLISECOND);
    cl_group_commit_end(group);
    CHECK(group->until_ns > cl_clock_monotonic_ns() - PATIENCE_NS);
    group->until_ns = cl_clock_monotonic_ns() + patience_ns;
}

static int64_t gathering_takes(cl_group_commit *group, int64_t deadline_ns) {
    int64_t began_ns = cl_clock_monotonic_ns();
    cl_group_commit_gather(group, deadline_ns);
    return cl_clock_monotonic_ns() - began_ns;
}

static void *come_back(void *argument) {
    for (int index = 0; index < 3; index++) {
        cl_sleep_ns(5 * MILLISECOND);
        cl_group_commit_arrive(argument);
    }
    return NULL;
}

static void a_leader_waits_until_all_are_back(void) {
    cl_group_commit group = {0};
    pthread_t others;
    flush_served(&group, 4, LONG_NS);
    cl_group_commit_arrive(&group); /* the leader itself, and three are missing */
    CHECK(pthread_create(&others, NULL, come_back, &group) == 0);
    CHECK(gathering_takes(&group, INT64_MAX) < LONG_NS / 2 && group.arrived == 8 &&
          group.rests == 0);
    pthread_join(others, NULL);
}

/* Four who came during a flush that served another four: all eight belong together. */
static void two_groups_become_one(void) {
    cl_group_commit group = {0};
    flush_served(&group, 4, 0);
    for (int index = 0; index < 4; index++) {
        cl_group_commit_arrive(&group);
    }
    cl_group_commit_begin(&group);
    for (int index = 0; index < 4; index++) {
        cl_group_commit_arrive(&group); /* those of the first flush, back with the next record */
    }
    cl_group_commit_end(&group);
    CHECK(group.complete == 4 + 4 + 4 + 4);
}

static void one_who_appends_alone_does_not_wait(void) {
    cl_group_commit group = {0};
    for (int turn = 0; turn < 5; turn++) {
        flush_served(&group, 1, LONG_NS);
        cl_group_commit_arrive(&group);
        CHECK(gathering_takes(&group, INT64_MAX) < LONG_NS / 2);
        cl_group_commit_begin(&group);
        cl_group_commit_end(&group);
    }
}

static void whoever_comes_late_does_not_wait(void) {
    cl_group_commit group = {0};
    flush_served(&group, 4, 0);
    cl_sleep_ns(MILLISECOND);
    cl_group_commit_arrive(&group);
    cl_group_commit_gather(&group, INT64_MAX);
    CHECK(group.awaited == 0);
}

static void after_a_short_flush_nobody_waits(void) {
    cl_group_commit group = {0};
    for (int turn = 0; turn < 100; turn++) { /* one that was not interrupted is short */
        cl_group_commit_begin(&group);
        cl_group_commit_end(&group);
        if (group.until_ns <= cl_clock_monotonic_ns()) {
            return;
        }
    }
    CHECK(false);
}

static void a_deadline_ends_the_wait(void) {
    cl_group_commit group = {0};
    flush_served(&group, 4, LONG_NS);
    cl_group_commit_arrive(&group);
    CHECK(gathering_takes(&group, deadline(5 * MILLISECOND)) < LONG_NS / 2);
}

/* Those who do something else between their appends are waited for less and less often. */
static void a_wait_in_vain_is_not_repeated_at_once(void) {
    cl_group_commit group = {0};
    uint32_t waits = 0;
    for (int turn = 0; turn < 400; turn++) {
        group.complete = group.arrived + 3;
        group.until_ns = deadline(MILLISECOND / 10);
        group.awaited = 0;
        cl_group_commit_gather(&group, INT64_MAX);
        waits += group.awaited != 0;
    }
    CHECK(waits >= 6 && waits <= 12 && group.in_vain == 63);
}

int main(void) {
    a_leader_waits_until_all_are_back();
    two_groups_become_one();
    one_who_appends_alone_does_not_wait();
    whoever_comes_late_does_not_wait();
    after_a_short_flush_nobody_waits();
    a_deadline_ends_the_wait();
    a_wait_in_vain_is_not_repeated_at_once();
    return 0;
}

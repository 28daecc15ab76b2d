/* Roll-back of claims: at once if the owner is dead, after the claim timeout if it lives; and what
 * a zombie's publish returns. */
#include "kernel_test.h"

#define NEVER_NS (3600000 * MILLISECOND)
#define GAP 48u
#define WITH_LARGE_FRAMES (1u << 20) /* a segment that takes frames beyond CL_FRAME_ADD_LIMIT */

typedef struct {
    test_place place;
    test_handle writer;
    test_handle other;
    test_reader reader; /* of `other` */
} test_scene;

static void start_sized(test_scene *scene, uint64_t size, int64_t claim_timeout_ns) {
    make_place(&scene->place, size);
    open_handle(&scene->place, &scene->writer, false);
    open_handle(&scene->place, &scene->other, false);
    scene->other.log.claim_timeout_ns = claim_timeout_ns;
    open_reader(&scene->reader, &scene->other.log);
}

static void start(test_scene *scene, int64_t claim_timeout_ns) {
    start_sized(scene, SMALL, claim_timeout_ns);
}

static void end(test_scene *scene) {
    close_reader(&scene->reader);
    close_handle(&scene->other);
    if (scene->writer.slot_fds.cursors >= 0) {
        close_handle(&scene->writer);
    } else {
        forget_killed(&scene->writer);
    }
    drop_place(&scene->place);
}

/* Reads until the result is not CL_E_BUSY, and measures how long that took. */
static int read_patiently(test_reader *reader, cl_record *record, int64_t *took_ns) {
    int64_t began_ns = cl_clock_monotonic_ns();
    int code;
    do {
        code = read_on(reader, record);
        *took_ns = cl_clock_monotonic_ns() - began_ns;
    } while (code == CL_E_BUSY && *took_ns < PATIENCE_NS);
    return code;
}

/* Runs step 1 of the protocol only: the slot's counter is odd, the tail has moved, the cell is
 * zero. */
static uint64_t stop_in_the_gap(test_handle *handle) {
    uint64_t *counter = &handle->place->cursors->slots[handle->log.slot].counter;
    __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
    return cl_tail_offset(cl_add(handle->log.tail, GAP));
}

static void leave_the_gap(test_handle *handle) {
    __atomic_fetch_add(&handle->place->cursors->slots[handle->log.slot].counter, 1,
                       __ATOMIC_SEQ_CST);
}

static void claim_of_a_dead_owner_is_rolled_back_at_once(void) {
    test_scene scene;
    cl_claim claim;
    cl_record record;
    int64_t took_ns;
    start(&scene, NEVER_NS);
    CHECK(claim_bytes(&scene.writer.writer, 100, &claim) == CL_OK);
    uint64_t after = append_value(&scene.other, "x", 1);
    CHECK(read_on(&scene.reader, &record) == CL_E_BUSY);
    kill_handle(&scene.writer);
    CHECK(read_patiently(&scene.reader, &record, &took_ns) == CL_OK && record.position == after);
    cl_segment *segment = scene.reader.held;
    CHECK(cell_at(&scene.other, CL_SEGMENT_HEADER) ==
          cl_skip_cell(segment, CL_SEGMENT_HEADER, 100));
    CHECK(scene.place.cursors->slots[scene.writer.log.slot].rolled_back == 1 &&
          scene.other.log.counters.rolled_back == 1);
    CHECK(scan_log(&scene.other) == 1);
    end(&scene);
}

static void claim_of_a_live_owner_is_rolled_back_after_timeout(void) {
    test_scene scene;
    cl_claim claim;
    cl_record record;
    int64_t took_ns;
    start(&scene, 50 * MILLISECOND);
    CHECK(claim_bytes(&scene.writer.writer, 100, &claim) == CL_OK);
    uint64_t after = append_value(&scene.other, "x", 1);
    CHECK(read_patiently(&scene.reader, &record, &took_ns) == CL_OK && record.position == after);
    CHECK(took_ns >= 50 * MILLISECOND);
    cl_record_input input = record_of("late", 4);
    uint64_t cell = cl_frame_write(claim.segment, claim.offset, &input);
    CHECK(cl_writer_publish(&scene.writer.writer, &claim, cell, 1) == CL_E_ROLLED_BACK &&
          scene.writer.writer.counters.refused == 1);
    CHECK(append_value(&scene.writer, "again", 5) > after); /* the owner's next append succeeds */
    CHECK(scan_log(&scene.other) == 2);
    end(&scene);
}

/* A process that probes its own lock always gets "dead". */
static void own_claim_is_not_probed(void) {
    test_scene scene;
    cl_claim claim;
    start(&scene, NEVER_NS);
    CHECK(claim_bytes(&scene.other.writer, 100, &claim) == CL_OK);
    cl_record record;
    int64_t until_ns = cl_clock_monotonic_ns() + 20 * MILLISECOND;
    while (cl_clock_monotonic_ns() < until_ns) {
        CHECK(read_on(&scene.reader, &record) == CL_E_BUSY);
    }
    cl_writer_abandon(&scene.other.writer, &claim);
    CHECK(read_on(&scene.reader, &record) == CL_E_END);
    end(&scene);
}

static void retaken_slot_has_another_generation(void) {
    test_scene scene;
    test_handle successor;
    cl_claim claim;
    cl_record record;
    int64_t took_ns;
    start(&scene, NEVER_NS);
    CHECK(claim_bytes(&scene.writer.writer, 100, &claim) == CL_OK);
    kill_handle(&scene.writer);
    open_handle(&scene.place, &successor, false);
    CHECK(successor.log.slot == scene.writer.log.slot &&
          successor.log.owner != scene.writer.log.owner);
    uint64_t after = append_value(&successor, "x", 1);
    CHECK(read_patiently(&scene.reader, &record, &took_ns) == CL_OK && record.position == after);
    close_handle(&successor);
    end(&scene);
}

static void gap_without_an_odd_slot_is_marked_at_the_first_poll(void) {
    test_scene scene;
    cl_record record;
    start(&scene, NEVER_NS);
    cl_add(scene.other.log.tail, GAP);
    CHECK(read_on(&scene.reader, &record) == CL_E_END);
    for (uint32_t offset = CL_SEGMENT_HEADER; offset < CL_SEGMENT_HEADER + GAP;
         offset += CL_FRAME_SMALLEST) {
        CHECK(cell_at(&scene.other, offset) ==
              cl_skip_cell(scene.reader.held, offset, CL_FRAME_SMALLEST));
    }
    CHECK(cell_at(&scene.other, CL_SEGMENT_HEADER + GAP) == 0);
    end(&scene);
}

static void gap_of_a_live_odd_slot_is_marked_after_the_timeout(void) {
    test_scene scene;
    cl_record record;
    int64_t took_ns;
    start(&scene, 50 * MILLISECOND);
    uint64_t offset = stop_in_the_gap(&scene.writer);
    uint64_t after = append_value(&scene.other, "x", 1);
    CHECK(read_patiently(&scene.reader, &record, &took_ns) == CL_OK && record.position == after);
    CHECK(took_ns >= 50 * MILLISECOND);
    /* The zombie resumes: its first swap fails, because every 8 bytes of the gap are marked. */
    uint64_t zero = 0;
    uint64_t claimed = cl_cell(CL_WORD_CLAIMED | GAP, scene.writer.log.owner);
    CHECK(!cl_swap((uint64_t *)(scene.reader.held->bytes + offset), &zero, claimed));
    leave_the_gap(&scene.writer);
    append_value(&scene.writer, "again", 5);
    CHECK(scan_log(&scene.other) == 2);
    end(&scene);
}

static void gap_of_a_dead_odd_slot_is_marked_soon(void) {
    test_scene scene;
    cl_record record;
    int64_t took_ns;
    start(&scene, NEVER_NS);
    stop_in_the_gap(&scene.writer);
    kill_handle(&scene.writer);
    uint64_t after = append_value(&scene.other, "x", 1);
    CHECK(read_patiently(&scene.reader, &record, &took_ns) == CL_OK && record.position == after);
    CHECK(scan_log(&scene.other) == 1);
    end(&scene);
}

/* Every suspect has moved on since, so the gap belongs to an owner that died earlier. */
static void gap_is_marked_once_every_suspect_has_moved(void) {
    test_scene scene;
    cl_record record;
    start(&scene, NEVER_NS);
    cl_add(scene.other.log.tail, GAP);
    uint64_t offset = stop_in_the_gap(&scene.writer);
    CHECK(offset == CL_SEGMENT_HEADER + GAP);
    CHECK(read_on(&scene.reader, &record) == CL_E_BUSY &&
          read_on(&scene.reader, &record) == CL_E_BUSY);
    uint64_t zero = 0;
    uint64_t claimed = cl_cell(CL_WORD_CLAIMED | GAP, scene.writer.log.owner);
    CHECK(cl_swap((uint64_t *)(scene.reader.held->bytes + offset), &zero, claimed));
    leave_the_gap(&scene.writer);
    /* The reader has passed the gap and waits for the live claim behind it. */
    CHECK(read_on(&scene.reader, &record) == CL_E_BUSY);
    CHECK(cell_at(&scene.other, CL_SEGMENT_HEADER) != 0 &&
          cell_at(&scene.other, offset) == claimed);
    cl_claim claim = {.segment = scene.reader.held, .offset = (uint32_t)offset, .length = GAP};
    cl_record_input input = record_of("thirty-two bytes of a live claim", GAP - CL_FRAME_HEADER);
    CHECK(cl_writer_publish(&scene.writer.writer, &claim,
                            cl_frame_write(claim.segment, claim.offset, &input), 1) == CL_OK);
    CHECK(read_on(&scene.reader, &record) == CL_OK && record.position == offset);
    end(&scene);
}

/* A claim made after the gap was first seen is not part of the gap, even if no reader had to wait
 * for its owner. */
static void gap_ends_at_the_tail_of_the_first_poll(void) {
    test_scene scene;
    cl_record record;
    start(&scene, NEVER_NS);
    cl_add(scene.other.log.tail, GAP); /* the owner died here */
    uint64_t offset = stop_in_the_gap(&scene.writer);
    CHECK(read_on(&scene.reader, &record) == CL_E_BUSY);
    /* This slot does not own the first gap and has no claim. */
    leave_the_gap(&scene.writer);
    uint64_t later = stop_in_the_gap(&scene.writer);
    CHECK(offset == CL_SEGMENT_HEADER + GAP && later == offset + GAP);
    for (int look = 0; look < 100; look++) {
        CHECK(read_on(&scene.reader, &record) == CL_E_BUSY);
    }
    CHECK(scene.reader.reader.offset == later &&
          cell_at(&scene.other, later - CL_FRAME_SMALLEST) != 0 &&
          cell_at(&scene.other, later) == 0);
    uint64_t zero = 0;
    uint64_t claimed = cl_cell(CL_WORD_CLAIMED | GAP, scene.writer.log.owner);
    CHECK(cl_swap((uint64_t *)(scene.reader.held->bytes + later), &zero, claimed));
    leave_the_gap(&scene.writer);
    end(&scene);
}

/* Marks stop at the first foreign cell: behind it is the body of a live claim, which may be zero.
 */
static void marks_stop_at_the_first_foreign_cell(void) {
    test_scene scene;
    cl_claim claim;
    cl_record record;
    start(&scene, NEVER_NS);
    cl_add(scene.other.log.tail, GAP);
    CHECK(claim_bytes(&scene.writer.writer, 4 * GAP, &claim) == CL_OK);
    static const uint8_t value[4 * GAP - CL_FRAME_HEADER]; /* zeros */
    cl_record_input input = record_of(value, sizeof value);
    input.timestamp_ns = 0;
    uint64_t cell = cl_frame_write(claim.segment, claim.offset, &input);
    CHECK(read_on(&scene.reader, &record) == CL_E_BUSY &&
          scene.reader.reader.offset == claim.offset);
    CHECK(cl_writer_publish(&scene.writer.writer, &claim, cell, 1) == CL_OK);
    CHECK(read_on(&scene.reader, &record) == CL_OK && record.position == claim.offset &&
          record.value_length == sizeof value);
    end(&scene);
}

/* A stopped owner is a suspect of every later gap, but it has used up its timeout with the first.
 */
static void stopped_owner_costs_its_timeout_once(void) {
    /* Together their timeouts exceed what a busy machine needs for one. */
    enum { GAPS = 200 };
    test_scene scene;
    cl_record record;
    int64_t took_ns, first_ns = 0;
    start(&scene, 100 * MILLISECOND);
    stop_in_the_gap(&scene.writer);
    append_value(&scene.other, "x", 1);
    CHECK(read_patiently(&scene.reader, &record, &first_ns) == CL_OK &&
          first_ns >= 100 * MILLISECOND);
    int64_t began_ns = cl_clock_monotonic_ns();
    for (int gap = 0; gap < GAPS; gap++) {
        cl_add(scene.other.log.tail, GAP); /* dead: no slot is odd for it */
        append_value(&scene.other, "x", 1);
        CHECK(read_patiently(&scene.reader, &record, &took_ns) == CL_OK);
    }
    CHECK(cl_clock_monotonic_ns() - began_ns < GAPS * 100 * MILLISECOND);
    /* In its next odd window, the owner has the whole timeout again. */
    leave_the_gap(&scene.writer);
    stop_in_the_gap(&scene.writer);
    CHECK(read_patiently(&scene.reader, &record, &took_ns) == CL_E_END &&
          took_ns >= 100 * MILLISECOND);
    leave_the_gap(&scene.writer);
    end(&scene);
}

/* A process that only polls `appended` resolves claims, too. */
static void polling_appended_rolls_dead_claims_back(void) {
    test_scene scene;
    cl_claim claim;
    uint64_t appended = 0;
    start(&scene, NEVER_NS);
    CHECK(claim_bytes(&scene.writer.writer, 100, &claim) == CL_OK);
    kill_handle(&scene.writer);
    int64_t until_ns = cl_clock_monotonic_ns() + PATIENCE_NS;
    while (appended < CL_SEGMENT_HEADER + 104 && cl_clock_monotonic_ns() < until_ns) {
        CHECK(cl_log_appended(&scene.other.log, &appended) == CL_OK);
    }
    CHECK(appended == CL_SEGMENT_HEADER + 104 && scene.other.log.counters.rolled_back == 1);
    end(&scene);
}

/* A zombie that keeps writing after a roll-back writes into a SKIP, whose CRC does not cover its
 * body. */
static void zombie_write_into_a_skip_is_harmless(void) {
    test_scene scene;
    cl_claim claim;
    cl_record record;
    int64_t took_ns;
    static uint8_t value[84];
    start(&scene, MILLISECOND);
    CHECK(claim_bytes(&scene.writer.writer, 100, &claim) == CL_OK);
    append_value(&scene.other, "x", 1);
    CHECK(read_patiently(&scene.reader, &record, &took_ns) == CL_OK);
    memset(value, 0xA5, sizeof value);
    cl_record_input input = record_of(value, sizeof value);
    uint64_t cell = cl_frame_write(claim.segment, claim.offset, &input);
    CHECK(scan_log(&scene.other) == 1);
    CHECK(cl_writer_publish(&scene.writer.writer, &claim, cell, 1) == CL_E_ROLLED_BACK &&
          scan_log(&scene.other) == 1);
    end(&scene);
}

static void gap_across_the_end_of_the_segment_is_marked_to_the_end(void) {
    test_scene scene;
    cl_record record;
    start(&scene, NEVER_NS);
    cl_add(scene.other.log.tail, SMALL); /* crosses the end; no writer pads */
    CHECK(read_on(&scene.reader, &record) == CL_E_END);
    make_segment(&scene.place, 1, 0);
    CHECK(cl_writer_roll(&scene.other.writer, 0, 1, 0) == CL_OK);
    CHECK(append_value(&scene.other, "x", 1) == SMALL + CL_SEGMENT_HEADER);
    CHECK(read_on(&scene.reader, &record) == CL_OK && read_on(&scene.reader, &record) == CL_E_END);
    CHECK(scan_log(&scene.other) == 1);
    end(&scene);
}

/* Another handle has reached the segment's end. The slot of the refused handle must be even again,
 * or the gap of a dead owner would wait for the claim timeout. */
static void refused_large_claim_delays_no_gap(void) {
    test_scene scene;
    cl_claim claim;
    cl_record record;
    int64_t took_ns;
    start_sized(&scene, WITH_LARGE_FRAMES, NEVER_NS);
    CHECK(cl_writer_close_segment(&scene.other.writer, CL_SEGMENT_CURRENT) == CL_OK);
    CHECK(claim_bytes(&scene.writer.writer, CL_FRAME_ADD_LIMIT + CL_FRAME_ALIGN, &claim) ==
          CL_E_ROLL);
    make_segment(&scene.place, 1, 0);
    CHECK(cl_writer_roll(&scene.other.writer, 0, 1, 0) == CL_OK);
    cl_add(scene.other.log.tail, GAP); /* of an owner that died */
    uint64_t after = append_value(&scene.other, "x", 1);
    CHECK(read_patiently(&scene.reader, &record, &took_ns) == CL_OK && record.position == after);
    end(&scene);
}

/* The clock counts the observer's own polls, so a suspended machine expires no claim. */
static void suspended_observer_expires_no_claim(void) {
    test_scene scene;
    cl_claim claim;
    cl_record record;
    start(&scene, 100 * MILLISECOND);
    CHECK(claim_bytes(&scene.writer.writer, 100, &claim) == CL_OK);
    CHECK(read_on(&scene.reader, &record) == CL_E_BUSY);
    scene.reader.watch.polled_ns -= 3600000 * MILLISECOND; /* an hour between two polls */
    CHECK(read_on(&scene.reader, &record) == CL_E_BUSY &&
          read_on(&scene.reader, &record) == CL_E_BUSY);
    CHECK(scene.reader.watch.awake_ns < 100 * MILLISECOND);
    static const uint8_t value[84];
    cl_record_input input = record_of(value, sizeof value);
    CHECK(cl_writer_publish(&scene.writer.writer, &claim,
                            cl_frame_write(claim.segment, claim.offset, &input), 1) == CL_OK);
    CHECK(read_on(&scene.reader, &record) == CL_OK && record.value_length == 84);
    end(&scene);
}

static void read_only_reader_passes_dead_claims_and_awaits_live_ones(void) {
    test_scene scene;
    test_handle observer;
    test_reader reader;
    cl_claim dead, live;
    cl_record record;
    int64_t took_ns;
    start(&scene, NEVER_NS);
    open_observer(&scene.place, &observer);
    /* A handle that may not roll back ignores this. */
    observer.log.claim_timeout_ns = MILLISECOND;
    open_reader(&reader, &observer.log);
    CHECK(claim_bytes(&scene.writer.writer, 100, &dead) == CL_OK);
    cl_add(scene.other.log.tail, GAP);
    CHECK(claim_bytes(&scene.other.writer, 40, &live) == CL_OK);
    uint64_t cell = cell_at(&scene.other, CL_SEGMENT_HEADER);
    kill_handle(&scene.writer);
    int64_t until_ns = cl_clock_monotonic_ns() + PATIENCE_NS;
    while (reader.reader.offset != live.offset && cl_clock_monotonic_ns() < until_ns) {
        CHECK(read_on(&reader, &record) == CL_E_BUSY);
    }
    until_ns = cl_clock_monotonic_ns() + 20 * MILLISECOND;
    while (cl_clock_monotonic_ns() < until_ns) {
        CHECK(read_on(&reader, &record) == CL_E_BUSY);
    }
    /* The observer has passed the dead claim and the gap. */
    CHECK(reader.reader.offset == live.offset);
    CHECK(cell_at(&scene.other, CL_SEGMENT_HEADER) == cell &&
          cell_at(&scene.other, CL_SEGMENT_HEADER + 104) == 0);
    cl_record_input input = record_of("twenty-four bytes, alive", 24);
    CHECK(cl_writer_publish(&scene.other.writer, &live,
                            cl_frame_write(live.segment, live.offset, &input), 1) == CL_OK);
    CHECK(read_patiently(&reader, &record, &took_ns) == CL_OK && record.value_length == 24);
    close_reader(&reader);
    close_handle(&observer);
    end(&scene);
}

static void read_only_reader_waits_at_the_gap_of_a_live_owner(void) {
    test_scene scene;
    test_handle observer;
    test_reader reader;
    cl_record record;
    int64_t took_ns;
    start(&scene, NEVER_NS);
    open_observer(&scene.place, &observer);
    observer.log.claim_timeout_ns = MILLISECOND;
    open_reader(&reader, &observer.log);
    stop_in_the_gap(&scene.writer);
    uint64_t after = append_value(&scene.other, "x", 1);
    int64_t until_ns = cl_clock_monotonic_ns() + 20 * MILLISECOND;
    while (cl_clock_monotonic_ns() < until_ns) {
        CHECK(read_on(&reader, &record) == CL_E_BUSY && reader.reader.offset == CL_SEGMENT_HEADER);
    }
    kill_handle(&scene.writer);
    CHECK(read_patiently(&reader, &record, &took_ns) == CL_OK && record.position == after);
    CHECK(cell_at(&scene.other, CL_SEGMENT_HEADER) == 0);
    close_reader(&reader);
    close_handle(&observer);
    end(&scene);
}

static void appended_passes_dead_claims_only(void) {
    test_scene scene;
    cl_claim claim;
    uint64_t appended;
    start(&scene, NEVER_NS);
    uint64_t first = append_value(&scene.other, "x", 1);
    CHECK(claim_bytes(&scene.writer.writer, 100, &claim) == CL_OK);
    append_value(&scene.other, "x", 1);
    CHECK(cl_log_appended(&scene.other.log, &appended) == CL_OK && appended == first + 24);
    kill_handle(&scene.writer);
    int64_t until_ns = cl_clock_monotonic_ns() + PATIENCE_NS;
    while (cl_load(&scene.place.cursors->committed.value) < first + 24 + 104 + 24 &&
           cl_clock_monotonic_ns() < until_ns) {
        CHECK(cl_commit(&scene.other.log, UINT64_MAX) != CL_E_FAILED);
    }
    CHECK(cl_log_appended(&scene.other.log, &appended) == CL_OK &&
          appended == first + 24 + 104 + 24);
    end(&scene);
}

static void slots_are_taken_in_order_until_none_is_left(void) {
    test_place place;
    static cl_slot_fds fds[CL_CURSORS_SLOTS + 1];
    uint32_t slot, generation;
    make_place(&place, SMALL);
    for (uint32_t index = 0; index <= CL_CURSORS_SLOTS; index++) {
        fds[index] = open_slot_fds(&place);
        int code = cl_slot_attach(place.cursors, fds[index], &slot, &generation);
        CHECK(code == (index < CL_CURSORS_SLOTS ? CL_OK : CL_E_SLOTS));
        CHECK(code != CL_OK || (slot == index && generation == 1));
    }
    for (uint32_t index = 0; index < CL_CURSORS_SLOTS; index++) {
        CHECK(cl_slot_alive(fds[CL_CURSORS_SLOTS], index));
        close_slot_fds(fds[index]);
        CHECK(!cl_slot_alive(fds[CL_CURSORS_SLOTS], index));
    }
    place.cursors->slots[0].counter = 7; /* the owner died in the odd window */
    place.cursors->slots[0].generation = CL_OWNER_GENERATION_MASK;
    CHECK(cl_slot_attach(place.cursors, fds[CL_CURSORS_SLOTS], &slot, &generation) == CL_OK &&
          slot == 0 && generation == 1);
    CHECK(place.cursors->slots[0].counter == 8);
    cl_slot_detach(place.cursors, fds[CL_CURSORS_SLOTS], slot);
    close_slot_fds(fds[CL_CURSORS_SLOTS]);
    drop_place(&place);
}

int main(void) {
    claim_of_a_dead_owner_is_rolled_back_at_once();
    claim_of_a_live_owner_is_rolled_back_after_timeout();
    own_claim_is_not_probed();
    retaken_slot_has_another_generation();
    gap_without_an_odd_slot_is_marked_at_the_first_poll();
    gap_of_a_live_odd_slot_is_marked_after_the_timeout();
    gap_of_a_dead_odd_slot_is_marked_soon();
    gap_is_marked_once_every_suspect_has_moved();
    gap_ends_at_the_tail_of_the_first_poll();
    marks_stop_at_the_first_foreign_cell();
    stopped_owner_costs_its_timeout_once();
    polling_appended_rolls_dead_claims_back();
    zombie_write_into_a_skip_is_harmless();
    gap_across_the_end_of_the_segment_is_marked_to_the_end();
    refused_large_claim_delays_no_gap();
    suspended_observer_expires_no_claim();
    read_only_reader_passes_dead_claims_and_awaits_live_ones();
    read_only_reader_waits_at_the_gap_of_a_live_owner();
    appended_passes_dead_claims_only();
    slots_are_taken_in_order_until_none_is_left();
    return 0;
}

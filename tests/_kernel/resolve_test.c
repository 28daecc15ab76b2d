/* Claims that will never be published: who is dead at once, who has until the claim timeout, and
 * what a zombie finds. */
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

/* Reads until something other than BUSY comes, and how long that took. */
static int read_patiently(test_reader *reader, cl_record *record, int64_t *took_ns) {
    int64_t began_ns = cl_clock_monotonic_ns();
    int code;
    do {
        code = read_on(reader, record);
        *took_ns = cl_clock_monotonic_ns() - began_ns;
    } while (code == CL_E_BUSY && *took_ns < PATIENCE_NS);
    return code;
}

/* Step 1 of the protocol and no further: the slot is odd, the tail has moved, the cell is zero. */
static uint64_t stop_in_the_gap(test_handle *handle) {
    uint64_t *counter = &handle->place->cursors->slots[handle->log.slot].counter;
    __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
    return cl_tail_offset(cl_add(handle->log.tail, GAP));
}

static void leave_the_gap(test_handle *handle) {
    __atomic_fetch_add(&handle->place->cursors->slots[handle->log.slot].counter, 1,
                       __ATOMIC_SEQ_CST);
}

static void a_dead_owners_claim_is_rolled_back_at_once(void) {
    test_scene scene;
    cl_claim claim;
    cl_record record;
    int64_t took_ns;
    start(&scene, NEVER_NS);
    CHECK(cl_writer_claim(&scene.writer.writer, 100, &claim) == CL_OK);
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

static void a_live_owners_claim_is_rolled_back_after_the_timeout(void) {
    test_scene scene;
    cl_claim claim;
    cl_record record;
    int64_t took_ns;
    start(&scene, 50 * MILLISECOND);
    CHECK(cl_writer_claim(&scene.writer.writer, 100, &claim) == CL_OK);
    uint64_t after = append_value(&scene.other, "x", 1);
    CHECK(read_patiently(&scene.reader, &record, &took_ns) == CL_OK && record.position == after);
    CHECK(took_ns >= 50 * MILLISECOND);
    cl_record_input input = record_of("late", 4);
    uint64_t cell = cl_frame_write(claim.segment, claim.offset, &input);
    CHECK(cl_writer_publish(&scene.writer.writer, &claim, cell, 1) == CL_E_ROLLED_BACK &&
          scene.writer.writer.counters.refused == 1);
    CHECK(append_value(&scene.writer, "again", 5) > after); /* its owner goes on as before */
    CHECK(scan_log(&scene.other) == 2);
    end(&scene);
}

/* Asking the kernel about one's own lock would always answer "dead". */
static void ones_own_claim_is_not_probed(void) {
    test_scene scene;
    cl_claim claim;
    start(&scene, NEVER_NS);
    CHECK(cl_writer_claim(&scene.other.writer, 100, &claim) == CL_OK);
    cl_record record;
    int64_t until_ns = cl_clock_monotonic_ns() + 20 * MILLISECOND;
    while (cl_clock_monotonic_ns() < until_ns) {
        CHECK(read_on(&scene.reader, &record) == CL_E_BUSY);
    }
    cl_writer_abandon(&scene.other.writer, &claim);
    CHECK(read_on(&scene.reader, &record) == CL_E_END);
    end(&scene);
}

static void a_retaken_slot_has_another_generation(void) {
    test_scene scene;
    test_handle successor;
    cl_claim claim;
    cl_record record;
    int64_t took_ns;
    start(&scene, NEVER_NS);
    CHECK(cl_writer_claim(&scene.writer.writer, 100, &claim) == CL_OK);
    kill_handle(&scene.writer);
    open_handle(&scene.place, &successor, false);
    CHECK(successor.log.slot == scene.writer.log.slot &&
          successor.log.owner != scene.writer.log.owner);
    uint64_t after = append_value(&successor, "x", 1);
    CHECK(read_patiently(&scene.reader, &record, &took_ns) == CL_OK && record.position == after);
    close_handle(&successor);
    end(&scene);
}

static void a_gap_without_an_odd_slot_is_marked_at_the_first_look(void) {
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

static void a_gap_of_a_live_odd_slot_waits_for_the_timeout(void) {
    test_scene scene;
    cl_record record;
    int64_t took_ns;
    start(&scene, 50 * MILLISECOND);
    uint64_t offset = stop_in_the_gap(&scene.writer);
    uint64_t after = append_value(&scene.other, "x", 1);
    CHECK(read_patiently(&scene.reader, &record, &took_ns) == CL_OK && record.position == after);
    CHECK(took_ns >= 50 * MILLISECOND);
    /* The zombie wakes: its first swap finds the mark, wherever in the gap its frame began. */
    uint64_t zero = 0;
    uint64_t claimed = cl_cell(CL_WORD_CLAIMED | GAP, scene.writer.log.owner);
    CHECK(!cl_swap((uint64_t *)(scene.reader.held->bytes + offset), &zero, claimed));
    leave_the_gap(&scene.writer);
    append_value(&scene.writer, "again", 5);
    CHECK(scan_log(&scene.other) == 2);
    end(&scene);
}

static void a_gap_of_a_dead_odd_slot_is_marked_soon(void) {
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

/* Every suspect has moved on since: the gap belongs to another owner, which died before. */
static void a_gap_is_dead_once_every_suspect_has_moved(void) {
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
    CHECK(read_on(&scene.reader, &record) ==
          CL_E_BUSY); /* now behind the claim, which lives: the gap is passed */
    CHECK(cell_at(&scene.other, CL_SEGMENT_HEADER) != 0 &&
          cell_at(&scene.other, offset) == claimed);
    cl_claim claim = {.segment = scene.reader.held, .offset = (uint32_t)offset, .length = GAP};
    cl_record_input input = record_of("thirty-two bytes of a live claim", GAP - CL_FRAME_HEADER);
    CHECK(cl_writer_publish(&scene.writer.writer, &claim,
                            cl_frame_write(claim.segment, claim.offset, &input), 1) == CL_OK);
    CHECK(read_on(&scene.reader, &record) == CL_OK && record.position == offset);
    end(&scene);
}

/* What was claimed after the gap was first seen is not a part of it, though no reader had to wait
 * for its owner. */
static void a_gap_ends_where_the_tail_stood_when_it_was_first_seen(void) {
    test_scene scene;
    cl_record record;
    start(&scene, NEVER_NS);
    cl_add(scene.other.log.tail, GAP); /* an owner died here */
    uint64_t offset = stop_in_the_gap(&scene.writer);
    CHECK(read_on(&scene.reader, &record) == CL_E_BUSY);
    leave_the_gap(
        &scene.writer); /* not the owner of the first gap, and without a claim of its own */
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

/* The marks stop at the first foreign cell: behind it lies the body of a claim that lives, zero or
 * not. */
static void marks_stop_at_the_first_foreign_cell(void) {
    test_scene scene;
    cl_claim claim;
    cl_record record;
    start(&scene, NEVER_NS);
    cl_add(scene.other.log.tail, GAP);
    CHECK(cl_writer_claim(&scene.writer.writer, 4 * GAP, &claim) == CL_OK);
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

/* A stopped owner might own any gap from then on; it has had its time with the first. */
static void a_stopped_owner_costs_its_timeout_once(void) {
    enum { GAPS = 200 }; /* their timeouts would be more than what a busy machine takes for once */
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
    /* In its next window it has its time again. */
    leave_the_gap(&scene.writer);
    stop_in_the_gap(&scene.writer);
    CHECK(read_patiently(&scene.reader, &record, &took_ns) == CL_E_END &&
          took_ns >= 100 * MILLISECOND);
    leave_the_gap(&scene.writer);
    end(&scene);
}

/* Who only asks how far the log is appended, again and again, finds out as well. */
static void the_appended_watermark_alone_rolls_the_dead_back(void) {
    test_scene scene;
    cl_claim claim;
    uint64_t appended = 0;
    start(&scene, NEVER_NS);
    CHECK(cl_writer_claim(&scene.writer.writer, 100, &claim) == CL_OK);
    kill_handle(&scene.writer);
    int64_t until_ns = cl_clock_monotonic_ns() + PATIENCE_NS;
    while (appended < CL_SEGMENT_HEADER + 104 && cl_clock_monotonic_ns() < until_ns) {
        CHECK(cl_log_appended(&scene.other.log, &appended) == CL_OK);
    }
    CHECK(appended == CL_SEGMENT_HEADER + 104 && scene.other.log.counters.rolled_back == 1);
    end(&scene);
}

/* A zombie that goes on writing behind a roll-back writes into a SKIP, whose CRC says nothing about
 * its body. */
static void a_zombie_writes_into_its_skip_and_harms_nobody(void) {
    test_scene scene;
    cl_claim claim;
    cl_record record;
    int64_t took_ns;
    static uint8_t value[84];
    start(&scene, MILLISECOND);
    CHECK(cl_writer_claim(&scene.writer.writer, 100, &claim) == CL_OK);
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

static void a_gap_over_the_segments_end_is_marked_to_the_end(void) {
    test_scene scene;
    cl_record record;
    start(&scene, NEVER_NS);
    cl_add(scene.other.log.tail, SMALL); /* crosses the end, and no writer pads */
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
static void a_refused_large_claim_holds_up_no_gap(void) {
    test_scene scene;
    cl_claim claim;
    cl_record record;
    int64_t took_ns;
    start_sized(&scene, WITH_LARGE_FRAMES, NEVER_NS);
    CHECK(cl_writer_close_segment(&scene.other.writer, CL_SEGMENT_CURRENT) == CL_OK);
    CHECK(cl_writer_claim(&scene.writer.writer, CL_FRAME_ADD_LIMIT + CL_FRAME_ALIGN, &claim) ==
          CL_E_ROLL);
    make_segment(&scene.place, 1, 0);
    CHECK(cl_writer_roll(&scene.other.writer, 0, 1, 0) == CL_OK);
    cl_add(scene.other.log.tail, GAP); /* of an owner that died */
    uint64_t after = append_value(&scene.other, "x", 1);
    CHECK(read_patiently(&scene.reader, &record, &took_ns) == CL_OK && record.position == after);
    end(&scene);
}

/* The clock is the observer's own polling: a machine that stood still expires no claim. */
static void a_frozen_observer_expires_nobody(void) {
    test_scene scene;
    cl_claim claim;
    cl_record record;
    start(&scene, 100 * MILLISECOND);
    CHECK(cl_writer_claim(&scene.writer.writer, 100, &claim) == CL_OK);
    CHECK(read_on(&scene.reader, &record) == CL_E_BUSY);
    scene.reader.watch.polled_ns -= 3600000 * MILLISECOND; /* an hour passed between two looks */
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

static void a_read_only_observer_passes_the_dead_and_waits_for_the_living(void) {
    test_scene scene;
    test_handle observer;
    test_reader reader;
    cl_claim dead, live;
    cl_record record;
    int64_t took_ns;
    start(&scene, NEVER_NS);
    open_observer(&scene.place, &observer);
    observer.log.claim_timeout_ns = MILLISECOND; /* means nothing to one who may not roll back */
    open_reader(&reader, &observer.log);
    CHECK(cl_writer_claim(&scene.writer.writer, 100, &dead) == CL_OK);
    cl_add(scene.other.log.tail, GAP);
    CHECK(cl_writer_claim(&scene.other.writer, 40, &live) == CL_OK);
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
    CHECK(reader.reader.offset ==
          live.offset); /* past the dead claim and the gap, and no further */
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

static void a_read_only_observer_waits_before_a_gap_of_the_living(void) {
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

static void the_appended_watermark_passes_the_dead_only(void) {
    test_scene scene;
    cl_claim claim;
    uint64_t appended;
    start(&scene, NEVER_NS);
    uint64_t first = append_value(&scene.other, "x", 1);
    CHECK(cl_writer_claim(&scene.writer.writer, 100, &claim) == CL_OK);
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

static void slots_are_taken_in_order_and_run_out(void) {
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
    place.cursors->slots[0].counter = 7; /* its owner died in the odd window */
    place.cursors->slots[0].generation = CL_OWNER_GENERATION_MASK;
    CHECK(cl_slot_attach(place.cursors, fds[CL_CURSORS_SLOTS], &slot, &generation) == CL_OK &&
          slot == 0 && generation == 1);
    CHECK(place.cursors->slots[0].counter == 8);
    cl_slot_detach(place.cursors, fds[CL_CURSORS_SLOTS], slot);
    close_slot_fds(fds[CL_CURSORS_SLOTS]);
    drop_place(&place);
}

int main(void) {
    a_dead_owners_claim_is_rolled_back_at_once();
    a_live_owners_claim_is_rolled_back_after_the_timeout();
    ones_own_claim_is_not_probed();
    a_retaken_slot_has_another_generation();
    a_gap_without_an_odd_slot_is_marked_at_the_first_look();
    a_gap_of_a_live_odd_slot_waits_for_the_timeout();
    a_gap_of_a_dead_odd_slot_is_marked_soon();
    a_gap_is_dead_once_every_suspect_has_moved();
    a_gap_ends_where_the_tail_stood_when_it_was_first_seen();
    marks_stop_at_the_first_foreign_cell();
    a_stopped_owner_costs_its_timeout_once();
    the_appended_watermark_alone_rolls_the_dead_back();
    a_zombie_writes_into_its_skip_and_harms_nobody();
    a_gap_over_the_segments_end_is_marked_to_the_end();
    a_refused_large_claim_holds_up_no_gap();
    a_frozen_observer_expires_nobody();
    a_read_only_observer_passes_the_dead_and_waits_for_the_living();
    a_read_only_observer_waits_before_a_gap_of_the_living();
    the_appended_watermark_passes_the_dead_only();
    slots_are_taken_in_order_and_run_out();
    return 0;
}

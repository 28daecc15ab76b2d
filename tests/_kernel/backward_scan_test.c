/* Stepping from record to record, the sparse index and the backward scan: over records and SKIP
 * frames, with damage in any cell, and with rings smaller than the range scanned. */
#include "kernel_test.h"

#include "backward_scan.h"
#include "index.h"

#define RECORDS 400
#define SPACING 16u

typedef struct {
    test_place place;
    test_handle handle;
    test_reader reader;
    cl_segment *segment;
    uint64_t offsets[RECORDS];
    int64_t stamps[RECORDS];
    uint64_t end;
    cl_index_entry entries[SMALL / CL_FRAME_HEADER / SPACING + 1];
    cl_index index;
    cl_watch watch;
} test_scene;

static cl_reader reader_at(test_scene *scene, uint64_t offset) {
    cl_reader reader;
    cl_reader_init(&reader, &scene->handle.log, &scene->watch);
    cl_reader_enter(&reader, scene->segment, offset);
    return reader;
}

/* Records of many sizes, some with keys, SKIP frames between them, and timestamps that step back.
 */
static void start(test_scene *scene) {
    static uint8_t value[200];
    uint64_t state = 7;
    memset(scene, 0, sizeof *scene);
    make_place(&scene->place, SMALL);
    open_handle(&scene->place, &scene->handle, false);
    open_reader(&scene->reader, &scene->handle.log);
    scene->segment = scene->reader.held;
    for (int at = 0; at < RECORDS; at++) {
        cl_record_input input = record_of(value, (uint32_t)(next_random(&state) % 100));
        input.timestamp_ns = scene->stamps[at] = at * 100 + (int64_t)(next_random(&state) % 2000);
        if (at % 3 == 0) {
            input.key = "key";
            input.key_length = 3;
        }
        scene->offsets[at] = append_input(&scene->handle, &input) % SMALL;
        if (at % 5 == 0) {
            cl_claim claim;
            CHECK(claim_bytes(&scene->handle.writer, 8 * (uint32_t)(3 + next_random(&state) % 9),
                              &claim) == CL_OK);
            cl_writer_abandon(&scene->handle.writer, &claim);
        }
    }
    scene->end = cl_tail_offset(cl_load(scene->handle.log.tail));
    scene->index = (cl_index){.entries = scene->entries,
                              .room = sizeof scene->entries / sizeof scene->entries[0],
                              .spacing = SPACING,
                              .offset = CL_SEGMENT_HEADER,
                              .largest_ns = INT64_MIN};
}

static void end(test_scene *scene) {
    close_reader(&scene->reader);
    close_handle(&scene->handle);
    drop_place(&scene->place);
}

static void place_reader(test_scene *scene, uint64_t offset) {
    cl_reader_init(&scene->reader.reader, &scene->handle.log, &scene->reader.watch);
    cl_reader_enter(&scene->reader.reader, scene->segment, offset);
}

static void stepping_visits_every_record_and_no_skip(void) {
    test_scene scene;
    cl_frame_cursor at;
    uint64_t count;
    start(&scene);
    cl_reader reader = reader_at(&scene, CL_SEGMENT_HEADER);
    for (int record = 0; record < RECORDS; record++) {
        CHECK(cl_reader_step(&reader, SMALL, &at) == CL_OK && at.offset == scene.offsets[record]);
        CHECK(cl_frame_timestamp(&at) == scene.stamps[record]);
    }
    CHECK(cl_reader_step(&reader, SMALL, &at) == CL_E_END && reader.offset == scene.end);
    reader = reader_at(&scene, CL_SEGMENT_HEADER);
    CHECK(cl_reader_step_over(&reader, scene.offsets[77], UINT64_MAX, &count) == CL_E_ROLL &&
          count == 77);
    CHECK(reader.offset == scene.offsets[77]);
    CHECK(cl_reader_step_over(&reader, SMALL, 23, &count) == CL_OK && count == 23);
    CHECK(cl_reader_step(&reader, SMALL, &at) == CL_OK && at.offset == scene.offsets[100]);
    end(&scene);
}

static void index_finds_each_record_by_ordinal_time_and_offset(void) {
    test_scene scene;
    uint64_t at, ordinal;
    start(&scene);
    for (uint64_t limit = CL_SEGMENT_HEADER; limit < SMALL;
         limit += 1000) { /* each step has its own length */
        cl_reader reader = reader_at(&scene, 0);
        cl_index_extend(&scene.index, &reader, limit);
    }
    CHECK(scene.index.records == RECORDS && scene.index.offset == scene.end &&
          scene.index.count == RECORDS / SPACING);
    for (uint64_t record = 0; record < RECORDS; record++) {
        cl_reader reader = reader_at(&scene, 0);
        CHECK(cl_index_find(&scene.index, &reader, record, &at) == CL_OK &&
              at == scene.offsets[record]);
        CHECK(cl_index_ordinal(&scene.index, &reader, at, &ordinal) == CL_OK && ordinal == record &&
              reader.offset == at);
        CHECK(cl_index_ordinal(&scene.index, &reader, at + 8, &ordinal) == CL_OK &&
              ordinal == record + 1 && reader.offset != at + 8);
    }
    cl_reader reader = reader_at(&scene, 0);
    CHECK(cl_index_find(&scene.index, &reader, RECORDS, &at) == CL_E_ROLL);
    for (int64_t stamp = -50; stamp < RECORDS * 100 + 3000; stamp += 37) {
        uint64_t expected = 0;
        while (expected < RECORDS && scene.stamps[expected] < stamp) {
            expected++;
        }
        int code = cl_index_since(&scene.index, &reader, stamp, &at);
        CHECK(expected == RECORDS ? code == CL_E_ROLL
                                  : code == CL_OK && at == scene.offsets[expected]);
    }
    end(&scene);
}

/* A damaged length leads over the record that is sought. The walk between two entries shows it. */
static void index_finds_the_record_behind_a_damaged_length(void) {
    test_scene scene;
    uint64_t at;
    start(&scene);
    cl_reader reader = reader_at(&scene, 0);
    cl_index_extend(&scene.index, &reader, SMALL);
    cl_raise(&scene.handle.log.cursors->appended.value, scene.end);
    for (int lost = 0; lost + 3 < RECORDS; lost += 7) {
        uint64_t *cell = (uint64_t *)(scene.segment->map + scene.offsets[lost]);
        uint64_t kept = *cell, length = scene.offsets[lost + 3] - scene.offsets[lost];
        *cell = (kept & ~(uint64_t)CL_WORD_LENGTH) | length;
        for (int sought = lost + 1; sought < lost + 3; sought++) {
            int expected = 0;
            while (expected == lost || scene.stamps[expected] < scene.stamps[sought]) {
                expected++;
            }
            CHECK(cl_index_since(&scene.index, &reader, scene.stamps[sought], &at) == CL_OK &&
                  at == scene.offsets[expected]);
        }
        *cell = kept;
    }
    end(&scene);
}

/* Reads backward from the end with a ring of `room` offsets. Returns the number of damaged frames.
 */
static int read_all_back(test_scene *scene, uint32_t room, int expected_next, int lost) {
    uint32_t offsets[RECORDS + 1];
    cl_backward_scan backward = {.offsets = offsets, .room = room};
    cl_record record;
    int damaged = 0;
    place_reader(scene, scene->end);
    for (;;) {
        int code = cl_backward_scan_previous(&scene->reader.reader, &backward, &record);
        if (code == CL_E_ROLL) {
            CHECK(expected_next == (lost == 0 ? 0 : -1) || expected_next == -1);
            return damaged;
        }
        if (code == CL_E_ABSENT) {
            CHECK(cl_backward_scan_fill(&scene->reader.reader, &backward, CL_SEGMENT_HEADER) ==
                  CL_OK);
        } else if (code == CL_E_DAMAGE) {
            CHECK(backward.damage == scene->offsets[lost]);
            damaged++;
            cl_backward_scan_pass_damage(&scene->reader.reader, &backward);
        } else {
            expected_next -= expected_next == lost;
            CHECK(code == CL_OK && record.position % SMALL == scene->offsets[expected_next]);
            CHECK(record.timestamp_ns == scene->stamps[expected_next] &&
                  scene->reader.reader.offset == scene->offsets[expected_next]);
            expected_next--;
        }
    }
}

static void backward_scan_reverses_the_records_with_any_ring(void) {
    static const uint32_t rooms[] = {1, 2, 7, 64, RECORDS - 1, RECORDS, RECORDS + 1};
    test_scene scene;
    start(&scene);
    for (size_t at = 0; at < sizeof rooms / sizeof rooms[0]; at++) {
        CHECK(read_all_back(&scene, rooms[at], RECORDS - 1, -1) == 0);
    }
    end(&scene);
}

static void damage_of_any_kind_is_reported_once_backward(void) {
    static const uint64_t changes[] = {1, 0xFFFFFFF, CL_WORD_BATCH, 1ull << 40};
    test_scene scene;
    start(&scene);
    for (int lost = 0; lost < RECORDS; lost += 57) {
        for (size_t at = 0; at < sizeof changes / sizeof changes[0]; at++) {
            uint64_t *cell = (uint64_t *)(scene.segment->map + scene.offsets[lost]);
            uint64_t kept = *cell;
            *cell = kept ^ changes[at];
            /* The damaged frame lies below `appended`, so the scan must not take it for the end. */
            cl_raise(&scene.handle.log.cursors->appended.value, scene.end);
            CHECK(read_all_back(&scene, 50, RECORDS - 1, lost) == 1);
            *cell = kept;
        }
    }
    end(&scene);
}

/* Reads backward from the end, and checks that all records but one are there. */
static void check_back(test_scene *scene, int lost) {
    uint32_t offsets[50];
    cl_backward_scan backward = {.offsets = offsets, .room = 50};
    cl_record record;
    int next = RECORDS - 1, code;
    place_reader(scene, scene->end);
    while ((code = cl_backward_scan_previous(&scene->reader.reader, &backward, &record)) !=
           CL_E_ROLL) {
        next -= next == lost;
        if (code == CL_E_ABSENT) {
            CHECK(cl_backward_scan_fill(&scene->reader.reader, &backward, CL_SEGMENT_HEADER) ==
                  CL_OK);
        } else if (code == CL_E_DAMAGE) {
            cl_backward_scan_pass_damage(&scene->reader.reader, &backward);
        } else {
            CHECK(code == CL_OK && next >= 0 && record.position % SMALL == scene->offsets[next]);
            next--;
        }
    }
    next -= next == lost;
    CHECK(next == -1);
}

/* Its length leads over whole records, and no record is there that would show it. */
static void damaged_skip_hides_no_record_backward(void) {
    test_scene scene;
    start(&scene);
    cl_raise(&scene.handle.log.cursors->appended.value, scene.end);
    for (int before = 0; before + 4 < RECORDS; before += 5) {
        uint64_t skip = scene.offsets[before], step;
        CHECK(cl_cell_read(*(uint64_t *)(scene.segment->map + skip), SMALL - skip, &step) == CL_OK);
        skip += step;
        uint64_t *cell = (uint64_t *)(scene.segment->map + skip);
        uint64_t kept = *cell;
        CHECK(cl_cell_word(kept) & CL_WORD_SKIP);
        *cell = (kept & ~(uint64_t)CL_WORD_LENGTH) | (scene.offsets[before + 4] - skip);
        check_back(&scene, RECORDS);
        *cell = kept;
    }
    end(&scene);
}

/* Above `uncertain_from`, what is no frame is the end of the log. */
static void damaged_length_does_not_end_the_log_backward(void) {
    test_scene scene;
    start(&scene);
    cl_raise(&scene.handle.log.cursors->appended.value, scene.end);
    for (int lost = 0; lost + 2 < RECORDS; lost += 19) {
        uint64_t *cell = (uint64_t *)(scene.segment->map + scene.offsets[lost]);
        uint64_t kept = *cell;
        uint64_t inside = scene.offsets[lost + 1] + CL_FRAME_HEADER - scene.offsets[lost];
        *cell = (kept & ~(uint64_t)CL_WORD_LENGTH) | inside;
        scene.handle.log.uncertain_from = scene.offsets[lost + 1];
        check_back(&scene, lost);
        *cell = kept;
    }
    end(&scene);
}

static void backward_batch_stops_when_its_buffer_is_full(void) {
    test_scene scene;
    uint32_t offsets[RECORDS];
    static int64_t positions[RECORDS], stamps[RECORDS], value_ends[RECORDS], key_ends[RECORDS];
    static uint32_t types[RECORDS];
    static uint8_t keyed[RECORDS], data[512 + CL_VIEW_INLINE], keys[RECORDS * 3];
    start(&scene);
    cl_backward_scan backward = {.offsets = offsets, .room = RECORDS};
    place_reader(&scene, scene.end);
    CHECK(cl_backward_scan_fill(&scene.reader.reader, &backward, CL_SEGMENT_HEADER) == CL_OK &&
          backward.count == RECORDS);
    int next = RECORDS - 1;
    while (next >= 0) {
        cl_batch batch = {.positions = positions,
                          .timestamps_ns = stamps,
                          .types = types,
                          .keyed = keyed,
                          .value_ends = value_ends,
                          .key_ends = key_ends,
                          .data = data,
                          .keys = keys,
                          .data_room = 512,
                          .keys_room = sizeof keys,
                          .most = 30};
        int code = cl_backward_scan_batch(&scene.reader.reader, &backward, &batch);
        CHECK(batch.count != 0 && (code == CL_E_FULL || next == (int)batch.count - 1));
        for (size_t row = 0; row < batch.count; row++, next--) {
            CHECK((uint64_t)positions[row] == scene.offsets[next] &&
                  stamps[row] == scene.stamps[next] && keyed[row] == (next % 3 == 0));
        }
    }
    end(&scene);
}

int main(void) {
    stepping_visits_every_record_and_no_skip();
    index_finds_each_record_by_ordinal_time_and_offset();
    index_finds_the_record_behind_a_damaged_length();
    backward_scan_reverses_the_records_with_any_ring();
    damage_of_any_kind_is_reported_once_backward();
    damaged_skip_hides_no_record_backward();
    damaged_length_does_not_end_the_log_backward();
    backward_batch_stops_when_its_buffer_is_full();
    return 0;
}

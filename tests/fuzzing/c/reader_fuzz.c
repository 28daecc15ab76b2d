/* Readers: record by record, in batches, by headers, backward, and with an index, over the frames
 * of an input and under the watermarks of a `cursors` file that another process left. */
#include "backward_scan.h"
#include "fuzz.h"
#include "index.h"
#include "reader.h"
#include "walk.h"

MUTATES_FRAMES

#define ROWS_MOST (LARGEST / CL_FRAME_HEADER)

typedef struct {
    size_t count;
    uint64_t positions[ROWS_MOST];
} rows;

typedef struct {
    cl_cursors *cursors;
    cl_log log;
    cl_watch watch;
    cl_segment segment;
    cl_segment *entry;
} scene;

static cl_cursors cells;

/* What a process sees of the log: all of it, or what the choices say. */
static void begin(scene *made, const fuzz_input *input) {
    uint8_t kind = input->bytes[0];
    made->segment = segment_of(input, input->bytes[1] % 3);
    made->cursors = &cells;
    memset(&cells, 0, offsetof(cl_cursors, slots) + 4 * sizeof(cl_slot));
    uint64_t base = made->segment.base, size = made->segment.size;
    cells.state.value = kind & 1 ? CL_STATE_READY : CL_STATE_RECOVERING;
    cells.mode = kind & 2 ? CL_MODE_POOLED : CL_MODE_MAPPED;
    cells.slot_count = CL_CURSORS_SLOTS;
    cells.slots[1].counter = input->bytes[2];
    cells.slots[1].generation = input->bytes[3];
    uint64_t tail = offset_of(input, 4, size), low = offset_of(input, 6, tail);
    cells.appended.value = base + low;
    cells.committed.value = base + (kind & 4 ? low : CL_SEGMENT_HEADER);
    cells.tail.value = cl_tail_pack(made->segment.number, (uint32_t)tail);
    cells.allocated.value =
        kind & 8 ? cl_tail_pack(made->segment.number, (uint32_t)offset_of(input, 8, size)) : 0;
    REQUIRE(cl_log_init(&made->log, &cells, -1, fuzz_uuid, size, false) == CL_OK);
    made->log.tail = &cells.tail.value;
    made->log.follows = kind & 16;
    made->log.claim_timeout_ns = 0;
    made->log.uncertain_from = kind & 32 ? base + offset_of(input, 10, size) : UINT64_MAX;
    made->entry = &made->segment;
    made->log.table.entries = &made->entry;
    made->log.table.count = made->log.table.room = 1;
}

static void end(scene *made) {
    made->log.table.entries = NULL;
    made->log.table.count = 0;
    cl_log_clear(&made->log);
    pthread_mutex_destroy(&made->log.commit_mutex);
    free(made->segment.index.entries);
    free(made->segment.map);
}

static void open(scene *made, cl_reader *reader, uint64_t offset) {
    cl_reader_init(reader, &made->log, &made->watch);
    cl_reader_enter(reader, &made->segment, offset);
}

static void check(const scene *made, const cl_record *record) {
    const uint8_t *from = made->segment.map, *to = from + made->segment.size;
    REQUIRE(record->value >= from && record->value + record->value_length <= to);
    REQUIRE(record->key == NULL || (record->key >= from && record->key + record->key_length <= to));
    REQUIRE(record->position >= made->segment.base + CL_SEGMENT_HEADER);
}

static void add(rows *found, uint64_t position) {
    REQUIRE(found->count == 0 || found->positions[found->count - 1] < position);
    REQUIRE(found->count < ROWS_MOST);
    found->positions[found->count++] = position;
}

static int read_all(scene *made, rows *found, bool short_first) {
    cl_reader reader;
    cl_record record;
    int code = CL_OK;
    open(made, &reader, 0);
    found->count = 0;
    while (code == CL_OK || code == CL_E_DAMAGE) { /* each round moves the reader on */
        if (short_first && cl_reader_next_short(&reader, &record)) {
            add(found, record.position);
            continue;
        }
        code = cl_reader_next(&reader, &record);
        if (code == CL_OK) {
            check(made, &record);
            add(found, record.position);
        } else if (code == CL_E_DAMAGE) {
            uint64_t before = reader.offset;
            reader.offset = cl_log_resume(&made->log, &made->segment, before);
            REQUIRE(reader.offset > before && reader.offset <= made->segment.size);
        }
    }
    return code;
}

static void read_batches(scene *made, const fuzz_input *input, const rows *wanted) {
    static int64_t positions[ROWS_MOST], ends[ROWS_MOST];
    size_t most = input->bytes[12] % 7u + 1u, room = choice16(input, 13) % 512u, at = 0;
    uint8_t *bytes = malloc(room + CL_VIEW_INLINE);
    cl_reader reader;
    int code = CL_E_FULL;
    REQUIRE(bytes != NULL);
    open(made, &reader, 0);
    while (code == CL_E_FULL || code == CL_E_DAMAGE) {
        cl_batch batch = {.positions = positions,
                          .value_ends = ends,
                          .data = bytes,
                          .data_room = room,
                          .most = most};
        code = cl_reader_batch(&reader, &batch);
        REQUIRE(batch.count <= most && batch.data_size <= room);
        for (size_t row = 0; row < batch.count; row++, at++) {
            REQUIRE(at < wanted->count && (uint64_t)positions[row] == wanted->positions[at]);
        }
        if (code == CL_E_DAMAGE) {
            reader.offset = cl_log_resume(&made->log, &made->segment, reader.offset);
        } else if (code == CL_E_FULL && batch.count == 0) { /* a record larger than the room */
            free(bytes);
            return;
        }
    }
    REQUIRE(at == wanted->count);
    free(bytes);
}

static void read_back(scene *made, const fuzz_input *input, const rows *wanted, bool is_whole) {
    uint32_t ring[8];
    cl_backward_scan scan = {.offsets = ring, .room = input->bytes[15] % 7u + 2u};
    cl_reader reader;
    cl_record record;
    size_t left = wanted->count;
    open(made, &reader, made->segment.size);
    for (size_t round = 0; round < 4 * ROWS_MOST; round++) {
        int code = cl_backward_scan_previous(&reader, &scan, &record);
        if (code == CL_OK) {
            check(made, &record);
            if (is_whole) {
                REQUIRE(left > 0 && record.position == wanted->positions[left - 1]);
                left--;
            }
        } else if (code == CL_E_DAMAGE) {
            cl_backward_scan_pass_damage(&reader, &scan);
        } else if (code != CL_E_ABSENT ||
                   cl_backward_scan_fill(&reader, &scan, CL_SEGMENT_HEADER) != CL_OK) {
            REQUIRE(!is_whole || code != CL_E_ROLL || left == 0);
            return;
        }
    }
    REQUIRE(!is_whole);
}

/* An index that is built, and one whose entries, ascending, are lies. */
static void use_index(scene *made, const fuzz_input *input, bool lies) {
    cl_index_entry entries[ROWS_MOST];
    cl_index index = {.entries = entries,
                      .room = ROWS_MOST,
                      .spacing = input->bytes[12] % 5u + 1u,
                      .largest_ns = INT64_MIN,
                      .offset = CL_SEGMENT_HEADER};
    cl_reader reader;
    uint64_t at, size = made->segment.size;
    open(made, &reader, 0);
    if (lies) {
        for (uint64_t next = CL_SEGMENT_HEADER; next < size; next += 8u * (1u + input->bytes[15])) {
            entries[index.count++] = (cl_index_entry){next, (int64_t)next - 6000};
        }
        index.records = index.count * index.spacing;
        index.offset = size;
    } else {
        cl_index_extend(&index, &reader, size);
        REQUIRE(index.count <= index.room && index.offset <= size);
    }
    if (cl_index_find(&index, &reader, input->bytes[14], &at) == CL_OK) {
        REQUIRE(at >= CL_SEGMENT_HEADER && at < size);
    }
    if (cl_index_since(&index, &reader, (int64_t)choice16(input, 10) - 4096, &at) == CL_OK) {
        REQUIRE(at >= CL_SEGMENT_HEADER && at < size);
    }
    uint64_t offset = offset_of(input, 10, size), ordinal;
    if (cl_index_ordinal(&index, &reader, offset, &ordinal) == CL_OK && !lies) {
        REQUIRE(ordinal <= ROWS_MOST);
    }
}

/* A writer walks over what the dead have left, and turns their claims into SKIPs. */
static void resolve(scene *made, const fuzz_input *input) {
    uint64_t appended;
    made->log.resolves = made->log.pooled = false;
    made->log.follows = false;
    cl_log_appended(&made->log, &appended);
    if (input->bytes[0] & 64) {
        cells.committed.value = cells.flushed.value = made->segment.base;
        cells.appended.value = made->segment.base;
        cells.tail.value =
            cl_tail_pack(made->segment.number, (uint32_t)offset_of(input, 4, made->segment.size));
        made->log.resolves = true;
        made->log.index_spacing = input->bytes[12] % 4u;
        cl_log_appended(&made->log, &appended);
        REQUIRE(appended <= cl_log_position(&made->log, cells.tail.value));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static rows found, again;
    static scene made;
    fuzz_input input = input_of(data, size);
    if (size > LARGEST || input.size == 0) {
        return 0;
    }
    begin(&made, &input);
    int code = read_all(&made, &found, false);
    REQUIRE(read_all(&made, &again, true) == code && again.count == found.count);
    REQUIRE(memcmp(again.positions, found.positions, found.count * sizeof *found.positions) == 0);
    read_batches(&made, &input, &found);
    /* Behind damage a reader searches in what is allocated, and the choices may say less. */
    bool all = cl_log_allocated(&made.log, made.segment.number) >= made.segment.size;
    read_back(&made, &input, &found, code == CL_E_ROLL && all);
    use_index(&made, &input, false);
    use_index(&made, &input, true);
    resolve(&made, &input);
    end(&made);
    return 0;
}

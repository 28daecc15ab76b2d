/* steps */
/* Drives a writer in another process through an append with headers and a producer's mark,
 * instruction by instruction. While it is stopped, and after it is killed, other processes see the
 * record with its headers and its mark, or none of them. */
#include "driven.h"

#include "marked.h"

static const uint8_t encoded[] = "\2\3\0abxyz\1\0\0c"; /* and its final zero */
static const cl_headers headers = {.bytes = encoded, .length = sizeof encoded - 1};
static const cl_mark mark = {.producer = 7, .number = 8};

static int append_headed(test_handle *handle) {
    cl_record_input input = record_of(victims, VALUE);
    uint64_t position;
    return cl_append_marked(&handle->writer, &input, &headers, &mark, &position);
}

/* The child: one append between two stops. */
static void append_once(test_scene *scene) {
    test_handle handle;
    open_handle(&scene->place, &handle, false);
    append_value(&handle, "other", 5);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        _exit(100);
    }
    raise(SIGSTOP);
    int code = append_headed(&handle);
    raise(SIGSTOP);
    _exit(code == CL_OK ? 0 : 101);
}

static bool is_victims(const cl_record *record) {
    return record->value_length == VALUE && memcmp(record->value, victims, VALUE) == 0;
}

/* Checks that a record has headers if and only if it is the victim's. */
static void check_headers(const cl_segment *segment, const cl_record *record) {
    cl_headers found;
    CHECK(cl_headers_find(segment, segment->map, record->position - segment->base, &found) ==
          CL_OK);
    CHECK((found.length != 0) == is_victims(record));
    CHECK(found.length == 0 || memcmp(found.bytes, encoded, sizeof encoded - 1) == 0);
}

/* Counts the victim's records from the log's beginning, each with its headers. */
static uint32_t count_victims(test_scene *scene) {
    test_reader reader;
    cl_record record;
    cl_marked marked;
    uint32_t found = 0;
    uint64_t offset = CL_SEGMENT_HEADER;
    int64_t until_ns = cl_clock_monotonic_ns() + PATIENCE_NS;
    int code;
    open_reader(&reader, &scene->other.log);
    do {
        code = read_on(&reader, &record);
        if (code == CL_OK) {
            check_headers(reader.held, &record);
            found += is_victims(&record);
        }
    } while (code == CL_OK || (code == CL_E_BUSY && cl_clock_monotonic_ns() < until_ns));
    CHECK(code == CL_E_END);
    uint64_t end = cl_tail_offset(cl_load(scene->other.log.tail));
    CHECK(cl_marks_read(reader.held, &offset, end, &marked, 1, &code) == found);
    close_reader(&reader);
    return found;
}

static void look_once(test_scene *scene) {
    cl_record record;
    if (!scene->seen && read_on(&scene->reader, &record) == CL_OK) {
        scene->seen = true;
        CHECK(is_victims(&record));
        check_headers(scene->reader.held, &record);
    }
}

/* Returns the number of visible changes and, in `gaps`, the instructions between them. */
static uint32_t stopped_writer_shows_all_or_nothing(uint64_t *gaps) {
    test_scene scene;
    start(&scene, NEVER_NS, true);
    uint32_t changed = step_to_end(&scene, start_victim(&scene, append_once), gaps, look_once);
    CHECK(count_victims(&scene) == 1);
    end(&scene);
    return changed;
}

static void killed_writer_leaves_all_or_nothing(uint32_t index, uint64_t gap) {
    test_scene scene;
    cl_record record;
    start(&scene, NEVER_NS, true);
    pid_t victim = start_victim(&scene, append_once);
    drive(&scene, victim, index, gap, false);
    bool published = read_on(&scene.reader, &record) == CL_OK;
    append_value(&scene.other, "other", 5);
    kill_victim(victim);
    CHECK(count_victims(&scene) == published);
    CHECK(append_headed(&scene.other) == CL_OK);
    CHECK(count_victims(&scene) == published + 1u);
    CHECK(scan_log(&scene.other) == published + 3u);
    end(&scene);
}

int main(void) {
    uint64_t gaps[MOST_CHANGES];
    if (!can_be_driven()) {
        return 0;
    }
    uint32_t changed = stopped_writer_shows_all_or_nothing(gaps);
    CHECK(changed >= 6);
    for (uint32_t index = 0; index < changed; index++) {
        killed_writer_leaves_all_or_nothing(index, gaps[index]);
    }
    return 0;
}

/* Shared by the kernel's C tests: a log's directory made by hand, and handles on it as separate
 * processes have them. */
#ifndef KERNEL_TEST_H
#define KERNEL_TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "append.h"
#include "commit.h"
#include "crc32c.h"
#include "flush.h"
#include "futex.h"
#include "reader.h"
#include "roll.h"
#include "rows.h"
#include "scan.h"
#include "walk.h"

#define UNUSED __attribute__((unused))
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define SMALL CL_SEGMENT_SMALLEST
#define MILLISECOND 1000000ll
#define PATIENCE_NS (20000 * MILLISECOND) /* the bound of every wait that is expected to end */

/* A log on disk: its directory and the one `cursors` file that every handle shares. */
typedef struct {
    int dir_fd;
    uint64_t size;
    uint8_t uuid[16];
    cl_cursors *cursors;
} test_place;

/* A handle as a process has it: its own segment table, writer and slot. */
typedef struct {
    test_place *place;
    cl_log log;
    cl_writer writer;
    cl_slot_fds slot_fds;
} test_handle;

static UNUSED uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static UNUSED cl_header_identity make_header(const test_place *place, uint64_t number) {
    cl_header_identity header = {.magic = CL_SEGMENT_MAGIC,
                                 .major = CL_FORMAT_MAJOR,
                                 .minor = CL_FORMAT_MINOR,
                                 .header_size = CL_SEGMENT_HEADER,
                                 .segment_id = 0x1234567800000000ull + number * 7919,
                                 .base = number * place->size,
                                 .size = place->size,
                                 .created_ns = 1};
    memcpy(header.log_uuid, place->uuid, sizeof header.log_uuid);
    header.crc = cl_crc32c(0, &header, offsetof(cl_header_identity, crc));
    return header;
}

static UNUSED void write_segment(const test_place *place, const char *name,
                                 const cl_header_identity *header, uint64_t size) {
    int fd = openat(place->dir_fd, name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK(pwrite(fd, header, sizeof *header, 0) == (ssize_t)sizeof *header);
    CHECK(ftruncate(fd, (off_t)size) == 0);
    close(fd);
}

/* Creates segment `number` if it is missing. `who` makes the temporary name unique. */
static UNUSED void make_segment(const test_place *place, uint64_t number, uint32_t who) {
    char temporary[32];
    char name[CL_SEGMENT_NAME_SIZE];
    cl_segment_name(number * place->size, name);
    if (faccessat(place->dir_fd, name, F_OK, 0) == 0) {
        return;
    }
    snprintf(temporary, sizeof temporary, "%u.tmp", who);
    cl_header_identity header = make_header(place, number);
    write_segment(place, temporary, &header, place->size);
    CHECK(renameat2(place->dir_fd, temporary, place->dir_fd, name, RENAME_NOREPLACE) == 0 ||
          errno == EEXIST);
    unlinkat(place->dir_fd, temporary, 0);
}

static UNUSED void remove_segment(const test_place *place, uint64_t number) {
    char name[CL_SEGMENT_NAME_SIZE];
    cl_segment_name(number * place->size, name);
    CHECK(unlinkat(place->dir_fd, name, 0) == 0);
}

static UNUSED void make_place(test_place *place, uint64_t size) {
    char folder[] = "log-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    *place = (test_place){.dir_fd = open(folder, O_RDONLY | O_DIRECTORY), .size = size};
    CHECK(place->dir_fd >= 0);
    memcpy(place->uuid, "a log's identity", sizeof place->uuid);
    int fd = openat(place->dir_fd, "cursors", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, CL_CURSORS_SIZE) == 0);
    place->cursors = mmap(NULL, CL_CURSORS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(place->cursors != MAP_FAILED);
    close(fd);
    place->cursors->tail.value = cl_tail_pack(0, CL_SEGMENT_HEADER);
    make_segment(place, 0, 0);
}

static UNUSED void drop_place(test_place *place) {
    CHECK(munmap(place->cursors, CL_CURSORS_SIZE) == 0);
    close(place->dir_fd);
}

static UNUSED cl_slot_fds open_slot_fds(const test_place *place) {
    cl_slot_fds fds = {.lock = openat(place->dir_fd, "lock", O_RDWR | O_CREAT, 0600),
                       .cursors = openat(place->dir_fd, "cursors", O_RDWR)};
    CHECK(fds.lock >= 0 && fds.cursors >= 0);
    return fds;
}

static UNUSED void close_slot_fds(cl_slot_fds fds) {
    close(fds.cursors);
    close(fds.lock);
}

/* A handle on a mapped log, or on a pooled one with plain stores. */
static UNUSED void open_handle(test_place *place, test_handle *handle, bool pooled) {
    handle->place = place;
    handle->slot_fds = open_slot_fds(place);
    CHECK(cl_log_init(&handle->log, place->cursors, place->dir_fd, place->uuid, place->size,
                      true) == CL_OK);
    handle->log.pooled = pooled;
    handle->log.resolves = true;
    handle->log.slot_fds = handle->slot_fds;
    handle->log.private_tail = cl_tail_pack(0, CL_SEGMENT_HEADER);
    handle->log.tail = pooled ? &handle->log.private_tail : &place->cursors->tail.value;
    uint32_t generation;
    CHECK(cl_slot_attach(place->cursors, handle->slot_fds, &handle->log.slot, &generation) ==
          CL_OK);
    handle->log.owner = cl_owner(handle->log.slot, generation);
    cl_writer_init(&handle->writer, &handle->log, pooled, false, 1u << 20);
}

/* A read-only handle: no slot, no writing. */
static UNUSED void open_observer(test_place *place, test_handle *handle) {
    handle->place = place;
    handle->slot_fds = open_slot_fds(place);
    CHECK(cl_log_init(&handle->log, place->cursors, place->dir_fd, place->uuid, place->size,
                      false) == CL_OK);
    handle->log.slot_fds = handle->slot_fds;
    handle->log.tail = &place->cursors->tail.value;
    handle->log.refusal = (uint32_t)-CL_E_READ_ONLY;
    memset(&handle->writer, 0, sizeof handle->writer);
}

static UNUSED void close_handle(test_handle *handle) {
    cl_writer_clear(&handle->writer);
    cl_log_clear(&handle->log);
    if (handle->log.owner != 0) {
        cl_slot_detach(handle->place->cursors, handle->slot_fds, handle->log.slot);
    }
    close_slot_fds(handle->slot_fds);
}

/* Simulates a kill: closing the descriptors releases the locks, and nothing else is cleaned up. */
static UNUSED void kill_handle(test_handle *handle) {
    close_slot_fds(handle->slot_fds);
    handle->slot_fds = CL_NO_SLOT_FDS;
}

static UNUSED void forget_killed(test_handle *handle) {
    cl_writer_clear(&handle->writer);
    cl_log_clear(&handle->log);
}

static UNUSED void roll_on(test_handle *handle) {
    uint64_t number = cl_writer_rolls_from(&handle->writer);
    if (number != UINT64_MAX) {
        make_segment(handle->place, number + 1, handle->log.slot);
        CHECK(cl_writer_roll(&handle->writer, number, 1 + (int64_t)number, 0) == CL_OK);
    }
}

static UNUSED cl_record_input record_of(const void *value, uint32_t length) {
    return (cl_record_input){
        .value = value, .value_length = length, .key_length = CL_KEYLEN_NONE, .timestamp_ns = 77};
}

/* Claims a frame of `length` bytes without key and type. */
static UNUSED int claim_bytes(cl_writer *writer, uint32_t length, cl_claim *claim) {
    cl_record_input input = record_of(NULL, length - CL_FRAME_HEADER);
    return cl_writer_claim(writer, writer->largest, &input, claim);
}

/* Appends, rolling as often as needed. Returns the position. */
static UNUSED uint64_t append_input(test_handle *handle, const cl_record_input *input) {
    uint64_t position = 0;
    int code;
    while ((code = cl_writer_append(&handle->writer, input, &position)) == CL_E_ROLL) {
        roll_on(handle);
    }
    CHECK(code == CL_OK);
    return position;
}

static UNUSED uint64_t append_value(test_handle *handle, const void *value, uint32_t length) {
    cl_record_input input = record_of(value, length);
    return append_input(handle, &input);
}

/* A reader that enters the next segment by itself. */
typedef struct {
    cl_reader reader;
    cl_watch watch;
    cl_segment *held;
} test_reader;

static UNUSED int reader_enter(test_reader *reader, uint64_t number, uint64_t offset) {
    cl_segment *next;
    int code = cl_table_acquire(&reader->reader.log->table, number, &next);
    if (code == CL_OK) {
        cl_segment_release(reader->held);
        reader->held = next;
        cl_reader_enter(&reader->reader, next, offset);
    }
    return code;
}

static UNUSED void open_reader(test_reader *reader, cl_log *log) {
    cl_reader_init(&reader->reader, log, &reader->watch);
    reader->held = NULL;
    CHECK(reader_enter(reader, 0, 0) == CL_OK);
}

static UNUSED void close_reader(test_reader *reader) { cl_segment_release(reader->held); }

static UNUSED int read_on(test_reader *reader, cl_record *record) {
    int code;
    while ((code = cl_reader_next(&reader->reader, record)) == CL_E_ROLL) {
        if (reader_enter(reader, reader->held->number + 1, 0) != CL_OK) {
            return CL_E_END;
        }
    }
    return code;
}

/* Checks that every frame of every segment up to the tail is valid. Returns the number of records.
 */
static UNUSED uint64_t scan_log(test_handle *handle) {
    uint64_t records = 0;
    uint64_t tail = cl_load(handle->log.tail);
    for (uint64_t number = 0; number <= cl_tail_number(tail); number++) {
        cl_segment *segment;
        cl_scan scan;
        CHECK(cl_table_acquire(&handle->log.table, number, &segment) == CL_OK);
        uint64_t end = number < cl_tail_number(tail) || cl_tail_offset(tail) > segment->size
                           ? segment->size
                           : cl_tail_offset(tail);
        cl_segment_scan(segment, 0, end, &scan);
        CHECK(scan.code == CL_OK && scan.offset == end);
        records += scan.tally.records;
        cl_segment_release(segment);
    }
    return records;
}

static UNUSED uint64_t cell_at(const test_handle *handle, uint64_t position) {
    cl_segment *segment;
    CHECK(cl_table_acquire((cl_table *)&handle->log.table, position / handle->place->size,
                           &segment) == CL_OK);
    uint64_t cell = cl_load((const uint64_t *)(segment->bytes + position - segment->base));
    cl_segment_release(segment);
    return cell;
}

#endif

/* Opening a segment file, with every kind of defect; the segment table and its references. */
#include "kernel_test.h"

#include <sys/syscall.h>

/* What the kernel asked the system to write back last; the linker prefers this function. */
static struct {
    const void *start;
    int flags;
} synced;

int msync(void *start, size_t length, int flags) {
    synced.start = start;
    synced.flags = flags;
    return (int)syscall(SYS_msync, start, length, flags);
}

static const uint8_t OTHER_LOG[16] = "another log's id";

static int try_open(const test_place *place, uint64_t number) {
    cl_segment *segment = NULL;
    int code = cl_segment_open(place->dir_fd, number, place->size, place->uuid, true, &segment);
    if (code == CL_OK) {
        CHECK(segment->number == number && segment->base == number * place->size &&
              segment->size == place->size);
        CHECK(segment->bytes == segment->map && segment->references == 1);
        CHECK(segment->seed == cl_crc32c_seed(segment->id));
        cl_segment_release(segment);
    }
    return code;
}

static void name_of(const test_place *place, uint64_t number, char name[CL_SEGMENT_NAME_SIZE]) {
    cl_segment_name(number * place->size, name);
}

static void valid_file_opens(test_place *place) {
    CHECK(try_open(place, 0) == CL_OK);
    CHECK(try_open(place, 1) == CL_E_ABSENT);
    CHECK(try_open(place, UINT64_MAX / place->size) == CL_E_ABSENT);
    CHECK(try_open(place, (1ull << 48)) == CL_E_ABSENT); /* its base wraps to that of segment 0 */
    cl_segment *segment;
    CHECK(cl_segment_open(place->dir_fd, 0, place->size, OTHER_LOG, true, &segment) ==
          CL_E_FOREIGN);
    CHECK(cl_segment_open(place->dir_fd, 0, place->size, NULL, false, &segment) == CL_OK);
    cl_segment_release(segment);
}

static void short_file_is_refused_before_it_is_mapped(test_place *place) {
    char name[CL_SEGMENT_NAME_SIZE];
    name_of(place, 1, name);
    cl_header_identity header = make_header(place, 1);
    for (uint64_t size = 0; size <= place->size; size += 1024) {
        write_segment(place, name, &header, size);
        CHECK(try_open(place, 1) == (size < place->size ? CL_E_TRUNCATED : CL_OK));
    }
}

static void header_of_another_segment_is_refused(test_place *place) {
    char name[CL_SEGMENT_NAME_SIZE];
    name_of(place, 1, name);
    cl_header_identity header = make_header(place, 2);
    write_segment(place, name, &header, place->size);
    CHECK(try_open(place, 1) == CL_E_FOREIGN);
    header = make_header(place, 1);
    header.size *= 2;
    header.crc = cl_crc32c(0, &header, offsetof(cl_header_identity, crc));
    write_segment(place, name, &header, place->size);
    CHECK(try_open(place, 1) == CL_E_FOREIGN);
}

static void flipped_bit_of_the_header_is_refused(test_place *place) {
    char name[CL_SEGMENT_NAME_SIZE];
    name_of(place, 1, name);
    for (size_t bit = 0; bit < offsetof(cl_header_identity, reserved) * 8; bit++) {
        cl_header_identity header = make_header(place, 1);
        ((uint8_t *)&header)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        uint8_t page[CL_SEGMENT_HEADER] = {0};
        memcpy(page, &header, sizeof header);
        int code = cl_header_check(page, place->uuid, place->size, place->size);
        CHECK(code == CL_E_HEADER || (code == CL_E_VERSION && header.major > CL_FORMAT_MAJOR));
    }
    cl_header_identity header = make_header(place, 1);
    header.magic = 0;
    write_segment(place, name, &header, place->size);
    CHECK(try_open(place, 1) == CL_E_HEADER);
}

static void newer_format_is_distinguished_from_damage(test_place *place) {
    char name[CL_SEGMENT_NAME_SIZE];
    name_of(place, 1, name);
    cl_header_identity header = make_header(place, 1);
    header.minor++;
    header.crc = cl_crc32c(0, &header, offsetof(cl_header_identity, crc));
    write_segment(place, name, &header, place->size);
    CHECK(try_open(place, 1) == CL_OK); /* a newer minor version is readable */
    header.major++;
    header.crc = 0;
    write_segment(place, name, &header, place->size);
    CHECK(try_open(place, 1) == CL_E_VERSION);
}

static void irregular_file_is_refused_without_waiting(test_place *place) {
    char name[CL_SEGMENT_NAME_SIZE];
    name_of(place, 1, name);
    unlinkat(place->dir_fd, name, 0);
    CHECK(mkfifoat(place->dir_fd, name, 0600) == 0);
    CHECK(try_open(place, 1) == CL_E_IRREGULAR);
    CHECK(unlinkat(place->dir_fd, name, 0) == 0);
    CHECK(mkdirat(place->dir_fd, name, 0700) == 0);
    CHECK(try_open(place, 1) == CL_E_IRREGULAR);
    CHECK(unlinkat(place->dir_fd, name, AT_REMOVEDIR) == 0);
    CHECK(mknodat(place->dir_fd, name, S_IFSOCK | 0600, 0) == 0);
    CHECK(try_open(place, 1) == CL_E_IRREGULAR);
    CHECK(unlinkat(place->dir_fd, name, 0) == 0);
    char first[CL_SEGMENT_NAME_SIZE];
    name_of(place, 0, first);
    CHECK(symlinkat(first, place->dir_fd, name) == 0);
    CHECK(try_open(place, 1) == CL_E_IRREGULAR);
    CHECK(unlinkat(place->dir_fd, name, 0) == 0);
}

static void table_counts_references(test_place *place) {
    cl_table table;
    cl_segment *first, *again, *absent;
    CHECK(cl_table_init(&table, place->dir_fd, place->uuid, place->size, true) == CL_OK);
    CHECK(cl_table_acquire(&table, 0, &first) == CL_OK &&
          cl_table_acquire(&table, 0, &again) == CL_OK);
    CHECK(first == again && first->references == 3 && table.count == 1);
    CHECK(cl_table_acquire(&table, 5, &absent) == CL_E_ABSENT && table.count == 1);
    cl_segment_release(again);
    CHECK(cl_table_forget(&table, 0) == 1 && table.count == 0 && first->references == 1);
    CHECK(cl_table_forget(&table, 0) == 0);
    first->map[CL_SEGMENT_HEADER] = 1; /* still mapped for its holder */
    CHECK(cl_table_acquire(&table, 0, &again) == CL_OK && again != first &&
          again->map[CL_SEGMENT_HEADER] == 1);
    first->map[CL_SEGMENT_HEADER] = 0;
    cl_segment_release(first);
    cl_segment_release(again);
    cl_table_clear(&table);
}

static void trimming_keeps_held_and_recent_segments(test_place *place) {
    enum { COUNT = 40, HELD = 3 };
    cl_table table;
    cl_segment *segment, *held = NULL;
    CHECK(cl_table_init(&table, place->dir_fd, place->uuid, place->size, true) == CL_OK);
    for (uint64_t number = COUNT; number-- > 0;) { /* backwards: the table sorts them */
        make_segment(place, number, 0);
        CHECK(cl_table_acquire(&table, number, &segment) == CL_OK);
        if (number == HELD) {
            held = segment;
        } else {
            cl_segment_release(segment);
        }
    }
    for (uint64_t number = 0; number < COUNT; number++) {
        CHECK(table.entries[number]->number == number);
    }
    cl_table_trim(&table, COUNT / 2, COUNT - 5);
    CHECK(table.count == COUNT - 5 && table.entries[0] == held && table.entries[1]->number == 6);
    cl_table_trim(&table, COUNT / 2, 0);
    CHECK(table.count == COUNT / 2 + 1 && table.entries[0] == held &&
          table.entries[1]->number == COUNT / 2);
    CHECK(held->references == 2);
    cl_segment_release(held);
    cl_table_trim(&table, UINT64_MAX, 0);
    CHECK(table.count == 0);
    cl_table_clear(&table);
}

static cl_table *trimmed;
static int unmapped;

int munmap(void *address, size_t length) {
    if (trimmed != NULL) {
        CHECK(pthread_mutex_trylock(&trimmed->mutex) == 0); /* an append that rolls could lock it */
        pthread_mutex_unlock(&trimmed->mutex);
        unmapped++;
    }
    return (int)syscall(SYS_munmap, address, length);
}

static void trimming_unmaps_outside_of_the_mutex(test_place *place) {
    enum { COUNT = 40 };
    cl_table table;
    cl_segment *segment;
    CHECK(cl_table_init(&table, place->dir_fd, place->uuid, place->size, true) == CL_OK);
    for (uint64_t number = 0; number < COUNT; number++) {
        CHECK(cl_table_acquire(&table, number, &segment) == CL_OK);
        cl_segment_release(segment);
    }
    trimmed = &table;
    cl_table_trim(&table, UINT64_MAX, 1);
    CHECK(unmapped == COUNT - 1 && table.count == 1);
    cl_table_forget(&table, COUNT - 1);
    CHECK(unmapped == COUNT);
    trimmed = NULL;
    cl_table_clear(&table);
}

static void any_range_can_be_prefaulted_and_flushed(test_place *place) {
    cl_segment *segment;
    CHECK(cl_segment_open(place->dir_fd, 0, place->size, place->uuid, true, &segment) == CL_OK);
    static const uint64_t edges[] = {0,    1,         4095,  4096,      4097,
                                     5000, SMALL - 1, SMALL, SMALL + 1, UINT64_MAX};
    for (size_t from = 0; from < sizeof edges / sizeof *edges; from++) {
        for (size_t to = 0; to < sizeof edges / sizeof *edges; to++) {
            CHECK(cl_segment_prefault(segment, edges[from], edges[to]) == CL_OK);
            CHECK(cl_segment_flush(segment, edges[from], edges[to]) == CL_OK);
        }
    }
    cl_segment_release(segment);
}

/* A roll writes the header's opened part, which is durable with the first frames. */
static void flush_waits_and_begins_with_the_header(test_place *place) {
    cl_segment *segment;
    CHECK(cl_segment_open(place->dir_fd, 0, place->size, place->uuid, true, &segment) == CL_OK);
    CHECK(cl_segment_flush(segment, CL_SEGMENT_HEADER, CL_SEGMENT_HEADER + 64) == CL_OK);
    CHECK(synced.start == segment->map && synced.flags == MS_SYNC);
    CHECK(cl_segment_flush(segment, SMALL / 2 + 64, SMALL) == CL_OK);
    CHECK(synced.start == segment->map + SMALL / 2 && synced.flags == MS_SYNC);
    cl_segment_release(segment);
}

static void changed_seal_is_refused(void) {
    const uint64_t id = 77;
    cl_header_seal sound = {
        .end = CL_SEGMENT_HEADER + 320, .first_sequence = 5, .record_count = 20, .sealed = 1};
    sound.crc = cl_header_seal_crc(id, &sound);
    CHECK(cl_header_seal_valid(id, SMALL, &sound) && !cl_header_seal_valid(id + 1, SMALL, &sound));
    for (size_t bit = 0; bit < 8 * sizeof sound; bit++) {
        cl_header_seal seal = sound;
        ((uint8_t *)&seal)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK(!cl_header_seal_valid(id, SMALL, &seal));
    }
    sound.record_count = 21; /* no frames of 320 bytes are so many */
    sound.crc = cl_header_seal_crc(id, &sound);
    CHECK(!cl_header_seal_valid(id, SMALL, &sound));
}

/* Returns whether this process has the page mapped, from /proc/self/pagemap. */
static bool is_mapped(const uint8_t *at) {
    uint64_t entry = 0, page = (uint64_t)sysconf(_SC_PAGESIZE);
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && pread(fd, &entry, sizeof entry,
                           (off_t)((uintptr_t)at / page * sizeof entry)) == sizeof entry);
    close(fd);
    return entry >> 63;
}

static void long_flush_unmaps_whole_pages_and_keeps_their_bytes(void) {
    const uint64_t size = 4 * SMALL, page = (uint64_t)sysconf(_SC_PAGESIZE), most = size / 2 + 100;
    test_place place;
    cl_segment *segment;
    make_place(&place, size);
    CHECK(cl_segment_open(place.dir_fd, 0, size, place.uuid, true, &segment) == CL_OK);
    CHECK(cl_segment_prefault(segment, 0, size) == CL_OK);
    for (uint64_t at = CL_SEGMENT_HEADER; at < size; at += 8) {
        memcpy(segment->map + at, &at, sizeof at);
    }
    CHECK(cl_segment_flush(segment, CL_SEGMENT_HEADER, CL_SEGMENT_HEADER + page) == CL_OK &&
          is_mapped(segment->map + CL_SEGMENT_HEADER));
    CHECK(cl_segment_flush(segment, CL_SEGMENT_HEADER, most) == CL_OK);
    for (uint64_t at = 0; at < size; at += page) {
        CHECK(is_mapped(segment->map + at) == (at + page > most));
    }
    for (uint64_t at = CL_SEGMENT_HEADER; at < size; at += 8) {
        CHECK(memcmp(segment->map + at, &at, sizeof at) == 0);
    }
    cl_segment_release(segment);
    drop_place(&place);
}

int main(void) {
    test_place place;
    make_place(&place, SMALL);
    valid_file_opens(&place);
    short_file_is_refused_before_it_is_mapped(&place);
    header_of_another_segment_is_refused(&place);
    flipped_bit_of_the_header_is_refused(&place);
    newer_format_is_distinguished_from_damage(&place);
    irregular_file_is_refused_without_waiting(&place);
    table_counts_references(&place);
    trimming_keeps_held_and_recent_segments(&place);
    trimming_unmaps_outside_of_the_mutex(&place);
    any_range_can_be_prefaulted_and_flushed(&place);
    flush_waits_and_begins_with_the_header(&place);
    changed_seal_is_refused();
    drop_place(&place);
    long_flush_unmaps_whole_pages_and_keeps_their_bytes();
    return 0;
}

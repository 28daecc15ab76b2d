#define _GNU_SOURCE
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomics.h"
#include "crc32c.h"
#include "file.h"
#include "memory.h"

#define BLOCK 512u /* what st_blocks counts in */
#define LET_GO_LEAST (64ull << 10) /* for fewer bytes the call costs more than it saves */
#define PREFAULT_PIECE                                                                             \
    (1ull << 20) /* bytes per call: each call locks the address space against other changes */

/* msync and madvise refuse what does not start on a page. */
static uint64_t page_start(uint64_t offset) { return offset - offset % cl_page_size(); }

void cl_segment_name(uint64_t base, char name[CL_SEGMENT_NAME_SIZE]) {
    snprintf(name, CL_SEGMENT_NAME_SIZE, "%020llu.seg", (unsigned long long)base);
}

int cl_header_check(const void *page, const uint8_t *log_uuid, uint64_t base, uint64_t size) {
    cl_header_identity header;
    memcpy(&header, page, sizeof header);
    if (header.magic != CL_SEGMENT_MAGIC) {
        return CL_E_HEADER;
    }
    if (header.major > CL_FORMAT_MAJOR) {
        return CL_E_VERSION;
    }
    if (cl_crc32c(0, &header, offsetof(cl_header_identity, crc)) != header.crc ||
        header.header_size != CL_SEGMENT_HEADER) {
        return CL_E_HEADER;
    }
    if ((log_uuid != NULL && memcmp(header.log_uuid, log_uuid, sizeof header.log_uuid) != 0) ||
        header.base != base || header.size != size) {
        return CL_E_FOREIGN;
    }
    return CL_OK;
}

uint32_t cl_header_opened_crc(uint64_t segment_id, int64_t opened_ns, int64_t cycle) {
    uint32_t crc = cl_crc32c(0, &segment_id, sizeof segment_id);
    crc = cl_crc32c(crc, &opened_ns, sizeof opened_ns);
    return cl_crc32c(crc, &cycle, sizeof cycle);
}

bool cl_header_opened_read(const void *page, uint64_t segment_id, cl_header_opened *opened) {
    memcpy(opened, (const uint8_t *)page + CL_HEADER_OPENED_AT, sizeof *opened);
    return opened->opened_ns > 0 &&
           cl_header_opened_crc(segment_id, opened->opened_ns, opened->cycle) == opened->crc;
}

uint32_t cl_header_durable_crc(uint64_t segment_id, uint64_t position) {
    uint32_t crc = cl_crc32c(0, &segment_id, sizeof segment_id);
    return cl_crc32c(crc, &position, sizeof position);
}

uint64_t cl_header_durable_read(const void *page, uint64_t segment_id, uint64_t base) {
    cl_header_durable part;
    memcpy(&part, (const uint8_t *)page + CL_HEADER_DURABLE_AT, sizeof part);
    /* A segment is created before the log reaches it. */
    bool valid = part.position <= base && part.position % CL_FRAME_ALIGN == 0 &&
                 cl_header_durable_crc(segment_id, part.position) == part.crc;
    return valid ? part.position : 0;
}

uint32_t cl_header_seal_crc(uint64_t segment_id, const cl_header_seal *seal) {
    uint32_t crc = cl_crc32c(0, &segment_id, sizeof segment_id);
    return cl_crc32c(crc, seal, offsetof(cl_header_seal, crc));
}

bool cl_header_seal_valid(uint64_t segment_id, uint64_t size, const cl_header_seal *seal) {
    return seal->sealed == 1 && cl_header_seal_crc(segment_id, seal) == seal->crc &&
           seal->end >= CL_SEGMENT_HEADER && seal->end <= size && seal->end % CL_FRAME_ALIGN == 0 &&
           seal->record_count <= (seal->end - CL_SEGMENT_HEADER) / CL_FRAME_HEADER &&
           seal->first_sequence <= (uint64_t)INT64_MAX - seal->record_count;
}

/* Checks everything that could make an access through the mapping fail. */
static int check_file(int fd, uint64_t base, uint64_t size, const uint8_t *log_uuid, uint64_t *id) {
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return CL_E_SYSTEM;
    }
    if (!S_ISREG(status.st_mode)) {
        return CL_E_IRREGULAR;
    }
    uint8_t page[CL_SEGMENT_HEADER];
    ssize_t got = cl_file_read(fd, page, sizeof page);
    if (got < 0) {
        return CL_E_SYSTEM;
    }
    if (got < (ssize_t)sizeof page) {
        return CL_E_TRUNCATED;
    }
    int code = cl_header_check(page, log_uuid, base, size);
    if (code != CL_OK) {
        return code;
    }
    if ((uint64_t)status.st_size < size) {
        return CL_E_TRUNCATED;
    }
    memcpy(id, page + offsetof(cl_header_identity, segment_id), sizeof *id);
    return CL_OK;
}

static cl_segment *map_file(int fd, uint64_t number, uint64_t size, uint64_t id, bool writable) {
    void *map = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        return NULL;
    }
    cl_segment *segment = calloc(1, sizeof *segment);
    if (segment == NULL) {
        munmap(map, size);
        errno = ENOMEM;
        return NULL;
    }
    *segment = (cl_segment){.number = number,
                            .base = number * size,
                            .size = size,
                            .extent = size,
                            .id = id,
                            .seed = cl_crc32c_seed(id),
                            .fd = -1,
                            .map = map,
                            .bytes = map,
                            .references = 1,
                            .tallied = CL_SEGMENT_HEADER,
                            .tally = {.end = CL_SEGMENT_HEADER}};
    return segment;
}

/* The errno values of openat for a name without a file. A socket, or a device without a driver,
 * gives ENXIO. */
static int open_failure(int cause) {
    switch (cause) {
    case ENOENT:
        return CL_E_ABSENT;
    case ELOOP:
    case EISDIR:
    case ENXIO:
        return CL_E_IRREGULAR;
    default:
        return CL_E_SYSTEM;
    }
}

int cl_segment_open(int dir_fd, uint64_t number, uint64_t size, const uint8_t *log_uuid,
                    bool writable, cl_segment **out) {
    char name[CL_SEGMENT_NAME_SIZE];
    if (number > UINT32_MAX) {
        return CL_E_ABSENT; /* a packed tail cannot hold such a number, and its base could wrap */
    }
    cl_segment_name(number * size, name);
    int fd =
        openat(dir_fd, name, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return open_failure(errno);
    }
    uint64_t id = 0;
    int code = check_file(fd, number * size, size, log_uuid, &id);
    if (code == CL_OK) {
        *out = map_file(fd, number, size, id, writable);
        code = *out == NULL ? CL_E_SYSTEM : CL_OK;
    }
    if (code == CL_OK) {
        cl_assert((*out)->references, ==, 1);
        cl_assert((*out)->bytes, ==, (*out)->map);
        cl_assert((*out)->base, ==, number * size);
    }
    int cause = errno;
    close(fd);
    errno = cause;
    return code;
}

/* Opens the file of a segment once more; -1 if that is not possible at present. */
static int open_again(int dir_fd, const cl_segment *segment, int access) {
    char name[CL_SEGMENT_NAME_SIZE];
    uint64_t id = 0;
    cl_segment_name(segment->base, name);
    int fd = openat(dir_fd, name, access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 &&
        (check_file(fd, segment->base, segment->size, NULL, &id) != CL_OK || id != segment->id)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool cl_segment_reopen(int dir_fd, cl_segment *segment) {
    if (segment->fd < 0) {
        segment->fd = open_again(dir_fd, segment, O_RDWR);
    }
    return segment->fd >= 0;
}

void cl_segment_measure(int dir_fd, cl_segment *segment) {
    struct stat status;
    int fd = open_again(dir_fd, segment, O_RDONLY);
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &status) == 0 && (uint64_t)status.st_blocks * BLOCK < segment->size) {
        uint64_t end = CL_SEGMENT_HEADER;
        off_t at = 0;
        /* Each round passes one run of data. */
        while ((at = lseek(fd, at, SEEK_DATA)) >= 0 && (at = lseek(fd, at, SEEK_HOLE)) >= 0) {
            end = (uint64_t)at > end ? (uint64_t)at : end;
        }
        segment->extent = end < segment->size ? end : segment->size;
        cl_assert(segment->extent, >=, CL_SEGMENT_HEADER);
        cl_assert(segment->extent, <=, segment->size);
    }
    close(fd);
}

void cl_segment_close_file(cl_segment *segment) {
    if (segment->fd >= 0) {
        close(segment->fd);
        segment->fd = -1;
    }
}

void cl_segment_hold(cl_segment *segment) {
    uint32_t before = cl_add32(&segment->references, 1);
    cl_assert(before, !=, 0);
    cl_assert(before, !=, UINT32_MAX);
}

void cl_segment_release(cl_segment *segment) {
    if (segment == NULL) {
        return;
    }
    uint32_t left = __atomic_sub_fetch(&segment->references, 1, __ATOMIC_ACQ_REL);
    cl_assert(left, !=, UINT32_MAX);
    if (left != 0) {
        return;
    }
    cl_assert(segment->users, ==, 0);
    munmap(segment->map, segment->size);
    cl_segment_close_file(segment);
    free(segment->index.entries);
    free(segment);
}

int cl_segment_prefault(cl_segment *segment, uint64_t start, uint64_t stop) {
    start = page_start(start);
    stop = stop > segment->size ? segment->size : stop;
    if (start >= stop) {
        return CL_OK;
    }
    while (start < stop) {
        uint64_t length = stop - start < PREFAULT_PIECE ? stop - start : PREFAULT_PIECE;
        if (madvise(segment->map + start, length, MADV_POPULATE_WRITE) != 0) {
            return errno == EINVAL ? CL_OK : CL_E_SYSTEM; /* Linux before 5.14 has none: the
                                                             appender faults its pages itself */
        }
        start += length;
    }
    return CL_OK;
}

void cl_segment_let_go(const cl_segment *segment, uint64_t start, uint64_t stop) {
    start = page_start(start);
    stop = page_start(stop);
    if (stop >= start + LET_GO_LEAST) {
        madvise(segment->map + start, stop - start,
                MADV_DONTNEED); /* errors are ignored: only speed is lost */
    }
}

int cl_segment_flush(const cl_segment *segment, uint64_t start, uint64_t stop) {
    /* The header's opened part is written by a roll through the mapping and has no flush of its
     * own. */
    start = start <= CL_SEGMENT_HEADER ? 0 : page_start(start);
    stop = stop < segment->size ? stop : segment->size;
    cl_segment_let_go(segment, start, stop);
    return start < stop && msync(segment->map + start, stop - start, MS_SYNC) != 0 ? CL_E_SYSTEM
                                                                                   : CL_OK;
}

uint64_t cl_skip_cell(const cl_segment *segment, uint32_t offset, uint32_t length) {
    uint32_t word = CL_WORD_SKIP | length;
    cl_assert(length & CL_WORD_FLAGS, ==, 0);
    cl_assert(offset, <, segment->size);
    return cl_cell(word, cl_frame_crc(segment->seed, offset, word, NULL, 0));
}

bool cl_roll_back(cl_segment *segment, uint32_t offset, uint64_t cell) {
    uint32_t length = cl_cell_word(cell) & CL_WORD_LENGTH;
    cl_assert(cl_cell_word(cell) & CL_WORD_CLAIMED, !=, 0);
    cl_assert(offset, >=, CL_SEGMENT_HEADER);
    cl_assert(offset % CL_FRAME_ALIGN, ==, 0);
    return cl_swap((uint64_t *)(segment->bytes + offset), &cell,
                   cl_skip_cell(segment, offset, length));
}

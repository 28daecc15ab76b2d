/* The `checkpoint` file: two records, of which the valid one with the higher count is in force. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint.h"
#include "fuzz.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    uint32_t state = seed;
    const size_t least = CL_CHECKPOINT_STRIDE + sizeof(cl_checkpoint);
    size = LLVMFuzzerMutate(data, size, most);
    if (size < least && least <= most && next_number(&state) % 8 != 0) {
        memset(data + size, 0, least - size);
        size = least;
    }
    for (uint32_t turn = 0; turn < 2; turn++) {
        size_t at = turn * CL_CHECKPOINT_STRIDE;
        cl_checkpoint record;
        if (at + sizeof record > size || next_number(&state) % 8 == 0) {
            continue;
        }
        memcpy(&record, data + at, sizeof record);
        record.magic = CL_CHECKPOINT_MAGIC;
        memcpy(record.log_uuid, fuzz_uuid, sizeof fuzz_uuid);
        record.crc = cl_crc32c(0, &record, offsetof(cl_checkpoint, crc));
        memcpy(data + at, &record, sizeof record);
    }
    return size;
}

/* A file without a descriptor of its own for each input. */
static int file_of(const uint8_t *bytes, size_t size) {
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("checkpoint", MFD_CLOEXEC);
    }
    REQUIRE(fd >= 0 && ftruncate(fd, 0) == 0);
    REQUIRE(pwrite(fd, bytes, size, 0) == (ssize_t)size);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *bytes = calloc(1, CL_CHECKPOINT_SIZE);
    cl_checkpoint before, after;
    REQUIRE(bytes != NULL);
    size = size < CL_CHECKPOINT_SIZE ? size : CL_CHECKPOINT_SIZE;
    memcpy(bytes, data, size);
    int code = cl_checkpoint_read(bytes, fuzz_uuid, &before);
    REQUIRE(code == CL_OK || code == CL_E_ABSENT);
    if (code == CL_OK) {
        REQUIRE(before.crc == cl_crc32c(0, &before, offsetof(cl_checkpoint, crc)));
    }
    int fd = file_of(bytes, size);
    REQUIRE(cl_checkpoint_put(fd, fuzz_uuid, 5, 4242, false, false) == CL_OK);
    memset(bytes, 0, CL_CHECKPOINT_SIZE);
    REQUIRE(pread(fd, bytes, CL_CHECKPOINT_SIZE, 0) > 0);
    REQUIRE(cl_checkpoint_read(bytes, fuzz_uuid, &after) == CL_OK);
    if (code != CL_OK || before.count != UINT64_MAX) { /* no writer counts so far */
        REQUIRE(after.position == 4242 && after.count > 5);
        REQUIRE(code != CL_OK || after.count > before.count);
    }
    free(bytes);
    return 0;
}

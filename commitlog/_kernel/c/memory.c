#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

size_t cl_page_size(void) {
    long size = sysconf(_SC_PAGESIZE);
    return size > 0 ? (size_t)size : CL_PAGE_SMALLEST;
}

int cl_memory_map(cl_memory *memory, size_t size) {
    /* Shared, not private: after a fork both sides keep the same pages and no write pays for a
     * copy. */
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        return CL_E_SYSTEM;
    }
    *memory = (cl_memory){.bytes = mapped, .size = size, .mapped = mapped, .mapped_size = size};
    return CL_OK;
}

int cl_memory_map_descriptor(cl_memory *memory, int descriptor, uint64_t offset, size_t size,
                             bool writable) {
    struct stat status;
    if (fstat(descriptor, &status) != 0) {
        return CL_E_SYSTEM;
    }
    uint64_t file_size = (uint64_t)status.st_size;
    if (offset > file_size || size > file_size - offset) {
        return CL_E_TRUNCATED;
    }
    size_t before = (size_t)(offset % cl_page_size());
    int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void *mapped =
        mmap(NULL, size + before, protection, MAP_SHARED, descriptor, (off_t)(offset - before));
    if (mapped == MAP_FAILED) {
        return CL_E_SYSTEM;
    }
    *memory = (cl_memory){.bytes = (uint8_t *)mapped + before,
                          .size = size,
                          .mapped = mapped,
                          .mapped_size = size + before};
    return CL_OK;
}

int cl_memory_populate(const cl_memory *memory) {
    if (madvise(memory->mapped, memory->mapped_size, MADV_POPULATE_WRITE) == 0) {
        return CL_OK;
    }
    if (errno != EINVAL) {
        return CL_E_SYSTEM;
    }
    cl_memory_touch(memory);
    return CL_OK;
}

void cl_memory_touch(const cl_memory *memory) {
    size_t step = cl_page_size();
    for (size_t at = 0; at < memory->mapped_size; at += step) {
        /* A plain load and store could undo what another process stores in between. */
        __atomic_fetch_add(memory->mapped + at, 0, __ATOMIC_RELAXED);
    }
}

void cl_memory_zero(const cl_memory *memory, size_t start, size_t stop) {
    cl_assert(start, <=, stop);
    cl_assert(stop, <=, memory->size);
    memset(memory->bytes + start, 0, stop - start);
}

int cl_memory_lock(const cl_memory *memory) {
    return mlock(memory->mapped, memory->mapped_size) == 0 ? CL_OK : CL_E_SYSTEM;
}

int cl_memory_unlock(const cl_memory *memory) {
    return munlock(memory->mapped, memory->mapped_size) == 0 ? CL_OK : CL_E_SYSTEM;
}

int cl_memory_unmap(cl_memory *memory) {
    if (memory->mapped != NULL && munmap(memory->mapped, memory->mapped_size) != 0) {
        return CL_E_SYSTEM;
    }
    *memory = (cl_memory){0};
    return CL_OK;
}

int cl_memory_part(const cl_memory *memory, size_t kept) {
    size_t size = memory->mapped_size;
    cl_assert(kept, <=, size);
    void *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) {
        return CL_E_SYSTEM;
    }
    memcpy(copy, memory->mapped, kept);
    if (mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, memory->mapped) != memory->mapped) {
        munmap(copy, size);
        return CL_E_SYSTEM;
    }
    return CL_OK;
}

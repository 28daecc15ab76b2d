/* Off-heap memory: bytes outside the interpreter's heap, anonymous or over a descriptor, always
 * shared with a forked child.
 *
 * Functions return 0 or CL_E_SYSTEM with errno set; they contain no policy. */
#ifndef CL_MEMORY_H
#define CL_MEMORY_H

#include "base.h"

/* Since Linux 5.14; older C libraries do not name it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* 4 KiB on x86-64, up to 64 KiB on aarch64. */
size_t cl_page_size(void);

/* The mapping may begin before the bytes: Linux maps whole pages, and those of an aarch64
 * machine may be larger than 4 KiB. */
typedef struct {
    uint8_t *bytes;
    size_t size;
    uint8_t *mapped;
    size_t mapped_size;
} cl_memory;

int cl_memory_map(cl_memory *memory, size_t size);

/* CL_E_TRUNCATED when the file ends before the range does: an access past the end of the file would
 * raise SIGBUS. */
int cl_memory_map_descriptor(cl_memory *memory, int descriptor, uint64_t offset, size_t size,
                             bool writable);

/* Makes every page present and writable; the bytes keep their values. */
int cl_memory_populate(const cl_memory *memory);

/* The fallback of cl_memory_populate on Linux before 5.14: one atomic addition of zero a page. */
void cl_memory_touch(const cl_memory *memory);

void cl_memory_zero(const cl_memory *memory, size_t start, size_t stop);
int cl_memory_lock(const cl_memory *memory);
int cl_memory_unlock(const cl_memory *memory);
int cl_memory_unmap(cl_memory *memory);

/* Replaces a file's mapping by a private copy of its first `kept` bytes and zeros, at the same
 * address: a concurrent reader sees either one. */
int cl_memory_part(const cl_memory *memory, size_t kept);

#endif

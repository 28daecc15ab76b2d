/* Reads of files. */
#ifndef CL_FILE_H
#define CL_FILE_H

#include <stdint.h>
#include <unistd.h>

/* Reads `size` bytes from the file's start, also after short reads. Returns how many it has read,
 * fewer only at the file's end, or -1. */
static inline ssize_t cl_file_read(int fd, void *bytes, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(fd, (uint8_t *)bytes + done, size - done, (off_t)done);
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        done += (size_t)got;
    }
    return (ssize_t)done;
}

#endif

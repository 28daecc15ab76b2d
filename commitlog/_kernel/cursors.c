#define _GNU_SOURCE
#include "cursors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomics.h"
#include "futex.h"

static struct flock byte_range(int64_t start, short kind) {
    struct flock range = {.l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = 1};
    return range;
}

static uint32_t pid_namespace(void) {
    struct stat status;
    return stat("/proc/self/ns/pid", &status) == 0 ? (uint32_t)status.st_ino : 0;
}

static struct flock slot_range(uint32_t slot, short kind) { return byte_range(CL_SLOT_LOCK_AT + slot, kind); }

bool cl_creation_try(int fd) {
    struct flock range = byte_range(CL_CREATION_LOCK_AT, F_WRLCK);
    return fcntl(fd, F_OFD_SETLK, &range) == 0;
}

void cl_creation_end(int fd) {
    struct flock range = byte_range(CL_CREATION_LOCK_AT, F_UNLCK);
    fcntl(fd, F_OFD_SETLK, &range);
}

int cl_slot_attach(cl_cursors *cursors, int fd, uint32_t *slot, uint32_t *generation) {
    for (uint32_t index = 0; index < CL_CURSORS_SLOTS; index++) {
        struct flock range = slot_range(index, F_WRLCK);
        if (fcntl(fd, F_OFD_SETLK, &range) != 0) {
            if (errno == EAGAIN || errno == EACCES) {
                continue;
            }
            return CL_E_SYSTEM;
        }
        cl_slot *mine = &cursors->slots[index];
        uint32_t next = (cl_load32(&mine->generation) + 1) & CL_OWNER_GENERATION_MASK;
        next = next == 0 ? 1 : next;
        /* The generation first: from here on the former owner's claims are dead, even one in its odd window. */
        __atomic_store_n(&mine->generation, next, __ATOMIC_SEQ_CST);
        __atomic_store_n(&mine->pid_namespace, pid_namespace(), __ATOMIC_RELAXED);
        __atomic_store_n(&mine->pid, (uint32_t)getpid(), __ATOMIC_RELAXED);
        __atomic_store_n(&mine->attached_ns, cl_clock_precise_ns(), __ATOMIC_RELAXED);
        __atomic_store_n(&mine->rolled_back, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&mine->counter, (cl_load(&mine->counter) | 1) + 1, __ATOMIC_SEQ_CST);
        *slot = index;
        *generation = next;
        return CL_OK;
    }
    return CL_E_SLOTS;
}

void cl_slot_detach(cl_cursors *cursors, int fd, uint32_t slot) {
    __atomic_store_n(&cursors->slots[slot].pid, 0, __ATOMIC_RELAXED);
    struct flock range = slot_range(slot, F_UNLCK);
    fcntl(fd, F_OFD_SETLK, &range);
}

bool cl_slot_alive(int fd, uint32_t slot) {
    struct flock range = slot_range(slot, F_WRLCK);
    if (fcntl(fd, F_OFD_GETLK, &range) != 0) {
        return true; /* not known to be dead: the claim timeout decides */
    }
    return range.l_type != F_UNLCK;
}

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

static struct flock slot_range(uint32_t slot, short kind) {
    return byte_range(CL_SLOT_LOCK_AT + slot, kind);
}

bool cl_creation_try(cl_slot_fds fds) {
    struct flock range = byte_range(CL_CREATION_LOCK_AT, F_WRLCK);
    return fcntl(fds.lock, F_OFD_SETLK, &range) == 0;
}

void cl_creation_end(cl_slot_fds fds) {
    struct flock range = byte_range(CL_CREATION_LOCK_AT, F_UNLCK);
    fcntl(fds.lock, F_OFD_SETLK, &range);
}

static void unlock_slot(cl_slot_fds fds, uint32_t slot) {
    struct flock range = slot_range(slot, F_UNLCK);
    fcntl(fds.cursors, F_OFD_SETLK, &range);
    fcntl(fds.lock, F_OFD_SETLK, &range);
}

/* Returns CL_E_SLOTS if the slot is taken. */
static int lock_slot(cl_slot_fds fds, uint32_t slot) {
    struct flock exclusive = slot_range(slot, F_WRLCK);
    struct flock shown = slot_range(slot, F_RDLCK);
    if (fcntl(fds.lock, F_OFD_SETLK, &exclusive) == 0 &&
        fcntl(fds.cursors, F_OFD_SETLK, &shown) == 0) {
        return CL_OK;
    }
    int cause = errno;
    unlock_slot(fds, slot);
    errno = cause;
    return cause == EAGAIN || cause == EACCES ? CL_E_SLOTS : CL_E_SYSTEM;
}

int cl_slot_attach(cl_cursors *cursors, cl_slot_fds fds, uint32_t *slot, uint32_t *generation) {
    for (uint32_t index = 0; index < CL_CURSORS_SLOTS; index++) {
        int code = lock_slot(fds, index);
        if (code == CL_E_SLOTS) {
            continue;
        }
        if (code != CL_OK) {
            return code;
        }
        cl_slot *mine = &cursors->slots[index];
        uint32_t next = (cl_load32(&mine->generation) + 1) & CL_OWNER_GENERATION_MASK;
        next = next == 0 ? 1 : next;
        /* The generation first: from here on the former owner's claims are dead, even one in its
         * odd window. */
        __atomic_store_n(&mine->generation, next, __ATOMIC_SEQ_CST);
        __atomic_store_n(&mine->pid_namespace, pid_namespace(), __ATOMIC_RELAXED);
        __atomic_store_n(&mine->pid, (uint32_t)getpid(), __ATOMIC_RELAXED);
        __atomic_store_n(&mine->attached_ns, cl_clock_precise_ns(), __ATOMIC_RELAXED);
        __atomic_store_n(&mine->rolled_back, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&mine->counter, (cl_load(&mine->counter) | 1) + 1, __ATOMIC_SEQ_CST);
        cl_assert(cl_load(&mine->counter) % 2, ==, 0);
        cl_assert(cl_load32(&mine->generation), ==, next);
        *slot = index;
        *generation = next;
        return CL_OK;
    }
    return CL_E_SLOTS;
}

void cl_slot_detach(cl_cursors *cursors, cl_slot_fds fds, uint32_t slot) {
    cl_assert(slot, <, CL_CURSORS_SLOTS);
    cl_assert(cl_load(&cursors->slots[slot].counter) % 2, ==, 0);
    __atomic_store_n(&cursors->slots[slot].pid, 0, __ATOMIC_RELAXED);
    unlock_slot(fds, slot);
}

/* Whether another open description holds a conflicting lock. */
static bool is_refused(int fd, struct flock range) {
    if (fcntl(fd, F_OFD_GETLK, &range) != 0) {
        return true; /* not known to be dead: the claim timeout decides */
    }
    return range.l_type != F_UNLCK;
}

bool cl_slot_alive(cl_slot_fds fds, uint32_t slot) {
    if (fds.lock < 0) {
        return is_refused(fds.cursors, slot_range(slot, F_WRLCK));
    }
    /* A shared lock in `cursors` may be a reader's. An exclusive one is that of an older release.
     */
    return is_refused(fds.lock, slot_range(slot, F_WRLCK)) ||
           is_refused(fds.cursors, slot_range(slot, F_RDLCK));
}

/* Makes one process and its children miss a feature (LD_PRELOAD). COMMITLOG_LACKS names the
 * feature: */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int lacks(const char *what) {
    const char *named = getenv("COMMITLOG_LACKS");
    return named != NULL && strcmp(named, what) == 0;
}

static int refused(const char *what) {
    errno = EOPNOTSUPP;
    return lacks(what);
}

/* "allocation" fails; "blocks" succeeds but leaves a hole. */
int posix_fallocate(int fd, off_t offset, off_t length) {
    if (lacks("blocks")) {
        return ftruncate(fd, offset + length);
    }
    return refused("allocation") ? EOPNOTSUPP : REAL(posix_fallocate)(fd, offset, length);
}
int posix_fallocate64(int fd, off_t offset, off_t length) {
    return posix_fallocate(fd, offset, length);
}

/* "rename" fails. */
int renameat2(int old_dir, const char *old, int new_dir, const char *new, unsigned int flags) {
    return refused("rename") ? -1 : REAL(renameat2)(old_dir, old, new_dir, new, flags);
}

/* "locks" fail; with "holders" every process gets them; with "death" no lock is ever released. */
static int lock(int fd, int command, void *argument) {
    if (command == F_OFD_SETLK || command == F_OFD_GETLK) {
        if (refused("locks")) {
            return -1;
        }
        if (lacks("holders") && command == F_OFD_GETLK) {
            ((struct flock *)argument)->l_type = F_UNLCK;
            return 0;
        }
        if (lacks("death") && command == F_OFD_GETLK) {
            ((struct flock *)argument)->l_type = F_WRLCK;
            return 0;
        }
    }
    return REAL(fcntl)(fd, command, argument);
}
int fcntl64(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return lock(fd, command, argument);
}
int fcntl(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return lock(fd, command, argument);
}

/* "msync", "fdatasync", "directories" and "lock" fail; with "device" a flush has no effect. */
int msync(void *address, size_t length, int flags) {
    if (lacks("device")) {
        return 0;
    }
    return refused("msync") ? -1 : REAL(msync)(address, length, flags);
}
int fdatasync(int fd) {
    if (lacks("device")) {
        return 0;
    }
    return refused("fdatasync") ? -1 : REAL(fdatasync)(fd);
}
int fsync(int fd) {
    struct stat status;
    if (lacks("directories") && fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
        errno = EINVAL;
        return -1;
    }
    return REAL(fsync)(fd);
}
int mlock(const void *address, size_t length) {
    return refused("lock") ? -1 : REAL(mlock)(address, length);
}

/* "memory": no POSIX shared memory. */
int shm_open(const char *name, int flags, mode_t mode) {
    if (lacks("memory")) {
        errno = ENOSYS;
        return -1;
    }
    return REAL(shm_open)(name, flags, mode);
}

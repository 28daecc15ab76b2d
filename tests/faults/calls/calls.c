/* Preloaded in front of the C library (LD_PRELOAD), this library lets one system call fail: the
 * n-th of a kind, once or from then on.
 *
 * It counts the calls that the engine makes: those on a path below the folder of a case, those on
 * sockets, the start of a thread, and those without a file that come from the engine's own code. On
 * demand it writes the kind and the path of each of them to a descriptor, so that a plan can be
 * made.
 *
 * COMMITLOG_CALLS_STATE: a file of one page, mapped, as below. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in plan.py. */
enum {
    OPEN,
    CREATE,
    READ,
    WRITE,
    MSYNC,
    FSYNC,
    FDATASYNC,
    FALLOCATE,
    PUNCH,
    FTRUNCATE,
    RENAME,
    LINK,
    UNLINK,
    MKDIR,
    STAT,
    FSTAT,
    OPENDIR,
    READDIR,
    LOCK,
    FLOCK,
    DUP,
    MMAP,
    MREMAP,
    MADVISE,
    MLOCK,
    STATFS,
    COPY,
    SHM,
    THREAD,
    SOCKET,
    CONNECT,
    BIND,
    ACCEPT,
    SEND,
    RECV,
    POLL,
    KINDS
};

typedef struct {
    int64_t armed;
    int64_t trace; /* a descriptor; 0: none */
    int64_t kind;
    int64_t nth;
    int64_t forever;
    int64_t cause; /* an errno; 0: the call does a half of what it is asked for */
    uint64_t met;
    uint64_t seen;
    char folder[256];
} state;

static state nothing;
static state *shared = &nothing;
static __thread int inside; /* a call that goes on to `shim.c`, whose own calls do not count */

#define PASSED(type, call)                                                                         \
    {                                                                                              \
        inside++;                                                                                  \
        type result = call;                                                                        \
        inside--;                                                                                  \
        return result;                                                                             \
    }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Reads the variable: at the start of a process, and in a fork that got another. */
__attribute__((constructor)) void calls_begin(void) {
    const char *path = getenv("COMMITLOG_CALLS_STATE");
    shared = &nothing;
    int fd = path == NULL ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        void *page = REAL(mmap)(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        shared = page == MAP_FAILED ? &nothing : page;
        close(fd);
    }
}

/* --- which calls ---------------------------------------------------------------------------- */

static void path_of(int fd, const char *name, char *path) {
    char link[64];
    path[0] = 0;
    if (name != NULL && name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
        return;
    }
    snprintf(link, sizeof link, fd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    if (name != NULL) {
        snprintf(path + strlen(path), PATH_MAX - strlen(path), "/%s", name);
    }
}

static int from_engine(const void *caller) {
    Dl_info info;
    return dladdr(caller, &info) != 0 && strstr(info.dli_fname, "/commitlog/") != NULL;
}

/* Returns whether a call that counts has to fail; sets errno. */
static int counted(int kind, const char *path) {
    if (shared->trace != 0) {
        char line[PATH_MAX + 16];
        int length = snprintf(line, sizeof line, "%d %s\n", kind, path);
        syscall(SYS_write, (int)shared->trace, line, (size_t)length);
    }
    if (kind != shared->kind) {
        return 0;
    }
    uint64_t number = __atomic_fetch_add(&shared->seen, 1, __ATOMIC_RELAXED);
    if (number < (uint64_t)shared->nth || (number > (uint64_t)shared->nth && !shared->forever)) {
        return 0;
    }
    __atomic_fetch_add(&shared->met, 1, __ATOMIC_RELAXED);
    errno = (int)shared->cause;
    return 1;
}

static int on_path(int kind, int fd, const char *name) {
    char path[PATH_MAX];
    int before = errno;
    if (inside || !__atomic_load_n(&shared->armed, __ATOMIC_ACQUIRE)) {
        return 0;
    }
    path_of(fd, name, path);
    errno = before;
    return strncmp(path, shared->folder, strlen(shared->folder)) == 0 && counted(kind, path);
}

static int on_any(int kind, const char *what) {
    return __atomic_load_n(&shared->armed, __ATOMIC_ACQUIRE) && counted(kind, what);
}

/* For calls on memory: those of the engine count, and those of others do not. */
#define ON_MEMORY(kind)                                                                            \
    (__atomic_load_n(&shared->armed, __ATOMIC_ACQUIRE) &&                                          \
     from_engine(__builtin_return_address(0)) && counted(kind, "memory"))

/* Returns the length of a call that may be cut short: 0 if it has to fail. */
static size_t allowed(int refused, size_t length) {
    return !refused ? length : shared->cause != 0 ? 0 : length > 1 ? length / 2 : length;
}

/* --- files ---------------------------------------------------------------------------------- */

static int opened(int fd, const char *name, int flags, mode_t mode) {
    return on_path(flags & O_CREAT ? CREATE : OPEN, fd, name) ? -1
                                                              : REAL(openat)(fd, name, flags, mode);
}

#define MODE(flags, mode)                                                                          \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                       \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode = va_arg(rest, mode_t);                                                               \
        va_end(rest);                                                                              \
    }

int open(const char *name, int flags, ...) {
    MODE(flags, mode)
    return opened(AT_FDCWD, name, flags, mode);
}
int open64(const char *name, int flags, ...) {
    MODE(flags, mode)
    return opened(AT_FDCWD, name, flags, mode);
}
int openat(int fd, const char *name, int flags, ...) {
    MODE(flags, mode)
    return opened(fd, name, flags, mode);
}
int openat64(int fd, const char *name, int flags, ...) {
    MODE(flags, mode)
    return opened(fd, name, flags, mode);
}

#define MAY_BE_SHORT(kind, fd, length)                                                             \
    size_t most = length;                                                                          \
    if (on_path(kind, fd, NULL) && (most = allowed(1, length)) == 0) {                             \
        return -1;                                                                                 \
    }

ssize_t read(int fd, void *bytes, size_t length) {
    MAY_BE_SHORT(READ, fd, length)
    return REAL(read)(fd, bytes, most);
}
ssize_t pread(int fd, void *bytes, size_t length, off_t at) {
    MAY_BE_SHORT(READ, fd, length)
    return REAL(pread)(fd, bytes, most, at);
}
ssize_t pread64(int fd, void *bytes, size_t length, off_t at) {
    return pread(fd, bytes, length, at);
}
ssize_t write(int fd, const void *bytes, size_t length) {
    MAY_BE_SHORT(WRITE, fd, length)
    return REAL(write)(fd, bytes, most);
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    MAY_BE_SHORT(WRITE, fd, length)
    return REAL(pwrite)(fd, bytes, most, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) {
    return pwrite(fd, bytes, length, at);
}
ssize_t sendfile(int out, int in, off_t *at, size_t length) {
    MAY_BE_SHORT(COPY, out, length)
    return ((ssize_t (*)(int, int, off_t *, size_t))dlsym(RTLD_NEXT, "sendfile"))(out, in, at,
                                                                                  most);
}
ssize_t sendfile64(int out, int in, off_t *at, size_t length) {
    return sendfile(out, in, at, length);
}
ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t length,
                        unsigned flags) {
    MAY_BE_SHORT(COPY, out, length)
    return REAL(copy_file_range)(in, from, out, to, most, flags);
}

int fsync(int fd) {
    if (on_path(FSYNC, fd, NULL)) {
        return -1;
    }
    PASSED(int, REAL(fsync)(fd))
}
int fdatasync(int fd) {
    if (on_path(FDATASYNC, fd, NULL)) {
        return -1;
    }
    PASSED(int, REAL(fdatasync)(fd))
}
int posix_fallocate(int fd, off_t at, off_t length) {
    return on_path(FALLOCATE, fd, NULL) ? errno : REAL(posix_fallocate)(fd, at, length);
}
int posix_fallocate64(int fd, off_t at, off_t length) { return posix_fallocate(fd, at, length); }
int fallocate(int fd, int mode, off_t at, off_t length) {
    return on_path(PUNCH, fd, NULL) ? -1 : REAL(fallocate)(fd, mode, at, length);
}
int fallocate64(int fd, int mode, off_t at, off_t length) {
    return fallocate(fd, mode, at, length);
}
int ftruncate(int fd, off_t length) {
    return on_path(FTRUNCATE, fd, NULL) ? -1 : REAL(ftruncate)(fd, length);
}
int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }

/* --- names ---------------------------------------------------------------------------------- */

int rename(const char *old, const char *new) {
    return on_path(RENAME, AT_FDCWD, new) ? -1 : REAL(rename)(old, new);
}
int renameat(int from, const char *old, int to, const char *new) {
    return on_path(RENAME, to, new) ? -1 : REAL(renameat)(from, old, to, new);
}
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    return on_path(RENAME, to, new) ? -1 : REAL(renameat2)(from, old, to, new, flags);
}
int link(const char *old, const char *new) {
    return on_path(LINK, AT_FDCWD, new) ? -1 : REAL(link)(old, new);
}
int linkat(int from, const char *old, int to, const char *new, int flags) {
    return on_path(LINK, to, new) ? -1 : REAL(linkat)(from, old, to, new, flags);
}
int unlink(const char *name) { return on_path(UNLINK, AT_FDCWD, name) ? -1 : REAL(unlink)(name); }
int unlinkat(int fd, const char *name, int flags) {
    return on_path(UNLINK, fd, name) ? -1 : REAL(unlinkat)(fd, name, flags);
}
int rmdir(const char *name) { return on_path(UNLINK, AT_FDCWD, name) ? -1 : REAL(rmdir)(name); }
int mkdir(const char *name, mode_t mode) {
    return on_path(MKDIR, AT_FDCWD, name) ? -1 : REAL(mkdir)(name, mode);
}
int mkdirat(int fd, const char *name, mode_t mode) {
    return on_path(MKDIR, fd, name) ? -1 : REAL(mkdirat)(fd, name, mode);
}

#define STAT_OF(function, type)                                                                    \
    int function(const char *restrict name, type *restrict status) {                               \
        return on_path(STAT, AT_FDCWD, name) ? -1 : REAL(function)(name, status);                  \
    }
STAT_OF(stat, struct stat)
STAT_OF(stat64, struct stat64)
STAT_OF(lstat, struct stat)
STAT_OF(lstat64, struct stat64)
int fstatat(int fd, const char *restrict name, struct stat *restrict status, int flags) {
    return on_path(STAT, fd, name) ? -1 : REAL(fstatat)(fd, name, status, flags);
}
int fstatat64(int fd, const char *restrict name, struct stat64 *restrict status, int flags) {
    return on_path(STAT, fd, name) ? -1 : REAL(fstatat64)(fd, name, status, flags);
}
int fstat(int fd, struct stat *status) {
    return on_path(FSTAT, fd, NULL) ? -1 : REAL(fstat)(fd, status);
}
int fstat64(int fd, struct stat64 *status) {
    return on_path(FSTAT, fd, NULL) ? -1 : REAL(fstat64)(fd, status);
}
DIR *opendir(const char *name) {
    return on_path(OPENDIR, AT_FDCWD, name) ? NULL : REAL(opendir)(name);
}
DIR *fdopendir(int fd) { return on_path(OPENDIR, fd, NULL) ? NULL : REAL(fdopendir)(fd); }
/* The C library asks the system with the first call, and for so few names not again. */
#define ASKS(directory) (telldir(directory) == 0)
struct dirent *readdir(DIR *directory) {
    return ASKS(directory) && on_path(READDIR, dirfd(directory), NULL) ? NULL
                                                                       : REAL(readdir)(directory);
}
struct dirent64 *readdir64(DIR *directory) {
    return ASKS(directory) && on_path(READDIR, dirfd(directory), NULL) ? NULL
                                                                       : REAL(readdir64)(directory);
}
int statfs(const char *name, struct statfs *status) {
    return on_path(STATFS, AT_FDCWD, name) ? -1 : REAL(statfs)(name, status);
}
int fstatfs(int fd, struct statfs *status) {
    return on_path(STATFS, fd, NULL) ? -1 : REAL(fstatfs)(fd, status);
}
int statvfs64(const char *restrict name, struct statvfs64 *restrict status) {
    return on_path(STATFS, AT_FDCWD, name) ? -1 : REAL(statvfs64)(name, status);
}
int fstatvfs64(int fd, struct statvfs64 *status) {
    return on_path(STATFS, fd, NULL) ? -1 : REAL(fstatvfs64)(fd, status);
}

/* --- locks and memory ----------------------------------------------------------------------- */

int flock(int fd, int operation) {
    /* A lock that is given back cannot fail. */
    return (operation & LOCK_UN) == 0 && on_path(FLOCK, fd, NULL) ? -1 : REAL(flock)(fd, operation);
}

static int controlled(int fd, int command, void *argument) {
    int kind = command == F_DUPFD || command == F_DUPFD_CLOEXEC ? DUP
               : command == F_SETLK || command == F_SETLKW || command == F_GETLK ||
                       command == F_OFD_SETLK || command == F_OFD_SETLKW || command == F_OFD_GETLK
                   ? LOCK
                   : -1;
    if (kind == LOCK && ((struct flock *)argument)->l_type == F_UNLCK) {
        kind = -1;
    }
    return kind >= 0 && on_path(kind, fd, NULL) ? -1 : REAL(fcntl)(fd, command, argument);
}

#define ARGUMENT(command, argument)                                                                \
    va_list rest;                                                                                  \
    va_start(rest, command);                                                                       \
    void *argument = va_arg(rest, void *);                                                         \
    va_end(rest);

int fcntl(int fd, int command, ...) {
    ARGUMENT(command, argument)
    return controlled(fd, command, argument);
}
int fcntl64(int fd, int command, ...) {
    ARGUMENT(command, argument)
    return controlled(fd, command, argument);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t at) {
    if (fd >= 0 ? on_path(MMAP, fd, NULL) : ON_MEMORY(MMAP)) {
        return MAP_FAILED;
    }
    PASSED(void *, REAL(mmap)(address, length, protection, flags, fd, at))
}
void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t at) {
    if (fd >= 0 ? on_path(MMAP, fd, NULL) : ON_MEMORY(MMAP)) {
        return MAP_FAILED;
    }
    PASSED(void *, REAL(mmap)(address, length, protection, flags, fd, at))
}
void *mremap(void *old, size_t length, size_t wanted, int flags, ...) {
    void *new = NULL;
    if (flags & MREMAP_FIXED) {
        va_list rest;
        va_start(rest, flags);
        new = va_arg(rest, void *);
        va_end(rest);
    }
    return ON_MEMORY(MREMAP) ? MAP_FAILED : REAL(mremap)(old, length, wanted, flags, new);
}
int msync(void *address, size_t length, int flags) {
    if (ON_MEMORY(MSYNC)) {
        return -1;
    }
    PASSED(int, REAL(msync)(address, length, flags))
}
int madvise(void *address, size_t length, int advice) {
    return ON_MEMORY(MADVISE) ? -1 : REAL(madvise)(address, length, advice);
}
int mlock(const void *address, size_t length) {
    return ON_MEMORY(MLOCK) ? -1 : REAL(mlock)(address, length);
}
int shm_open(const char *name, int flags, mode_t mode) {
    return on_any(SHM, name) ? -1 : REAL(shm_open)(name, flags, mode);
}
int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                   void *(*function)(void *), void *restrict argument) {
    return on_any(THREAD, "thread") ? errno
                                    : REAL(pthread_create)(thread, attributes, function, argument);
}

/* --- sockets -------------------------------------------------------------------------------- */

int socket(int domain, int type, int protocol) {
    return on_any(SOCKET, "socket") ? -1 : REAL(socket)(domain, type, protocol);
}
int connect(int fd, const struct sockaddr *address, socklen_t length) {
    return on_any(CONNECT, "socket") ? -1 : REAL(connect)(fd, address, length);
}
int bind(int fd, const struct sockaddr *address, socklen_t length) {
    return on_any(BIND, "socket") ? -1 : REAL(bind)(fd, address, length);
}
int accept4(int fd, struct sockaddr *restrict address, socklen_t *restrict length, int flags) {
    return on_any(ACCEPT, "socket") ? -1 : REAL(accept4)(fd, address, length, flags);
}

#define SOCKET_MAY_BE_SHORT(kind, length)                                                          \
    size_t most = length;                                                                          \
    if (on_any(kind, "socket") && (most = allowed(1, length)) == 0) {                              \
        return -1;                                                                                 \
    }

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
    SOCKET_MAY_BE_SHORT(SEND, length)
    return REAL(send)(fd, bytes, most, flags);
}
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    return on_any(SEND, "socket") && shared->cause != 0 ? -1 : REAL(sendmsg)(fd, message, flags);
}
ssize_t recv(int fd, void *bytes, size_t length, int flags) {
    SOCKET_MAY_BE_SHORT(RECV, length)
    return REAL(recv)(fd, bytes, most, flags);
}
int poll(struct pollfd *fds, nfds_t count, int timeout) {
    return on_any(POLL, "socket") ? -1 : REAL(poll)(fds, count, timeout);
}

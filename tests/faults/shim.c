/* Preloaded in front of the C library (LD_PRELOAD), this shim wraps the calls that make bytes
 * durable.
 *
 * On demand it fails the calls of a kind: all of them, those on files whose path has a given part,
 * or those from the n-th one on. On demand it delays them. It counts them. It keeps a shadow: the
 * bytes of each file as last made durable, which a power cut is sure to leave.
 *
 * COMMITLOG_SHIM_STATE: a file of one page, mapped, with the errno, the counter and the delay of
 * each call.
 * COMMITLOG_SHIM_SHADOW: a directory for the shadow, with a file per inode, and `entries-<inode>`
 * with the names in a synced directory. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MSYNC,
    PWRITE,
    FDATASYNC,
    FSYNC,
    FALLOCATE,
    RENAME,
    LINK,
    UNLINK,
    FTRUNCATE,
    FSYNC_DIRECTORY,
    FSYNC_FILE,
    PUNCH,
    CALLS
};
#define KINDS 16

typedef struct {
    int64_t fail[KINDS];   /* errno values; 0 lets the call through */
    uint64_t count[KINDS]; /* calls that were let through */
    uint64_t flushed;      /* bytes in the ranges of msync */
    int64_t delay[KINDS];  /* microseconds before each call; 0 also releases waiting calls */
    int64_t first[KINDS]; /* number of matching calls that succeed before the first failure */
    uint64_t failed[KINDS];
    char name[KINDS][64]; /* only files with this in their path fail; for a rename, old or new */
} state;

typedef struct {
    char *start;
    size_t length;
    ino_t inode;
    off_t offset;
} mapping;

#define MAPPINGS 4096
static mapping mappings[MAPPINGS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static state nothing;
static state *shared = &nothing;
static const char *shadow;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void hold(void) { pthread_mutex_lock(&lock); }
static void let_go(void) { pthread_mutex_unlock(&lock); }

/* Reads the variables: at the start of a process, and in a fork that got others. */
void shim_begin(void) {
    const char *path = getenv("COMMITLOG_SHIM_STATE");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        void *page = REAL(mmap)(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        shared = page == MAP_FAILED ? &nothing : page;
        close(fd);
    }
    shadow = getenv("COMMITLOG_SHIM_SHADOW");
}

__attribute__((constructor)) static void begin(void) {
    /* A forked child gets this lock unlocked. */
    pthread_atfork(hold, let_go, let_go);
    shim_begin();
}

static int concerned(int call, int fd, const char *name) {
    char link[64], path[PATH_MAX] = "";
    const char *part = shared->name[call];
    if (part[0] == 0 || (name != NULL && strstr(name, part) != NULL)) {
        return 1;
    }
    if (name == NULL && fd >= 0) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        path[length < 0 ? 0 : length] = 0;
    }
    return strstr(path, part) != NULL;
}

/* Returns whether the call on a file, by descriptor or name, has to fail; sets errno. */
static int refused_on(int call, int fd, const char *name) {
    int64_t cause = __atomic_load_n(&shared->fail[call], __ATOMIC_ACQUIRE);
    if (cause != 0 && concerned(call, fd, name) &&
        __atomic_fetch_sub(&shared->first[call], 1, __ATOMIC_RELAXED) <= 0) {
        __atomic_fetch_add(&shared->failed[call], 1, __ATOMIC_RELAXED);
        errno = (int)cause;
        return 1;
    }
    __atomic_fetch_add(&shared->count[call], 1, __ATOMIC_RELAXED);
    for (int64_t slept = 0; slept < __atomic_load_n(&shared->delay[call], __ATOMIC_ACQUIRE);
         slept += 1000) {
        usleep(1000);
    }
    return 0;
}

static int refused(int call) { return refused_on(call, -1, NULL); }

/* --- the shadow --- */

/* `whole`: the bytes are the complete file, whose inode may have belonged to another file before.
 */
static void keep(ino_t inode, const char *bytes, size_t length, off_t offset, off_t size,
                 int whole) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%llu", shadow, (unsigned long long)inode);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0 ||
        ((whole || status.st_size < size) && REAL(ftruncate)(fd, size) != 0) ||
        REAL(pwrite)(fd, bytes, length, offset) != (ssize_t)length) {
        abort();
    }
    close(fd);
}

static void keep_directory(int fd, ino_t inode) {
    char path[PATH_MAX], temporary[PATH_MAX];
    snprintf(path, sizeof path, "%s/entries-%llu", shadow, (unsigned long long)inode);
    snprintf(temporary, sizeof temporary, "%s/%d.new", shadow, getpid());
    FILE *out = fopen(temporary, "w");
    DIR *directory = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (out == NULL || directory == NULL) {
        abort();
    }
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (entry->d_type == DT_REG ||
            (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
             strcmp(entry->d_name, "..") != 0)) {
            fprintf(out, "%llu %s\n", (unsigned long long)entry->d_ino, entry->d_name);
        }
    }
    closedir(directory);
    fclose(out);
    if (REAL(rename)(temporary, path) != 0) {
        abort();
    }
}

/* Keeps what a sync of a whole file makes durable. Of directories, only a log's and its subfolders
 * count. */
static void keep_file(int fd) {
    struct stat status;
    if (shadow == NULL || fstat(fd, &status) != 0) {
        return;
    }
    pthread_mutex_lock(&lock);
    if (S_ISDIR(status.st_mode)) {
        if (faccessat(fd, "log.json", F_OK, 0) == 0 || faccessat(fd, "../log.json", F_OK, 0) == 0) {
            keep_directory(fd, status.st_ino);
        }
    } else if (S_ISREG(status.st_mode) && status.st_size > 0) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int readable = open(path, O_RDONLY | O_CLOEXEC);
        char *bytes = REAL(mmap)(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, readable, 0);
        if (bytes == MAP_FAILED) {
            abort();
        }
        keep(status.st_ino, bytes, (size_t)status.st_size, 0, status.st_size, 1);
        REAL(munmap)(bytes, (size_t)status.st_size);
        close(readable);
    }
    pthread_mutex_unlock(&lock);
}

static void keep_range(char *start, size_t length) {
    if (shadow == NULL) {
        return;
    }
    pthread_mutex_lock(&lock);
    for (int index = 0; index < MAPPINGS; index++) {
        const mapping *map = &mappings[index];
        if (map->start != NULL && start >= map->start && start < map->start + map->length) {
            size_t whole = (length + 4095) / 4096 * 4096;
            size_t room = (size_t)(map->start + map->length - start);
            keep(map->inode, start, whole < room ? whole : room, map->offset + (start - map->start),
                 map->offset + (off_t)map->length, 0);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* --- the calls --- */

static void *note_mapping(void *start, size_t length, int flags, int fd, off_t offset) {
    struct stat status;
    if (start == MAP_FAILED || !(flags & MAP_SHARED) || fd < 0 || shadow == NULL ||
        fstat(fd, &status) != 0) {
        return start;
    }
    pthread_mutex_lock(&lock);
    for (int index = 0; index < MAPPINGS; index++) {
        if (mappings[index].start == NULL) {
            mappings[index] = (mapping){start, length, status.st_ino, offset};
            pthread_mutex_unlock(&lock);
            return start;
        }
    }
    abort();
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return note_mapping(REAL(mmap)(address, length, protection, flags, fd, offset), length, flags,
                        fd, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return note_mapping(REAL(mmap)(address, length, protection, flags, fd, offset), length, flags,
                        fd, offset);
}

int munmap(void *address, size_t length) {
    pthread_mutex_lock(&lock);
    for (int index = 0; index < MAPPINGS; index++) {
        if (mappings[index].start == address) {
            mappings[index].start = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
    return REAL(munmap)(address, length);
}

int msync(void *address, size_t length, int flags) {
    if (refused(MSYNC)) {
        return -1;
    }
    if (flags & MS_SYNC) {
        __atomic_fetch_add(&shared->flushed, length, __ATOMIC_RELAXED);
        /* msync guarantees the bytes that the pages hold when it begins. */
        keep_range(address, length);
    }
    return REAL(msync)(address, length, flags);
}

int fsync(int fd) {
    struct stat status;
    int kind = fstat(fd, &status) == 0 && S_ISDIR(status.st_mode) ? FSYNC_DIRECTORY : FSYNC_FILE;
    if (refused_on(kind, fd, NULL) || refused_on(FSYNC, fd, NULL)) {
        return -1;
    }
    keep_file(fd);
    return REAL(fsync)(fd);
}

int fdatasync(int fd) {
    if (refused_on(FDATASYNC, fd, NULL)) {
        return -1;
    }
    keep_file(fd);
    return REAL(fdatasync)(fd);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    return refused_on(PWRITE, fd, NULL) ? -1 : REAL(pwrite)(fd, bytes, length, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset) {
    return pwrite(fd, bytes, length, offset);
}

int posix_fallocate(int fd, off_t offset, off_t length) {
    return refused_on(FALLOCATE, fd, NULL) ? errno : REAL(posix_fallocate)(fd, offset, length);
}

int posix_fallocate64(int fd, off_t offset, off_t length) {
    return posix_fallocate(fd, offset, length);
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
    return refused_on(PUNCH, fd, NULL) ? -1 : REAL(fallocate)(fd, mode, offset, length);
}

int fallocate64(int fd, int mode, off_t offset, off_t length) {
    return fallocate(fd, mode, offset, length);
}

int ftruncate(int fd, off_t length) {
    return refused_on(FTRUNCATE, fd, NULL) ? -1 : REAL(ftruncate)(fd, length);
}

int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }

/* --- names --- */

static int refused_rename(const char *old, const char *new) {
    return refused_on(RENAME, -1, strstr(old, shared->name[RENAME]) != NULL ? old : new);
}

int rename(const char *old, const char *new) {
    return refused_rename(old, new) ? -1 : REAL(rename)(old, new);
}

int renameat(int old_fd, const char *old, int new_fd, const char *new) {
    return refused_rename(old, new) ? -1 : REAL(renameat)(old_fd, old, new_fd, new);
}

int renameat2(int old_fd, const char *old, int new_fd, const char *new, unsigned flags) {
    return refused_rename(old, new) ? -1 : REAL(renameat2)(old_fd, old, new_fd, new, flags);
}

int link(const char *old, const char *new) {
    return refused_on(LINK, -1, new) ? -1 : REAL(link)(old, new);
}

int linkat(int old_fd, const char *old, int new_fd, const char *new, int flags) {
    return refused_on(LINK, -1, new) ? -1 : REAL(linkat)(old_fd, old, new_fd, new, flags);
}

int unlink(const char *name) { return refused_on(UNLINK, -1, name) ? -1 : REAL(unlink)(name); }

int unlinkat(int fd, const char *name, int flags) {
    return refused_on(UNLINK, -1, name) ? -1 : REAL(unlinkat)(fd, name, flags);
}

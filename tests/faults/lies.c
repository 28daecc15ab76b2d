/* Preloaded in front of the C library (LD_PRELOAD), this library lets the calls of some kinds
 * return success without doing anything, as an engine that forgot them. A process chooses the kinds
 * with `lie`; until then, all calls go through. It shows that the checks of the power cuts can
 * fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind = "";

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Chooses the kind: "msync", "fdatasync", "fsync file" or "fsync directory". */
void lie(const char *chosen) { kind = strdup(chosen); }

static int lies(const char *call) { return strcmp(kind, call) == 0; }

int msync(void *address, size_t length, int flags) {
    return lies("msync") ? 0 : REAL(msync)(address, length, flags);
}

int fdatasync(int fd) { return lies("fdatasync") ? 0 : REAL(fdatasync)(fd); }

int fsync(int fd) {
    struct stat status;
    int directory = fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
    return lies(directory ? "fsync directory" : "fsync file") ? 0 : REAL(fsync)(fd);
}

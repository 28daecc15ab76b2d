/* Preloaded in front of the C library (LD_PRELOAD), this shim sets the wall clock; all other clocks
 * run on.
 *
 * COMMITLOG_TEST_CLOCK: a file of eight bytes, mapped, with nanoseconds since 1970; 0 is the real
 * wall clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int64_t nothing;
static const int64_t *shown = &nothing;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("COMMITLOG_TEST_CLOCK");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
        shown = page == MAP_FAILED ? &nothing : page;
        close(fd);
    }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    int64_t now_ns = __atomic_load_n(shown, __ATOMIC_ACQUIRE);
    if (now_ns != 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        *time = (struct timespec){.tv_sec = now_ns / 1000000000, .tv_nsec = now_ns % 1000000000};
        return 0;
    }
    if (real == NULL) {
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    return real(clock, time);
}

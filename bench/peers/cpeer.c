/* Plain system calls: cpeer ROLE DIRECTORY KEY=VALUE...
 *
 * burst, paced: one write() a record. sustained: pwrite of 1 MiB into an allocated file, fdatasync
 * after each 64 MiB. sync: pwrite and fdatasync; overwrite=1: into a file that was written before.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char **settings;
static int fd;
static size_t size;
static char *value;

static double number(const char *name) {
    size_t length = strlen(name);
    for (char **one = settings; *one != NULL; one++) {
        if (strncmp(*one, name, length) == 0 && (*one)[length] == '=') {
            return atof(*one + length + 1);
        }
    }
    return 0;
}

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void must(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static int compare(const void *left, const void *right) {
    long first = *(const long *)left, second = *(const long *)right;
    return (first > second) - (first < second);
}

static void percentiles(long *taken, long count, double per_s) {
    qsort(taken, count, sizeof *taken, compare);
    long last = count - 1;
    printf("{\"p50\": %ld, \"p99\": %ld, \"p999\": %ld, \"per_s\": %f}\n", taken[last / 2],
           taken[(long)(last * .99)], taken[(long)(last * .999)], per_s);
}

static void burst(void) {
    long records = (long)number("records"), bursts = (long)number("bursts"), each[bursts];
    for (long b = -(long)number("warm"); b < bursts; b++) {
        long began = now();
        for (long i = 0; i < records; i++) {
            must(write(fd, value, size) == (ssize_t)size, "write");
        }
        if (b >= 0) {
            each[b] = now() - began;
        }
        must(fdatasync(fd) == 0, "fdatasync");
        usleep(10000);
    }
    qsort(each, bursts, sizeof *each, compare);
    printf("{\"ns\": %f}\n", each[bursts / 2] / (double)records);
}

static void pace(double rate, long *taken, long count) {
    long began = now() + 50000000L;
    for (long i = 0; i < count; i++) {
        long due = began + (long)(i * (1e9 / rate));
        while (now() < due) {
        }
        must(write(fd, value, size) == (ssize_t)size, "write");
        taken[i] = now() - due;
    }
}

static void paced(void) {
    double rate = number("rate");
    long warm = (long)(rate * number("warm_ms") / 1000), count = (long)(rate * number("ms") / 1000);
    long *taken = malloc((warm + count) * sizeof *taken);
    must(taken != NULL, "malloc");
    memset(taken, 1, (warm + count) * sizeof *taken);
    pace(rate, taken, warm);
    pace(rate, taken, count);
    percentiles(taken, count, 0);
}

static void sustained(void) {
    long piece = 1 << 20, total = (long)number("bytes") / piece * piece;
    char *bytes = malloc(piece);
    must(bytes != NULL, "malloc");
    memset(bytes, 7, piece);
    must(posix_fallocate(fd, 0, total) == 0, "posix_fallocate");
    long began = now();
    for (long at = 0; at < total; at += piece) {
        must(pwrite(fd, bytes, piece, at) == piece, "pwrite");
        if ((at + piece) % (64 * piece) == 0 || at + piece == total) {
            must(fdatasync(fd) == 0, "fdatasync");
        }
    }
    printf("{\"mb_s\": %f}\n", total * 1e3 / (now() - began));
}

static void sync_appends(void) {
    long room = 64 << 20, at = 0, count = 0, most = 1 << 20;
    long *taken = malloc(most * sizeof *taken);
    must(taken != NULL, "malloc");
    if (number("overwrite") != 0) {
        char *zeros = calloc(1, room);
        must(zeros != NULL && pwrite(fd, zeros, room, 0) == room, "pwrite");
        must(fdatasync(fd) == 0, "fdatasync");
    }
    double seconds = number("ms") / 1e3;
    for (long began = now(), end = began + (long)(seconds * 1e9); began < end && count < most;) {
        must(pwrite(fd, value, size, at) == (ssize_t)size, "pwrite");
        must(fdatasync(fd) == 0, "fdatasync");
        at = at + 2 * (long)size > room ? 0 : at + (long)size;
        long ended = now();
        taken[count++] = ended - began;
        began = ended;
    }
    percentiles(taken, count, count / seconds);
}

int main(int count, char **arguments) {
    if (count < 4) {
        return 2;
    }
    settings = arguments + 3;
    size = (size_t)number("size");
    value = malloc(size);
    must(value != NULL, "malloc");
    for (size_t i = 0; i < size; i++) {
        value[i] = (char)(i * 2654435761u >> 13);
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/file", arguments[2]);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(fd >= 0, path);
    static const struct {
        const char *name;
        void (*run)(void);
    } roles[] = {
        {"burst", burst}, {"paced", paced}, {"sustained", sustained}, {"sync", sync_appends}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(arguments[1], roles[i].name) == 0) {
            roles[i].run();
            return 0;
        }
    }
    return 2;
}

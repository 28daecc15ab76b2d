/* The C API: append to an open log and read from it in C, without the interpreter's lock.
 *
 * Compile with the include directory that `commitlog.get_include()` returns, and call
 * commitlog_import() once. docs/c-api.md explains the rules and has an example.
 *
 * Functions marked [lock] require the interpreter's lock; all others may be called with or without
 * it. If one needs the interpreter, for instance to bring the next segment, it takes the lock
 * itself. One thread at a time uses a handle. */
#ifndef COMMITLOG_CAPI_H
#define COMMITLOG_CAPI_H

#include <Python.h>
#include <stdint.h>

/* Raised when a function is added at the end of commitlog_api. */
#define COMMITLOG_API_VERSION 2u
#define COMMITLOG_API_CAPSULE "commitlog._kernel.readers.api"

#define COMMITLOG_OK 0
#define COMMITLOG_END 1     /* no record to read yet, or the log is closed */
#define COMMITLOG_DROPPED 2 /* not appended: a required tailer is too far behind, on_lag="drop" */
#define COMMITLOG_ERROR (-1) /* the handle keeps an exception: see `raise_error` */

#define COMMITLOG_NO_KEY UINT32_MAX

typedef struct commitlog_appender commitlog_appender;
typedef struct commitlog_reader commitlog_reader;

typedef struct {
    const void *value;
    const void *key;
    uint32_t value_length;
    uint32_t key_length; /* COMMITLOG_NO_KEY: no key */
    uint32_t type;
    int64_t timestamp_ns; /* since 1970; below 0: the clock's time */
} commitlog_input;

/* Room for one record, reserved in the log. */
typedef struct {
    void *value; /* write here, up to `size` bytes, until `publish` or `abandon` */
    uint32_t size;
    uint64_t position;
    uint64_t reserved[8];
} commitlog_claim;

/* Value and key lead into the mapped segment. They are valid until the next call with the reader.
 */
typedef struct {
    uint64_t position;
    int64_t timestamp_ns;
    const uint8_t *key; /* NULL: no key */
    const uint8_t *value;
    uint32_t key_length;
    uint32_t value_length;
    uint32_t type;
} commitlog_record;

typedef struct {
    uint32_t version;

    /* [lock] An appender of a `CommitLog` that is open for appending; NULL with an exception set.
     * Until it is closed, the log's own Python methods raise InUseError if they append. A
     * mapped log may be opened several times: one handle for each thread that appends. */
    commitlog_appender *(*appender_open)(PyObject *log);
    /* [lock] Ends the appender. Abandon open claims before. */
    void (*appender_close)(commitlog_appender *appender);
    /* Appends one record. It is durable after the next flush, as in Python without `sync`. */
    int (*append)(commitlog_appender *appender, const commitlog_input *input, uint64_t *position);
    /* Reserves room for input->value_length bytes; input->value is ignored, and input->key must
     * stay valid until `publish`. A claim that is open for longer than the log's `claim_timeout`
     * may be rolled back by other processes. */
    int (*claim)(commitlog_appender *appender, const commitlog_input *input,
                 commitlog_claim *claim);
    /* Publishes the first `size` bytes of the claim as the record's value. */
    int (*publish)(commitlog_appender *appender, commitlog_claim *claim, uint32_t size);
    void (*abandon)(commitlog_appender *appender, commitlog_claim *claim);
    /* [lock] Raises the exception of the last COMMITLOG_ERROR and returns NULL. */
    PyObject *(*appender_raise)(commitlog_appender *appender);

    /* [lock] A reader that continues at the position of a `Tailer`, forward; NULL with an exception
     * set. Until it is closed, the tailer's own methods raise InUseError. */
    commitlog_reader *(*reader_open)(PyObject *tailer);
    /* [lock] Ends the reader. The tailer continues behind the last record that was read. */
    void (*reader_close)(commitlog_reader *reader);
    /* Reads the next record: COMMITLOG_OK, COMMITLOG_END or COMMITLOG_ERROR. The position of a
     * named tailer is saved up to the record before. */
    int (*next)(commitlog_reader *reader, commitlog_record *record);
    /* Waits up to timeout_ns for a record: COMMITLOG_OK if `next` may find one, COMMITLOG_END. */
    int (*wait)(commitlog_reader *reader, int64_t timeout_ns);
    /* [lock] As appender_raise. */
    PyObject *(*reader_raise)(commitlog_reader *reader);

    /* Of version 2. */
    /* [lock] As append, with headers: a mapping of str to bytes, or None. */
    int (*append_named)(commitlog_appender *appender, const commitlog_input *input,
                        PyObject *headers, uint64_t *position);
    /* [lock] Returns the headers of the record that `next` returned last, a new dict of str to
     * bytes; NULL with an exception set. */
    PyObject *(*reader_headers)(commitlog_reader *reader, const commitlog_record *record);
} commitlog_api;

/* [lock] Returns the functions; NULL with an exception set. */
static inline const commitlog_api *commitlog_import(void) {
    const commitlog_api *api = (const commitlog_api *)PyCapsule_Import(COMMITLOG_API_CAPSULE, 0);
    if (api != NULL && api->version < COMMITLOG_API_VERSION) {
        PyErr_Format(PyExc_ImportError,
                     "commitlog has version %u of its C API, and this extension needs %u: install "
                     "a newer commitlog-engine",
                     api->version, COMMITLOG_API_VERSION);
        return NULL;
    }
    return api;
}

#endif

/* An extension that appends and reads through commitlog's C API, in threads of its own.
 *
 *     ticks.produce(log, count) -> float     appends `count` ticks; seconds that it took
 *     ticks.consume(tailer, count) -> (float, float)   sums the prices of `count` ticks; seconds */
#define PY_SSIZE_T_CLEAN
#include <commitlog/capi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

static const commitlog_api *api;

typedef struct {
    uint64_t number;
    double price;
    uint8_t padding[24]; /* a tick is 40 bytes */
} tick_record;

typedef struct {
    commitlog_appender *appender;
    commitlog_reader *reader;
    uint64_t count;
    double sum;
    double seconds;
    int code;
} work;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *produce(void *argument) {
    work *task = argument;
    tick_record next = {0};
    uint64_t position;
    commitlog_input input = {.value = &next,
                             .value_length = sizeof next,
                             .key_length = COMMITLOG_NO_KEY,
                             .timestamp_ns = -1};
    double began = now();
    for (; next.number < task->count && task->code == COMMITLOG_OK; next.number++) {
        next.price = 100.0 + (double)(next.number % 16);
        task->code = api->append(task->appender, &input, &position);
    }
    task->seconds = now() - began;
    return NULL;
}

static void *consume(void *argument) {
    work *task = argument;
    commitlog_record record;
    double began = now();
    for (uint64_t seen = 0; seen < task->count;) {
        task->code = api->next(task->reader, &record);
        if (task->code == COMMITLOG_END) {
            task->code = api->wait(task->reader, 1000000000);
        } else if (task->code == COMMITLOG_OK && record.value_length == sizeof(tick_record)) {
            double price;
            memcpy(&price, record.value + offsetof(tick_record, price), sizeof price);
            task->sum += price;
            seen++;
        }
        if (task->code == COMMITLOG_ERROR) {
            break;
        }
    }
    task->seconds = now() - began;
    return NULL;
}

/* Runs a task in a thread without interpreter state. */
static bool run(void *(*task)(void *), work *with) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, task, with) != 0) {
        PyErr_SetString(PyExc_RuntimeError, "no thread could be started");
        return false;
    }
    PyThreadState *state = PyEval_SaveThread();
    pthread_join(thread, NULL);
    PyEval_RestoreThread(state);
    return true;
}

static PyObject *ticks_produce(PyObject *self, PyObject *arguments) {
    PyObject *log;
    work task = {0};
    if (!PyArg_ParseTuple(arguments, "OK", &log, &task.count)) {
        return NULL;
    }
    task.appender = api->appender_open(log);
    if (task.appender == NULL) {
        return NULL;
    }
    PyObject *result = NULL;
    if (run(produce, &task)) {
        result = task.code == COMMITLOG_ERROR ? api->appender_raise(task.appender)
                                              : PyFloat_FromDouble(task.seconds);
    }
    api->appender_close(task.appender);
    return result;
}

static PyObject *ticks_consume(PyObject *self, PyObject *arguments) {
    PyObject *tailer;
    work task = {0};
    if (!PyArg_ParseTuple(arguments, "OK", &tailer, &task.count)) {
        return NULL;
    }
    task.reader = api->reader_open(tailer);
    if (task.reader == NULL) {
        return NULL;
    }
    PyObject *result = NULL;
    if (run(consume, &task)) {
        result = task.code == COMMITLOG_ERROR ? api->reader_raise(task.reader)
                                              : Py_BuildValue("(dd)", task.sum, task.seconds);
    }
    api->reader_close(task.reader);
    return result;
}

static PyMethodDef methods[] = {
    {"produce", ticks_produce, METH_VARARGS, "produce(log, count): append ticks."},
    {"consume", ticks_consume, METH_VARARGS, "consume(tailer, count): sum the prices of ticks."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "ticks", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_ticks(void) {
    api = commitlog_import();
    return api == NULL ? NULL : PyModule_Create(&module);
}

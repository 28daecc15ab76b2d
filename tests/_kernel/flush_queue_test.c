/* threads */
/* The queue of the threads that wait for a flush: which of them is called, and when. */
#include "scene.h"

#include "flush_queue.h"

#define THREADS 8
#define APPENDS 300

static void join(cl_flush_queue *queue, cl_flush_waiter *waiters, uint32_t count) {
    CHECK(cl_flush_queue_init(queue));
    for (uint32_t index = 0; index < count; index++) {
        cl_flush_queue_join(queue, &waiters[index], 10 + index);
    }
}

static void served_threads_are_called_one_by_one_in_order(void) {
    cl_flush_queue queue;
    cl_flush_waiter waiters[4], again;
    join(&queue, waiters, 4);
    CHECK(waiters[0].role == CL_FLUSH_HEADS && waiters[1].role == CL_FLUSH_WAITS);
    cl_flush_queue_leave(&queue, &waiters[0], 13);
    CHECK(queue.head == NULL && waiters[1].role == CL_FLUSH_WAITS);
    cl_flush_queue_pass_on(&queue);
    cl_flush_queue_pass_on(&queue); /* another thread is called already */
    CHECK(waiters[1].role == CL_FLUSH_CALLED && waiters[2].role == CL_FLUSH_WAITS);
    cl_flush_queue_join(&queue, &again, 20); /* the first thread waits again */
    CHECK(waiters[1].role == CL_FLUSH_RETURNS && waiters[2].role == CL_FLUSH_CALLED &&
          again.role == CL_FLUSH_HEADS);
    cl_flush_queue_leave(&queue, &waiters[1], 13);
    cl_flush_queue_leave(&queue, &waiters[2], 13); /* spins in vain */
    CHECK(queue.called == NULL && waiters[3].role == CL_FLUSH_WAITS);
    cl_flush_queue_pass_on(&queue);
    CHECK(waiters[3].role == CL_FLUSH_CALLED);
    cl_flush_queue_leave(&queue, &waiters[3], 13);
    cl_flush_queue_leave(&queue, &again, 20);
    CHECK(queue.waiting.next == &queue.waiting && queue.served.next == &queue.served);
}

/* Only the first waiter that the flush did not serve is called, to lead the next one. */
static void next_head_is_the_first_waiter_not_served(void) {
    cl_flush_queue queue;
    cl_flush_waiter waiters[5];
    join(&queue, waiters, 5);
    cl_flush_queue_leave(&queue, &waiters[0], 12);
    CHECK(waiters[3].role == CL_FLUSH_HEADS && queue.head == &waiters[3]);
    CHECK(waiters[1].role == CL_FLUSH_WAITS && waiters[2].role == CL_FLUSH_WAITS &&
          waiters[4].role == CL_FLUSH_WAITS);
    cl_flush_queue_leave(&queue, &waiters[3], 12); /* its time has passed */
    CHECK(waiters[4].role == CL_FLUSH_HEADS);
}

/* A head that another leader's flush did not serve goes on waiting. */
static void waiting_head_lets_served_threads_return(void) {
    cl_flush_queue queue;
    cl_flush_waiter waiters[3];
    join(&queue, waiters, 3);
    waiters[0].upto = 100;
    cl_flush_queue_serve(&queue, 12);
    CHECK(waiters[0].role == CL_FLUSH_HEADS && waiters[1].role == CL_FLUSH_CALLED);
    cl_flush_queue_leave(&queue, &waiters[1], 12);
    cl_flush_queue_pass_on(&queue);
    CHECK(waiters[2].role == CL_FLUSH_CALLED);
}

/* A thread whose time has passed leaves from wherever it is, and is not called later. */
static void threads_that_leave_early_are_not_called(void) {
    cl_flush_queue queue;
    cl_flush_waiter waiters[4];
    join(&queue, waiters, 4);
    cl_flush_queue_leave(&queue, &waiters[2], 0);
    cl_flush_queue_leave(&queue, &waiters[0], 11); /* serves the second, calls the fourth */
    CHECK(waiters[3].role == CL_FLUSH_HEADS);
    cl_flush_queue_leave(&queue, &waiters[1], 11);
    cl_flush_queue_pass_on(&queue);
    CHECK(queue.called == NULL && waiters[1].role == CL_FLUSH_WAITS &&
          waiters[2].role == CL_FLUSH_WAITS);
}

static void fruitless_spins_become_rare(void) {
    cl_flush_queue queue;
    CHECK(cl_flush_queue_init(&queue));
    uint32_t spins = 0;
    for (int turn = 0; turn < 400; turn++) {
        cl_flush_waiter waiters[2];
        cl_flush_queue_join(&queue, &waiters[0], 1);
        cl_flush_queue_join(&queue, &waiters[1], 1);
        cl_flush_queue_leave(&queue, &waiters[0], 1);
        cl_flush_queue_pass_on(&queue);
        CHECK(waiters[1].role == CL_FLUSH_CALLED);
        spins += queue.rests == 0;
        cl_flush_queue_leave(&queue, &waiters[1], 1); /* no thread joins meanwhile */
    }
    CHECK(spins >= 6 && spins <= 12 && queue.in_vain == 63);
}

typedef struct {
    test_scene *scene;
    pthread_mutex_t *lock; /* the interpreter's */
    uint64_t seed;
} test_appender;

/* Appends and waits in a loop, as threads of Python do, some of them with a short deadline. */
static void *append_durably(void *argument) {
    test_appender *appender = argument;
    cl_log *log = &appender->scene->handle.log;
    for (int index = 0; index < APPENDS; index++) {
        pthread_mutex_lock(appender->lock);
        append_value(&appender->scene->handle, "value", 5);
        uint64_t end = tail_position(appender->scene);
        pthread_mutex_unlock(appender->lock);
        int code = CL_E_TIMEOUT;
        while (code == CL_E_TIMEOUT) { /* `PATIENCE_NS` bounds the last kind of wait */
            bool hasty = next_random(&appender->seed) % 4 == 0;
            code = cl_flush(log, end, deadline(hasty ? MILLISECOND / 20 : PATIENCE_NS));
            CHECK(code == CL_OK || (hasty && code == CL_E_TIMEOUT));
            pthread_mutex_lock(appender->lock);
            cl_flush_pass_on(log);
            pthread_mutex_unlock(appender->lock);
        }
        CHECK(cl_load(&log->cursors->flushed.value) >= cl_log_downward(log, end));
    }
    return NULL;
}

static void each_of_many_threads_returns_durable(void) {
    test_scene scene;
    pthread_t threads[THREADS];
    test_appender appenders[THREADS];
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    start_sized(&scene, 4 * SMALL, false, 0);
    for (uint32_t index = 0; index < THREADS; index++) {
        appenders[index] = (test_appender){.scene = &scene, .lock = &lock, .seed = 100 + index};
        CHECK(pthread_create(&threads[index], NULL, append_durably, &appenders[index]) == 0);
    }
    for (uint32_t index = 0; index < THREADS; index++) {
        pthread_join(threads[index], NULL);
    }
    cl_flush_queue *queue = &scene.handle.log.flush_queue;
    CHECK(queue->head == NULL && queue->called == NULL && queue->waiting.next == &queue->waiting &&
          queue->served.next == &queue->served);
    end(&scene);
}

int main(void) {
    served_threads_are_called_one_by_one_in_order();
    next_head_is_the_first_waiter_not_served();
    waiting_head_lets_served_threads_return();
    threads_that_leave_early_are_not_called();
    fruitless_spins_become_rare();
    each_of_many_threads_returns_durable();
    return 0;
}

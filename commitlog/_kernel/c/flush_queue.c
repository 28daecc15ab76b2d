#include "flush_queue.h"

#include "futex.h"

#define SPIN_NS 20000ll /* a thread that appends in a loop waits again after 3 to 10 us */
#define PAUSES_PER_LOOK 8
#define RESTS_MOST 63u

static void list_init(cl_flush_waiter *node) { node->next = node->previous = node; }

static void list_remove(cl_flush_waiter *node) {
    node->next->previous = node->previous;
    node->previous->next = node->next;
    list_init(node);
}

static void list_append(cl_flush_waiter *list, cl_flush_waiter *node) {
    cl_assert(node->next == node, ==, true);
    node->next = list;
    node->previous = list->previous;
    list->previous->next = node;
    list->previous = node;
}

/* Returns the word on which the waiter sleeps, for `wake` after the mutex is released. By then the
 * waiter may have returned: a wake-up has no effect then. */
static const uint32_t *call(cl_flush_waiter *waiter, enum cl_flush_role role) {
    cl_assert(cl_load32(&waiter->role), ==, CL_FLUSH_WAITS);
    cl_store32(&waiter->role, role);
    return &waiter->role;
}

static void wake(const uint32_t *word) {
    if (word != NULL) {
        cl_futex_wake_private(word);
    }
}

/* Under the mutex: a thread waits exactly if one heads the queue. */
static void assert_headed(const cl_flush_queue *queue) {
    cl_assert(queue->head == NULL, ==, queue->waiting.next == &queue->waiting);
    cl_assert(queue->called == NULL || cl_load32(&queue->called->role) == CL_FLUSH_CALLED, ==,
              true);
}

static const uint32_t *call_served(cl_flush_queue *queue) {
    cl_flush_waiter *waiter = queue->served.next;
    cl_assert(queue->called == NULL, ==, true);
    if (waiter == &queue->served) {
        return NULL;
    }
    list_remove(waiter);
    queue->called = waiter;
    return call(waiter, CL_FLUSH_CALLED);
}

static void serve(cl_flush_queue *queue, uint64_t flushed) {
    cl_flush_waiter *waiter = queue->waiting.next;
    while (waiter != &queue->waiting) { /* each round passes one waiter */
        cl_flush_waiter *next = waiter->next;
        if (waiter->upto <= flushed && waiter != queue->head) {
            list_remove(waiter);
            list_append(&queue->served, waiter);
        }
        waiter = next;
    }
}

bool cl_flush_queue_init(cl_flush_queue *queue) {
    queue->head = queue->called = NULL;
    queue->in_vain = queue->rests = 0;
    list_init(&queue->waiting);
    list_init(&queue->served);
    return pthread_mutex_init(&queue->mutex, NULL) == 0;
}

void cl_flush_queue_join(cl_flush_queue *queue, cl_flush_waiter *waiter, uint64_t upto) {
    list_init(waiter);
    waiter->upto = upto;
    waiter->role = CL_FLUSH_WAITS;
    pthread_mutex_lock(&queue->mutex);
    list_append(&queue->waiting, waiter);
    if (queue->head == NULL) {
        queue->head = waiter;
        waiter->role = CL_FLUSH_HEADS;
    }
    if (queue->called != NULL) {
        cl_store32(&queue->called->role, CL_FLUSH_RETURNS);
        queue->called = NULL;
    }
    const uint32_t *word = call_served(queue);
    assert_headed(queue);
    pthread_mutex_unlock(&queue->mutex);
    wake(word);
}

int cl_flush_queue_wait(cl_flush_waiter *waiter, int64_t timeout_ns) {
    return cl_futex_wait_private(&waiter->role, CL_FLUSH_WAITS, timeout_ns);
}

void cl_flush_queue_serve(cl_flush_queue *queue, uint64_t flushed) {
    pthread_mutex_lock(&queue->mutex);
    serve(queue, flushed);
    assert_headed(queue);
    pthread_mutex_unlock(&queue->mutex);
    cl_flush_queue_pass_on(queue);
}

/* Returns whether another thread joined meanwhile. */
static bool spin(const cl_flush_waiter *waiter) {
    int64_t until_ns = cl_clock_monotonic_ns() + SPIN_NS;
    while (cl_load32(&waiter->role) == CL_FLUSH_CALLED) {
        if (cl_clock_monotonic_ns() >= until_ns) {
            return false;
        }
        for (int pause = 0; pause < PAUSES_PER_LOOK; pause++) {
            cl_pause();
        }
    }
    return true;
}

/* While the thread before this one runs Python code, it has the interpreter's lock. A sleep until
 * that lock is free costs more than a short spin here. */
static void take_turn(cl_flush_queue *queue, const cl_flush_waiter *waiter) {
    bool rests = cl_load32(&queue->rests) != 0;
    bool useful = !rests && spin(waiter);
    pthread_mutex_lock(&queue->mutex);
    if (queue->called == waiter) {
        queue->called = NULL;
    }
    if (rests && queue->rests != 0) {
        cl_store32(&queue->rests, queue->rests - 1);
    } else if (!rests) {
        queue->in_vain = useful                         ? 0
                         : queue->in_vain >= RESTS_MOST ? RESTS_MOST
                                                        : 2 * queue->in_vain + 1;
        cl_store32(&queue->rests, queue->in_vain);
    }
    cl_assert(queue->rests, <=, RESTS_MOST);
    pthread_mutex_unlock(&queue->mutex);
}

void cl_flush_queue_leave(cl_flush_queue *queue, cl_flush_waiter *waiter, uint64_t flushed) {
    const uint32_t *word = NULL;
    pthread_mutex_lock(&queue->mutex);
    list_remove(waiter);
    if (queue->head == waiter) {
        queue->head = NULL;
        serve(queue, flushed);
        if (queue->waiting.next != &queue->waiting) {
            queue->head = queue->waiting.next;
            word = call(queue->head, CL_FLUSH_HEADS);
        }
    }
    bool called = queue->called == waiter;
    cl_assert(queue->head != waiter, ==, true);
    assert_headed(queue);
    pthread_mutex_unlock(&queue->mutex);
    wake(word);
    if (called) {
        take_turn(queue, waiter);
    }
}

void cl_flush_queue_pass_on(cl_flush_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    const uint32_t *word = queue->called == NULL ? call_served(queue) : NULL;
    pthread_mutex_unlock(&queue->mutex);
    wake(word);
}

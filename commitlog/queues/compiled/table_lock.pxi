# The lock of the table, and sleep and wake-up of workers: `table_lock.h`.

cdef extern from "table_lock.h" nogil:
    enum:
        CLQ_LOCKED, CLQ_TAKEN_OVER, CLQ_STALLED

    bint clq_try_lock(clq_table *table, uint32_t mine)
    int clq_await_lock(clq_table *table, uint32_t mine, int fd)
    void clq_unlock(clq_table *table)
    uint32_t clq_lock_pid(const clq_table *table)
    bint clq_is_dead(int fd, uint32_t worker)
    void clq_sleep(clq_table *table, uint32_t seen, int64_t timeout_ns)
    void clq_wake(clq_table *table, int workers)
    bint clq_watch(clq_table *table, uint32_t mine, int fd)
    void clq_unwatch(clq_table *table, uint32_t mine)

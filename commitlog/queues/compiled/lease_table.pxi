# Declarations of `lease_table.h`.

cdef extern from "lease_table.h" nogil:
    enum:
        CLQ_SLOTS, CLQ_WORKERS, CLQ_IDENTITY, CLQ_NONE
        CLQ_FREE, CLQ_AVAILABLE, CLQ_ACQUIRED, CLQ_ACCEPTING, CLQ_WAITING
        CLQ_PENDING, CLQ_SUSPECT, CLQ_DYING, CLQ_AGAIN, CLQ_LEASE_ENDED, CLQ_WORKER_DIED

    ctypedef enum clq_limit "enum clq_limit":
        CLQ_UNLIMITED

    ctypedef struct clq_slot:
        uint64_t word, key, print
        int64_t start, position, stop, until_ns, taken_ns, history, noted_from
        uint32_t cause

    ctypedef struct clq_worker:
        uint32_t generation, pid, acquired
        int64_t since_ns
        uint64_t turns

    ctypedef struct clq_terms:
        int64_t lease_ns
        uint32_t attempts_most, in_flight, worker_in_flight, ordered

    ctypedef struct clq_table:
        uint8_t identity[1]
        uint64_t instance
        uint32_t ready, sleepers, watcher, paused, terms_version, oldest
        uint32_t available, waiting, acquired, unfinished
        uint64_t top_print, taken, accepted, released, expired, orphaned, dead
        int64_t scan, suspect_below, top, base, noted
        clq_terms terms
        clq_worker workers[1]
        uint32_t waiting_heap[1]
        clq_slot slots[1]

    ctypedef struct clq_found:
        int64_t start, position, stop
        uint64_t key, print

    ctypedef struct clq_lease:
        uint32_t slot, ticket

    clq_slot *clq_slot_at(const clq_table *table, uint32_t index)
    uint32_t clq_state_of(uint64_t word)
    uint32_t clq_flags_of(uint64_t word)
    uint32_t clq_worker_of(uint64_t word)
    uint32_t clq_attempt_of(uint64_t word)
    bint clq_take_turn(clq_table *table, uint64_t instance, uint32_t worker, uint64_t *turns)
    bint clq_is_held(const clq_table *table, clq_lease lease, uint32_t worker)
    bint clq_is_accepting(const clq_table *table, clq_lease lease, uint32_t worker)
    void clq_format(clq_table *table, int64_t scan, const clq_terms *terms)
    void clq_rebuild(clq_table *table)
    uint32_t clq_wake_due(clq_table *table, int64_t now_ns)
    uint32_t clq_expire(clq_table *table, int64_t now_ns)
    uint32_t clq_orphan(
        clq_table *table, uint32_t worker, clq_lease *accepting, uint32_t most, uint32_t *found
    )
    void clq_adopt(clq_table *table, uint32_t slot, uint32_t worker)
    uint32_t clq_acquire(
        clq_table *table, uint32_t worker, uint32_t most, int64_t now_ns, bint purges,
        clq_lease *leases, clq_limit *limit
    )
    int64_t clq_add(
        clq_table *table, int64_t start, int64_t stop, const clq_found *found, uint32_t count,
        const clq_found *last
    )
    bint clq_restore(
        clq_table *table, const clq_found *found, uint32_t attempt, int64_t until_ns,
        int64_t history, uint32_t flags
    )
    void clq_confirm(clq_table *table, clq_lease lease)
    void clq_begin_accept(clq_table *table, clq_lease lease, int64_t noted_from)
    void clq_undo_accept(clq_table *table, clq_lease lease)
    void clq_finish(clq_table *table, uint32_t slot)
    void clq_release(clq_table *table, clq_lease lease, int64_t until_ns, bint tried)
    void clq_renew(clq_table *table, clq_lease lease, int64_t now_ns)
    void clq_doom(clq_table *table, clq_lease lease)
    int64_t clq_low(const clq_table *table)

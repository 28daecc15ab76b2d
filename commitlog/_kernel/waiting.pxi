# Sleeping until another thread or process changes a log, and waking those that sleep.


cdef int64_t nanoseconds(double seconds) noexcept:
    """Convert a duration for the kernel. More than a century, or NaN, becomes a century."""
    if seconds <= 0:
        return 0
    return <int64_t>(seconds * 1e9) if seconds < 3e9 else 3_000_000_000_000_000_000


def wait_event(Core core not None, uint32_t seen, double timeout):
    """Sleep until the event word differs from `seen` (a segment was entered or drained), or
    `timeout` seconds; the word.
    """
    cdef int64_t timeout_ns = nanoseconds(timeout)
    with nogil:
        cl_futex_wait(&core.log.event, seen, timeout_ns)
    return core.log.event


def raise_event(Core core not None):
    """End every `wait_event` on this handle."""
    cl_futex_raise(&core.log.event)


def announce_sleeper(Core core not None):
    """Announce a sleeper: every publish that a later poll does not see ends `wait_append`, which
    takes the returned value.
    """
    return cl_sleeper_announce(core.cursors.cells) if core.append_signal() != NULL else 0


def wait_append(Core core not None, uint32_t seen, double timeout):
    """Sleep until an append, or `timeout` seconds; the full timeout if there is no signal."""
    cdef int64_t timeout_ns = nanoseconds(timeout)
    cdef uint32_t *signal = core.append_signal()
    with nogil:
        if signal == NULL:
            cl_sleep_ns(timeout_ns)
        else:
            cl_futex_wait(signal, seen, timeout_ns)


def flush_signal(Core core not None):
    """The word for `wait_flush`: take it before reading the flushed position."""
    cdef uint32_t *signal = core.flush_signal()
    return 0 if signal == NULL else cl_load32(signal)


def wait_flush(Core core not None, uint32_t seen, double timeout):
    """Sleep until a flush ends, or `timeout` seconds; the full timeout if there is no signal."""
    cdef int64_t timeout_ns = nanoseconds(timeout)
    cdef uint32_t *signal = core.flush_signal()
    with nogil:
        if signal == NULL:
            cl_sleep_ns(timeout_ns)
        else:
            cl_futex_wait(signal, seen, timeout_ns)


def wake_sleepers(Core core not None):
    """End every `wait_append` on this log; waiters in other processes poll once without a result.
    """
    cdef uint32_t *signal = core.append_signal()
    if signal != NULL:
        cl_futex_raise(signal)

# Sleeping until another thread or process changes a log, and waking those that sleep.


cdef int64_t nanoseconds(double seconds) noexcept:
    """Convert a duration for the kernel. More than a century, or NaN, becomes a century."""
    if seconds <= 0:
        return 0
    return <int64_t>(seconds * 1e9) if seconds < 3e9 else 3_000_000_000_000_000_000


cdef uint32_t *append_word(Core core) noexcept:
    """The futex through which appends wake sleepers. NULL if this handle cannot announce a sleeper,
    or if its cursors are still a stand-in.
    """
    if not (core.cursors.shared and core.cursors.writable):
        return NULL
    return <uint32_t *>&core.cursors.cells.append_signal.value


cdef uint32_t *flush_word(Core core) noexcept:
    """The futex that each flush raises. NULL if the cursors are still a stand-in."""
    if not core.cursors.shared:
        return NULL
    return <uint32_t *>&core.cursors.cells.flush_signal.value


cdef uint32_t *copied_word(Core core) noexcept:
    """The futex that is raised when the copies of a log have more."""
    return <uint32_t *>&core.cursors.cells.replicated_signal.value


cdef void sleep_on(uint32_t *word, uint32_t seen, double timeout) noexcept:
    """Sleep until a word is raised, or `timeout` seconds; the full timeout if it is NULL."""
    cdef int64_t timeout_ns = nanoseconds(timeout)
    with nogil:
        if word == NULL:
            cl_sleep_ns(timeout_ns)
        else:
            cl_futex_wait(word, seen, timeout_ns)


def wait_event(Core core not None, uint32_t seen, double timeout):
    """Sleep until the event word differs from `seen` (a segment was entered or drained), or
    `timeout` seconds; the word.
    """
    sleep_on(&core.log.event, seen, timeout)
    return core.log.event


def raise_event(Core core not None):
    """End every `wait_event` on this handle."""
    cl_futex_raise(&core.log.event)


def announce_sleeper(Core core not None):
    """Announce a sleeper: every publish that a later poll does not see ends `wait_append`, which
    takes the returned value.
    """
    return cl_sleeper_announce(core.cursors.cells) if append_word(core) != NULL else 0


def wait_append(Core core not None, uint32_t seen, double timeout):
    """Sleep until an append, or `timeout` seconds; the full timeout if there is no signal."""
    cdef int64_t timeout_ns = nanoseconds(timeout)
    if append_word(core) == NULL:
        sleep_on(NULL, seen, timeout)
        return
    with nogil:
        cl_sleeper_wait(core.cursors.cells, seen, timeout_ns)


def flush_signal(Core core not None):
    """The word for `wait_flush`: take it before reading the flushed position."""
    cdef uint32_t *signal = flush_word(core)
    return 0 if signal == NULL else cl_load32(signal)


def wait_flush(Core core not None, uint32_t seen, double timeout):
    """Sleep until a flush ends, or `timeout` seconds; the full timeout if there is no signal."""
    sleep_on(flush_word(core), seen, timeout)


def copied_signal(Core core not None):
    """The word for `wait_copied`: take it before reading how far the copies are."""
    return cl_load32(copied_word(core))


def wait_copied(Core core not None, uint32_t seen, double timeout):
    """Sleep until the copies have more, or `timeout` seconds."""
    sleep_on(copied_word(core), seen, timeout)


def wake_sleepers(Core core not None):
    """End every `wait_append` on this log; waiters in other processes poll once without a result.
    """
    cdef uint32_t *signal = append_word(core)
    if signal != NULL:
        cl_futex_raise(signal)

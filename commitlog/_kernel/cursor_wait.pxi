# Waiting for the next record of a cursor.

Idle = Literal["spin", "yield", "backoff", "block"]
IDLE = {
    "spin": CL_IDLE_SPIN, "yield": CL_IDLE_YIELD, "backoff": CL_IDLE_BACKOFF,
    "block": CL_IDLE_BLOCK,
}
cdef int64_t SLICE_NS = 50_000_000  # how long a wait may delay Ctrl-C
cdef int64_t NO_END_NS = 3_600_000_000_000  # the budget of an endless wait, which is renewed
cdef double PLAIN_LIMIT_S = 86_400.0  # a longer timeout is parsed in Python


def check_idle(idle):
    """Check the value of `idle`.

    Raises
    ------
    InvalidOptionError
        It is none of "spin", "yield", "backoff" and "block".
    """
    if not isinstance(idle, str) or idle not in IDLE:
        raise InvalidOptionError(f"idle must be one of {', '.join(map(repr, IDLE))}, not {idle!r}")


cdef Patience patience_of(object timeout, object idle):
    cdef Patience patience
    cdef bint plain = timeout is None or (
        (type(timeout) is int or type(timeout) is float) and 0 <= timeout <= PLAIN_LIMIT_S)
    if not plain or type(idle) is not str or idle not in IDLE:
        check_idle(idle)
        timeout = None if timeout is None else parse_duration(timeout, "timeout")
    patience.endless = timeout is None
    patience.budget_ns = NO_END_NS if timeout is None else nanoseconds(timeout)
    patience.idle = IDLE[idle]
    return patience


cdef object read_record(Cursor cursor, object timeout, object idle, bint keeps):
    """Wait for the next record; None if none arrived. `keeps`: save a named tailer's position."""
    cdef cl_record native
    cdef Record record
    if cursor.busy or cursor.core.log.refusal == REFUSED_CLOSED:
        cursor.guard()
    if await_record(cursor, &native, patience_of(timeout, idle), keeps) != CL_OK:
        return None
    record = make_record(cursor.segment, &native)
    if keeps and cursor.page is not None:
        cursor.keep_position()
    return record


def take(Cursor cursor not None, timeout=0, idle="backoff"):
    """Read as `ReadMethods.read` does, but do not save a named tailer's position."""
    return read_record(cursor, timeout, idle, False)


cdef int await_record(Cursor cursor, cl_record *record, Patience patience, bint keeps) except? -100:
    """Wait for a record: CL_OK, or CL_E_END if none arrived in time or the log was closed.

    `keeps`: save a position that has passed SKIPs only, because a writer may wait for it.
    """
    cdef int64_t began_ns = 0
    cdef int64_t left_ns = patience.budget_ns
    cdef bint at_once = patience.budget_ns == 0
    while True:
        if cursor.core.log.refusal == REFUSED_CLOSED:
            return CL_E_END
        # The interpreter's lock stays held: releasing and taking it costs more than most waits.
        if not at_once and cursor.segment is not None and not cursor.busy and not cursor.turned:
            if cl_reader_next_short(&cursor.reader, record):
                return CL_OK
            cl_reader_spin(&cursor.reader)
        try:
            if cursor.next_record(record) == CL_OK:
                return CL_OK
        except ClosedError:
            return CL_E_END  # closed while the next segment was opened
        if keeps and cursor.page is not None:
            cursor.keep_position()
        if cursor.back:
            return CL_E_END  # no record arrives before the oldest one
        if not patience.endless:
            if began_ns == 0:
                began_ns = cl_clock_monotonic_ns()
            left_ns = 0 if at_once else patience.budget_ns - (cl_clock_monotonic_ns() - began_ns)
            if left_ns <= 0:
                return CL_E_END
        if cursor.core.log.refusal != REFUSED_CLOSED:
            wait_for(cursor, patience.idle, left_ns)


cdef int wait_for(Cursor cursor, cl_idle idle, int64_t budget_ns) except -1:
    """Wait until there may be a record, at most `budget_ns` and 50 ms.

    The caller reads again in any case: only a read resolves a dead claim.
    """
    budget_ns = min(budget_ns, SLICE_NS)
    cursor.guard()
    cursor.core.look()
    if cursor.reader.watermark != NULL:
        cursor.core.ask_for_flush()
    # Otherwise no writer could see that this thread sleeps, and wake it.
    cursor.reader.announces = cursor.core.cursors.shared and cursor.core.cursors.writable
    if cursor.segment is None or cursor.reader.offset >= cursor.segment.segment.size:
        # The next segment's file is missing. Nothing announces it, so poll.
        budget_ns = min(budget_ns, <int64_t>1_000_000)
        cursor.busy = True
        try:
            with nogil:
                cl_sleep_ns(budget_ns)
        finally:
            cursor.rest()
        PyErr_CheckSignals()
        return 0
    cursor.busy = True
    try:
        with nogil:
            cl_reader_wait(&cursor.reader, idle, budget_ns)
    finally:
        cursor.rest()
    PyErr_CheckSignals()
    return 0

# The methods of `Tailer` that are one C call each, and its loops.


cdef inline bint step(Cursor cursor, cl_record *record) except -1:
    """Read the next record; false at the current end. A named tailer's position is saved before,
    because the loop's body is done, and at the end.
    """
    if cursor.page is not None:
        cursor.keep_position()
    if cursor.next_record(record) == CL_OK:
        return True
    cursor.save_position()
    return False


cdef inline bint await_step(Cursor cursor, cl_record *record, Patience patience) except -1:
    """As `step`, and wait for the record; false if none arrived."""
    if cursor.page is not None:
        cursor.keep_position()
    return await_record(cursor, record, patience, True) == CL_OK


@cython.no_gc_clear  # steps called while the collector breaks a cycle find all attributes
cdef class Loop:
    """Iterate over a tailer; the iterator keeps the tailer alive.

    Only the `for` statement references the iterator, so a `break` or an exception releases it at
    once. Then a named tailer moves back before its last record.

    Parameters
    ----------
    tailer : ReadMethods
        The tailer to read.
    """
    cdef Cursor cursor
    cdef ReadMethods tailer

    def __cinit__(self, ReadMethods tailer not None, *args, **kwargs):
        self.cursor = tailer.cursor
        self.tailer = tailer
        self.cursor.return_to_saved()

    def __iter__(self):
        return self

    def __del__(self):
        cdef Cursor cursor = self.cursor
        if cursor is None or cursor.page is None or cursor.busy:
            return
        if cursor.core.log.refusal != REFUSED_CLOSED:
            try:
                cursor.return_to_saved()
            except CommitLogError:
                pass  # the saved position is gone; the next read raises


cdef class RecordIterator(Loop):
    """Iterate over records up to the current end."""

    def __next__(self):
        cdef cl_record native
        if not step(self.cursor, &native):
            raise StopIteration
        return make_record(self.cursor.segment, &native)


cdef class ValueIterator(Loop):
    """Iterate over values as bytes, and wait for new records.

    Parameters
    ----------
    tailer : ReadMethods
        The tailer to read.
    timeout, idle
        As for `ReadMethods.values`.
    """
    cdef Patience patience

    def __cinit__(self, tailer, timeout, idle):
        self.patience = patience_of(timeout, idle)

    def __next__(self):
        cdef cl_record native
        if self.patience.budget_ns == 0:
            if not step(self.cursor, &native):
                raise StopIteration
        elif not await_step(self.cursor, &native, self.patience):
            raise StopIteration
        return PyBytes_FromStringAndSize(<const char *>native.value, native.value_length)


cdef class FollowIterator(Loop):
    """Iterate over records, and wait for new ones. The iteration ends at the timeout, or when the
    log is closed.

    Parameters
    ----------
    tailer : ReadMethods
        The tailer to read.
    timeout, idle
        As for `Tailer.follow`.
    waiter : callable, optional
        Called with the timeout in seconds, or None, at the first asynchronous iteration. Returns an
        object whose coroutine `next` waits for the next record.
    """
    cdef Patience patience
    cdef object waiter
    cdef object later  # what `waiter` returned

    def __cinit__(self, tailer, timeout, idle, waiter=None):
        self.patience = patience_of(timeout, idle)
        self.waiter = waiter

    def __next__(self):
        cdef cl_record native
        if not await_step(self.cursor, &native, self.patience):
            raise StopIteration
        return make_record(self.cursor.segment, &native)

    def __aiter__(self):
        return self

    def __anext__(self):
        if self.later is None:
            seconds = None if self.patience.endless else self.patience.budget_ns / 1e9
            self.later = self.waiter(seconds)
        return self.later.next()


@cython.no_gc_clear  # calls while the collector breaks a cycle find the cursor
cdef class ReadMethods:
    """The compiled base of `Tailer`. It has a cursor and forwards to it.

    Parameters
    ----------
    seeker : Seeker
        The object that owns and moves the cursor.
    """

    def __cinit__(self, seeker, *args, **kwargs):
        self.cursor = <Cursor?>seeker.cursor

    @property
    def position(self):
        """Return the position of the next read."""
        return self.cursor.current()

    def read(self, timeout=0, idle="backoff"):
        """Read the next record in the tailer's direction, and move past it.

        Parameters
        ----------
        timeout : float, str or None
            Seconds, or text like ``"500ms"``, to wait for one; None waits until there is one or
            the log is closed. A backward tailer does not wait: nothing comes before the oldest
            record.
        idle : {"spin", "yield", "backoff", "block"}
            How to wait: see `follow`.

        Returns
        -------
        Record or None
            None if no record arrived in time.
        """
        return read_record(self.cursor, timeout, idle, True)

    def __iter__(self):
        return RecordIterator(self)

    def __next__(self):
        cdef cl_record native
        if not step(self.cursor, &native):
            raise StopIteration
        return make_record(self.cursor.segment, &native)

    def values(self, timeout=0, idle="backoff"):
        """Iterate over the values alone, as bytes; this is the fastest loop.

        Parameters
        ----------
        timeout : float, str or None
            0: end at the current end of the log. Otherwise as for `follow`: end if no record
            arrives for that long; None ends only when the log is closed.
        idle : {"spin", "yield", "backoff", "block"}
            How to wait: see `follow`.

        Returns
        -------
        iterator of bytes
        """
        return ValueIterator(self, timeout, idle)

# Loops over a reader: its iterators, and what gives them.


cdef class Loop:
    """What a `for` loop holds. Left by a `break` or an exception, it takes a named tailer back to before its last record, which the
    interpreter does at once: nothing else holds it."""
    cdef Reader reader

    def __init__(self):
        raise TypeError("a loop is made by a tailer")

    def __iter__(self):
        return self

    def __del__(self):
        if self.reader is not None and self.reader.page is not None and not self.reader.busy and self.reader.core.log.gate != GATE_CLOSED:
            try:
                self.reader.return_to_place()
            except CommitLogError:
                pass  # it cannot go there any more; whoever reads on is told


cdef class RecordIterator(Loop):
    """Records, of a tailer with a name; one without is its own iterator."""

    def __next__(self):
        cdef cl_record native
        self.reader.keep_place()
        if self.reader.next_record(&native) != CL_OK:
            self.reader.keep_place()
            raise StopIteration
        return make_record(self.reader.segment, &native)


cdef class ValueIterator(Loop):
    """Bytes objects and nothing around them."""
    cdef Patience patience

    def __next__(self):
        cdef cl_record native
        if self.reader.page is not None:
            self.reader.keep_place()
        if self.patience.budget_ns == 0 and not self.patience.endless:
            if self.reader.next_record(&native) != CL_OK:
                self.reader.save_place()
                raise StopIteration
        elif self.reader.core is None or self.reader.await_record(&native, self.patience) != CL_OK:
            raise StopIteration
        return PyBytes_FromStringAndSize(<const char *>native.value, native.value_length)


cdef class FollowIterator(Loop):
    """Records as they come, waiting in between. Ends when the time is up, or with the log."""
    cdef Patience patience
    cdef object later  # waits for coroutines, once one has asked

    def __next__(self):
        cdef cl_record native
        if self.reader.page is not None:
            self.reader.keep_place()
        if self.reader.core is None or self.reader.await_record(&native, self.patience) != CL_OK:
            raise StopIteration
        return make_record(self.reader.segment, &native)

    def __aiter__(self):
        return self

    def __anext__(self):
        if self.later is None:
            self.later = self.reader.coming(None if self.patience.endless else self.patience.budget_ns / 1e9)
        return self.later.next()


cdef class RecordLoops(BackwardReader):
    """A `BackwardReader` for `for` and `async for`. Subclasses say how a coroutine waits (`coming`) and what a replay is (`replay`)."""

    def __iter__(self):
        cdef RecordIterator iterator
        if self.page is None:
            return self
        self.return_to_place()
        iterator = RecordIterator.__new__(RecordIterator)
        iterator.reader = self
        return iterator

    def __next__(self):
        cdef cl_record native
        if self.page is not None:
            self.keep_place()
        if self.next_record(&native) != CL_OK:
            self.save_place()
            raise StopIteration
        return make_record(self.segment, &native)

    def values(self, timeout=0, idle="backoff"):
        """The values alone, as bytes: the fastest loop.

        Parameters
        ----------
        timeout : float, str or None
            0 ends at the present end; otherwise as for `follow`: end when none came for so long, or, with None, when the log is closed.
        idle : {"spin", "yield", "backoff", "block"}
            How to wait: see `follow`.

        Returns
        -------
        iterator of bytes
        """
        cdef ValueIterator iterator = ValueIterator.__new__(ValueIterator)
        self.return_to_place()
        iterator.reader = self
        iterator.patience = self.patience_of(timeout, idle)
        return iterator

    def follow(self, timeout=None, idle="backoff", *, speed=None, max_pause=None):
        """Records as they come, without end.

        Parameters
        ----------
        timeout : float, str or None
            End when no record came for so long; None ends only when the log is closed.
        idle : {"spin", "yield", "backoff", "block"}
            What to do until there is more. "spin" burns a core for the least delay; "yield" lends it out in between; "backoff" spins,
            yields, then sleeps up to 1 ms; "block" sleeps in the kernel until a writer wakes it.
        speed : float, optional
            Replay: give each record at the pace of the timestamps, 1 as it was recorded, 10 ten times as fast. Where timestamps step back
            there is no pause, and what is late is given at once. By default there are no pauses at all.
        max_pause : float, str or None
            Seconds, or text like ``"500ms"``: no pause of a replay is longer, so that a quiet night is over soon.

        Returns
        -------
        iterator of Record
            For `for` as well as for `async for`. A coroutine waits without holding its loop up; `idle` says nothing to it.

        Raises
        ------
        InvalidOptionError
            The tailer reads backward, or a value is not one of these.
        """
        if self.turned:
            raise InvalidOptionError("follow goes forward: set direction to 'forward' first, or read with a for loop")
        cdef FollowIterator iterator = FollowIterator.__new__(FollowIterator)
        self.return_to_place()
        iterator.reader = self
        iterator.patience = self.patience_of(timeout, idle)
        return iterator if speed is None and max_pause is None else self.replay(iterator, speed, max_pause)

    def coming(self, timeout):
        """What waits for the next record on behalf of a coroutine; end when none came for so many seconds, or never."""
        raise NotImplementedError

    def replay(self, iterator, speed, max_pause):
        """The records of an iterator, each when it is due."""
        raise NotImplementedError

"""Handled: the message that a program handles, and the history that its outputs get."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar

from commitlog import CommitLog, Record
from commitlog.errors import InvalidOptionError
from commitlog.topics.appender import Condition
from commitlog.topics.history import FORMAT, HEAD, HOP, MOST_EARLIER, MOST_HOPS, is_whole
from commitlog.topics.outputs import Outputs


class Handled:
    """The message that one loop handles now. A loop of a thread changes one object for each
    message, because a new object for each would cost every message more. Coroutines need a new one
    for each, because a task that a method has started keeps it.

    Attributes
    ----------
    record : Record or None
        The record of the message.
    read_ns : int
        When it was read.
    is_over : bool
        Whether it has been handled. Messages that are written later do not get its history.
    """

    __slots__ = (
        "_count",
        "_earlier",
        "_has_history",
        "_hops",
        "_of",
        "_outputs",
        "_source",
        "is_over",
        "read_ns",
        "record",
    )

    def __init__(
        self,
        log: CommitLog,
        has_history: Callable[[int], bool],
        outputs: Outputs | None = None,
    ) -> None:
        """Take the log of the messages, a function that returns whether messages of a type number
        have a history, and what collects the messages that are written.
        """
        self.record: Record | None = None
        self.read_ns = 0
        self.is_over = False
        self._source = log.identity.uuid
        self._has_history = has_history
        self._outputs = outputs
        # The hops of what is written for the record `_of`, made for the first message of it.
        self._of: Record | None = None
        self._hops = b""
        self._count = self._earlier = 0

    def begin(self, record: Record) -> None:
        """Begin to handle a record."""
        self.record = record
        self.read_ns = time.time_ns()

    def outputs_to(
        self, log: CommitLog, condition: Condition, *, has_history: bool
    ) -> Outputs | None:
        """Return what collects the messages that are appended to a topic of a log now; None if they
        are appended at once.

        `condition` is that of the append, and `has_history` says whether the topic's messages get
        histories. If messages are collected, a condition is refused, and a topic without histories.
        """
        outputs = self._outputs
        if outputs is None or log.identity.uuid != outputs.log.identity.uuid:
            return None
        if not has_history or log is not outputs.log:
            raise InvalidOptionError(
                "with after_last_written= a method writes to that open log, through it and with "
                "history=True, so that each output has the position of its input",
                path=log.path,
            )
        if condition is not None:
            raise InvalidOptionError(
                "with after_last_written= a method cannot give expect= or producer=, because its "
                "outputs are appended after it returns, once for each input: leave them out",
                path=log.path,
            )
        return outputs

    def head(self, remaining: int = 0) -> bytes:
        """Return the history of a message that is written now, as the beginning of its value."""
        if self._of is not self.record:
            self._make_hops()
        head = HEAD.pack(FORMAT, self._count, self._earlier, remaining, time.time_ns())
        return head + self._hops

    def _make_hops(self) -> None:
        record = self.record
        assert record is not None
        before = b""
        count = earlier = 0
        written_ns = record.timestamp_ns
        value = record.value
        if self._has_history(record.type) and is_whole(value):
            _, count, earlier, _, written_ns = HEAD.unpack_from(value)
            before = value[HEAD.size : HEAD.size + count * HOP.size]
            if count == MOST_HOPS:
                before = before[HOP.size :]
                count -= 1
                earlier = min(earlier + 1, MOST_EARLIER)
        hop = HOP.pack(self._source, record.position, written_ns, self.read_ns)
        self._hops, self._count, self._earlier = before + hop, count + 1, earlier
        self._of = record


HANDLED: ContextVar[Handled | None] = ContextVar("commitlog_handled", default=None)

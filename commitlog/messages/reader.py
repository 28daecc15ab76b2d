"""BusReader: read messages from a log as writers append them."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from commitlog._kernel.messages import MessageReader
from commitlog._kernel.readers import Idle, check_idle
from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import DURATION_LARGEST_S, Duration, parse_duration
from commitlog.log.commit_log import CommitLog, open_log
from commitlog.tail.seek import Start, Visibility
from commitlog.tail.segment_holder import OnDamage


class BusReader(ProcessBound, MessageReader):
    """Reads messages, one thread at a time; got from `commitlog.bus.reader`. `next` and `read` are
    one compiled call each.

    Attributes
    ----------
    log : CommitLog
        The log beneath, open for reading.
    """

    def __init__(
        self, log: CommitLog, start: Start, visibility: Visibility, on_damage: OnDamage, idle: Idle
    ) -> None:
        self.log = log
        self._tailer = log.tailer(start=start, visibility=visibility, on_damage=on_damage)
        super().__init__(
            self._tailer,
            log.flushed_position if visibility == "flushed" else log.tail_position,
            idle,
        )

    def close(self) -> None:
        """Let go of the log. Idempotent; any other call then raises `ClosedError`."""
        self.let_go()
        self._tailer.close()
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<BusReader {self.log.path!r}, "
            f"{'closed' if self.log.closed else f'at {self._tailer.position}'}>"
        )


def open_reader(
    path: str | os.PathLike[str],
    *,
    start: Start = "first",
    wait: Duration | None = 0,
    idle: Idle = "backoff",
    visibility: Visibility = "committed",
    on_damage: OnDamage = "raise",
) -> BusReader:
    """Open a bus for reading. The log is never created by it and no message is ever changed.

    Parameters
    ----------
    path : str or path-like
        The log's directory.
    start : {"first", "end"} or int
        The oldest message, the present end, or a message's position.
    wait : float, str or None
        Seconds, or text like ``"500ms"``, to wait for a log that does not exist yet; None waits
        until there is one.
    idle : {"spin", "yield", "backoff", "block"}
        How `BusReader.next` waits when it is given a timeout: see `Tailer.follow`.
    visibility : {"committed", "flushed"}
        Messages that every process sees, or only those that no crash can take back.
    on_damage : {"raise", "skip"}
        Raise `CorruptRecordError`, or go on at the next whole message.

    Returns
    -------
    BusReader
        Close it, or use it in a `with` statement.

    Raises
    ------
    LogNotFoundError, NotALogError
        There is no log here, at the end of `wait`.
    PositionError
        No message starts at the position that `start` names.
    """
    check_idle(idle)
    log = open_log(
        path, "r", wait_for_log=DURATION_LARGEST_S if wait is None else parse_duration(wait, "wait")
    )
    try:
        return BusReader(log, start, visibility, on_damage, idle)
    except BaseException:
        log.close()
        raise

"""BusReader: read the messages of a bus."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Self, get_args

from commitlog import CommitLog
from commitlog import open as open_log
from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import DURATION_LARGEST_S, Duration, parse_duration
from commitlog.extension import view_of
from commitlog.topics.choices import check_choice
from commitlog.topics.compiled.messages import Given, MessageReader
from commitlog.types import Idle, OnDamage, Start, Visibility


class BusReader(ProcessBound, MessageReader[Given]):
    """Read messages, one thread at a time; opened by `commitlog.bus.reader`.

    `next` moves to a message and `read` returns it. A `for` loop does both, until there is no
    further message; `follow` waits for more. Each message of a loop is one compiled call.

    Attributes
    ----------
    log : CommitLog
        The log of the bus, open for reading.
    """

    def __init__(
        self,
        log: CommitLog,
        classes: Iterable[type[Given]] | None,
        *,
        start: Start,
        visibility: Visibility,
        on_damage: OnDamage,
        idle: Idle,
    ) -> None:
        self.log = log
        self._tailer = log.tailer(start=start, visibility=visibility, on_damage=on_damage)
        ends = {"flushed": log.flushed_position, "replicated": log.replicated_position}
        super().__init__(
            self._tailer,
            ends.get(visibility, log.tail_position),
            idle,
            classes,
        )

    def close(self) -> None:
        """Close the reader and its log. A second call does nothing; any other call then raises
        `ClosedError`.
        """
        self.let_go()
        self._tailer.close()
        self.log.close()

    def __enter__(self) -> Self:
        view_of(self.log).check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<BusReader {self.log.path!r}, "
            f"{'closed' if self.log.closed else f'at {self._tailer.position}'}>"
        )


def open_reader(
    path: str | os.PathLike[str],
    classes: Iterable[type[Given]] | None = None,
    *,
    start: Start = "first",
    wait: Duration | None = 0,
    idle: Idle = "backoff",
    visibility: Visibility = "committed",
    on_damage: OnDamage = "raise",
) -> BusReader[Given]:
    """Open a bus for reading. A reader never creates a log and never changes a message.

    Parameters
    ----------
    path : str or path-like
        The log's directory.
    classes : iterable of message classes, optional
        What a loop over the reader gives: messages of these classes, each as an object of its
        class. Messages of other types are skipped. By default a loop gives every message, as bytes.
    start : {"first", "end"} or int
        The oldest message, the present end, or a message's position.
    wait : float, str or None
        Seconds, or text like ``"500ms"``, to wait for a log that does not exist yet; None waits
        without a bound.
    idle : {"spin", "yield", "backoff", "block"}
        How `next` and `follow` wait: see `Tailer.follow`.
    visibility : {"committed", "flushed", "replicated"}
        Give each message when it is committed, when a crash cannot lose it, or when copies have it.
    on_damage : {"raise", "skip"}
        Raise `CorruptRecordError`, or skip to the next whole message.

    Returns
    -------
    BusReader
        Close it, or use it in a `with` statement.

    Raises
    ------
    LogNotFoundError, NotALogError
        There is no log at the path when `wait` ends.
    InvalidOptionError, MessageError
        `classes` has no message class, or two with the same type number.
    PositionError
        No message starts at the position that `start` names.
    """
    check_choice("idle", idle, get_args(Idle))
    log = open_log(
        path, "r", wait_for_log=DURATION_LARGEST_S if wait is None else parse_duration(wait, "wait")
    )
    try:
        return BusReader(
            log, classes, start=start, visibility=visibility, on_damage=on_damage, idle=idle
        )
    except BaseException:
        log.close()
        raise

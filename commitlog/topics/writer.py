"""BusWriter: append messages to a log that many processes append to."""

from __future__ import annotations

import os
from typing import Self, Unpack

from commitlog import CommitLog
from commitlog import open as open_log
from commitlog.base.process_bound import ProcessBound
from commitlog.errors import InvalidOptionError
from commitlog.extension import view_of
from commitlog.options import OptionOverrides, Options
from commitlog.topics.compiled.messages import MessageWriter


class BusWriter(ProcessBound, MessageWriter):
    """Write messages, from any thread; opened by `commitlog.bus.writer`. `write` and `claim` are
    one compiled call each.

    Attributes
    ----------
    log : CommitLog
        The log of the bus, open for appending.
    """

    def __init__(self, log: CommitLog) -> None:
        super().__init__(log)
        self.log = log

    def close(self) -> None:
        """Make every written message durable, under any ``flush=``, and close the log.

        A second call does nothing.
        """
        self.log.close()

    def __enter__(self) -> Self:
        view_of(self.log).check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<BusWriter {self.log.path!r}, {'closed' if self.log.closed else 'open'}>"


def open_writer(
    path: str | os.PathLike[str],
    options: Options | None = None,
    **overrides: Unpack[OptionOverrides],
) -> BusWriter:
    """Open a bus for writing, and create it if there is none. Any number of processes and threads
    can write to it.

    Parameters
    ----------
    path : str or path-like
        The log's directory. Under ``/dev/shm`` the bus lives in memory alone, until a reboot.
    options : Options, optional
        As for `commitlog.open`, with the same defaults. Under ``flush="async"`` the kill of a
        process loses no written message; an OS crash loses those that were not flushed.
    **overrides
        Single options by name: see `Options`. `pool` is refused, because a pooled log has one
        writing process.

    Returns
    -------
    BusWriter
        Close it, or use it in a `with` statement.

    Raises
    ------
    InvalidOptionError, NotALogError, LogLockedError, OpenTimeoutError, ReadOnlyError, DiskFullError
        The bus could not be opened; nothing was changed.
    """
    chosen = Options.of(options, **overrides)
    if chosen.pool is not None:
        raise InvalidOptionError(
            "pool= allows one writing process, and a bus has many: leave it out, or use "
            "commitlog.open"
        )
    return BusWriter(open_log(path, "a", chosen))

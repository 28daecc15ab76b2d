"""BusWriter: appends messages to a log that many processes append to."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self, Unpack

from commitlog._kernel.messages import MessageWriter
from commitlog.base.process_bound import ProcessBound
from commitlog.errors import InvalidOptionError
from commitlog.log.commit_log import CommitLog, open_log
from commitlog.options import OptionOverrides, Options


class BusWriter(ProcessBound, MessageWriter):
    """Writes messages, from any thread; got from `commitlog.bus.writer`. `write` and `claim` are
    one compiled call each.

    Attributes
    ----------
    log : CommitLog
        The log beneath, for everything else that an appender can do.
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
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<BusWriter {self.log.path!r}, {'closed' if self.log.closed else 'open'}>"


def open_writer(
    path: str | os.PathLike[str],
    options: Options | None = None,
    **overrides: Unpack[OptionOverrides],
) -> BusWriter:
    """Open a bus for writing, creating it where there is none. Any number of processes and threads
    may.

    Parameters
    ----------
    path : str or path-like
        The log's directory; under ``/dev/shm`` nothing ever goes to a disk, and a reboot takes it
        away.
    options : Options, optional
        As for `commitlog.open`, with the same defaults: under ``flush="async"`` a kill of any
        process loses nothing that was written, and an OS crash what the flush service had not
        reached.
    **overrides
        Single options by name: see `Options`. There is no `pool`: a pooled log has one writing
        process.

    Returns
    -------
    BusWriter
        Close it, or use it in a `with` statement.

    Raises
    ------
    InvalidOptionError, NotALogError, LogLockedError, OpenTimeoutError, ReadOnlyError, DiskFullError
        Why it could not be opened; nothing was changed.
    """
    chosen = Options.of(options, **overrides)
    if chosen.pool is not None:
        raise InvalidOptionError(
            "pool= makes one process the only writer, and a bus has many: leave it out, or use "
            "commitlog.open"
        )
    return BusWriter(open_log(path, "a", chosen))

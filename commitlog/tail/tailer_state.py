"""Read the files of named tailers: position, settings and owner of each."""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import dataclass

from commitlog._kernel.readers import TAILER_SIZE, DamagedPageError, read_page
from commitlog.base.process import describe_process
from commitlog.base.regular_file import read_range
from commitlog.errors import CorruptTailerError, IOFailureError, ReadOnlyError, TailerNotFoundError
from commitlog.segment.directory import LogDirectory
from commitlog.tail.tailer_folder import (
    is_owned,
    names,
    opened_file,
    opened_folder,
    translate_refusals,
)

_LOOKS = 3  # attempts to read a page while its tailer writes it
_logger = logging.getLogger("commitlog")


@dataclass(frozen=True)
class TailerState:
    """Describe a named tailer at one moment.

    Attributes
    ----------
    name : str
    position : int or None
        The position of the next record to read. None if its file is damaged.
    lag_bytes : int or None
        The distance from there to the end of the log.
    required : bool
        Whether retention keeps what it has not read, and `max_lag_bytes` limits appends.
    max_lag_bytes : int or None
        How far appends may be ahead of it while it is required; None: any distance.
    created_ns, saved_ns : int
        When it was created, and when it last moved; nanoseconds since 1970. While it reads without
        a pause, `saved_ns` may be the time of one of its last 16 moves.
    owner : str or None
        The process that reads under the name: process id and name. None: no process.
    pid : int or None
        The id of that process in its own pid namespace.
    dropped_records : int
        Records that writers dropped because this tailer was too far behind.
    evicted_ns : int or None
        When it was evicted; since then it is not required.
    damage : str or None
        The damage of its file; None if it is intact.
    """

    name: str
    position: int | None = None
    lag_bytes: int | None = None
    required: bool = False
    max_lag_bytes: int | None = None
    created_ns: int = 0
    saved_ns: int = 0
    owner: str | None = None
    pid: int | None = None
    dropped_records: int = 0
    evicted_ns: int | None = None
    damage: str | None = None


def read_state(directory: LogDirectory, name: str, end: int | None = None) -> TailerState:
    """Read the state from a tailer's file; damage is reported in the state, not raised. The log's
    `end` is for the lag.
    """
    try:
        with (
            translate_refusals(directory, name),
            opened_folder(directory) as folder_fd,
            opened_file(folder_fd, name, os.O_RDONLY) as fd,
        ):
            return _read(directory, fd, name, end)
    except (CorruptTailerError, ReadOnlyError, IOFailureError) as error:
        cause = error.__context__
        return TailerState(name, damage=error.message if cause is None else str(cause))


def _read(directory: LogDirectory, fd: int, name: str, end: int | None) -> TailerState:
    for look in range(_LOOKS):
        try:
            found = read_page(read_range(fd, TAILER_SIZE, 0), directory.log_uuid)
            break
        except DamagedPageError:
            if look == _LOOKS - 1:
                raise
    position = found["position"]
    owned = is_owned(directory.fd, fd)
    return TailerState(
        name,
        position=position,
        lag_bytes=None if end is None else max(0, end - position),
        required=found["required"],
        max_lag_bytes=found["max_lag_bytes"] or None,
        created_ns=found["created_ns"],
        saved_ns=found["saved_ns"],
        owner=describe_process(found["pid"], found["pid_namespace"]) if owned else None,
        pid=found["pid"] if owned else None,
        dropped_records=found["dropped"],
        evicted_ns=found["evicted_ns"] or None,
    )


def states(directory: LogDirectory, end: int | None = None) -> list[TailerState]:
    """List the states of all named tailers, by name."""
    found = []
    for name in names(directory):
        with contextlib.suppress(TailerNotFoundError):  # deleted meanwhile
            found.append(read_state(directory, name, end))
    return found


def lowest_required(directory: LogDirectory) -> int | None:
    """Return the position of the slowest required tailer, or None; retention keeps everything from
    there.

    If a file is damaged, it may belong to a required tailer: return 0, and log a warning.
    """
    lowest = None
    for state in states(directory):
        if state.damage is not None:
            _logger.warning(
                "%s: nothing is deleted, because the file of tailer %r is damaged (%s): reset or "
                "delete the tailer",
                directory.path,
                state.name,
                state.damage,
            )
            return 0
        if state.required and state.position is not None:
            lowest = state.position if lowest is None else min(lowest, state.position)
    return lowest

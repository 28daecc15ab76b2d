"""Contents: what a backup has beside the records.

All of it is read before the end of the backup is known. So it names no record that the backup
lacks: a tailer, a queue or a producer that were ahead would pass the next records of the copy.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

import commitlog
from commitlog import CommitLog, TailerState
from commitlog.base.option import did_you_mean
from commitlog.base.side_logs import side_logs
from commitlog.errors import CommitLogError, InvalidOptionError
from commitlog.extension import LogCopy, LogFiles
from commitlog.types import BackupContent

NAMES: tuple[BackupContent, ...] = get_args(BackupContent)
_PRODUCERS = "producers"
_SCHEMAS = "topics"
_QUEUE_TAILER = "queue+"  # of the tailer by which a queue keeps records

_logger = logging.getLogger("commitlog.keep")


def chosen(without: BackupContent | Collection[BackupContent]) -> frozenset[BackupContent]:
    """Return what a backup is to have, without what is named."""
    left_out = [without] if isinstance(without, str) else list(without)
    for each in left_out:
        if each not in NAMES:
            raise InvalidOptionError(
                f"without must name {', '.join(NAMES)}, not {each!r}{did_you_mean(each, NAMES)}"
            )
    return frozenset(NAMES) - set(left_out)


@dataclass(frozen=True)
class Contents:
    """What is copied into a backup, as it was at one moment.

    Attributes
    ----------
    tailers : list of TailerState
    producers : dict or None
        The file of the marks of producers.
    schemas : dict
        The files of schemas, by name.
    queues : list of str
        The folders of the side logs, which have the state of queues, in the order in which they are
        copied: the state of a queue before its dead letters, so that none is lost.
    """

    tailers: list[TailerState] = field(default_factory=list)
    producers: dict[str, Any] | None = None
    schemas: dict[str, bytes] = field(default_factory=dict)
    queues: list[str] = field(default_factory=list)

    @property
    def queue_names(self) -> tuple[str, ...]:
        parts = [path.split(os.sep) for path in self.queues]
        return tuple(sorted({each[1] for each in parts if each[1][:1] != "."}))

    @property
    def tailer_names(self) -> tuple[str, ...]:
        names = (state.name for state in self.tailers)
        return tuple(name for name in names if not name.startswith(_QUEUE_TAILER))

    def covers(self, number: int, first: int) -> bool:
        """Return whether the file of producers has the marks of all segments below a number, if it
        had those below `first`; a log without the file never had a producer.
        """
        return number <= first or self.producers is None or self.producers["below"] >= number


def read_contents(log: CommitLog, folder: str | None, wanted: frozenset[BackupContent]) -> Contents:
    """Read what a backup of a log is to have; `folder` is its directory, if that is here."""
    tailers = []
    for state in log.tailers() if folder is not None else ():
        is_of_queue = state.name.startswith(_QUEUE_TAILER)
        if ("queues" if is_of_queue else "tailers") not in wanted:
            continue
        if state.position is None:
            _logger.warning(
                "%s: tailer %r is not in the backup: its file is damaged", log.path, state.name
            )
            continue
        tailers.append(state)
    if folder is None:
        return Contents(tailers)
    return Contents(
        tailers,
        None,
        _schemas(folder) if "schemas" in wanted else {},
        sorted(side_logs(folder), key=_order) if "queues" in wanted else [],
    )


def read_producers(folder: str | None, wanted: frozenset[BackupContent]) -> dict[str, Any] | None:
    """Return the file of the marks of producers; None if there is none, or it is not wanted."""
    if folder is None or "producers" not in wanted:
        return None
    with LogFiles(folder) as files:
        try:
            return files.notes.read(_PRODUCERS)
        except CommitLogError as error:  # the segments have the marks of what remains
            _logger.warning("%s: the marks of producers are not in the backup: %s", folder, error)
            return None


def _schemas(folder: str) -> dict[str, bytes]:
    found = {}
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(os.path.join(folder, _SCHEMAS)):
            path = os.path.join(folder, _SCHEMAS, name)
            if not name.endswith(".tmp") and os.path.isfile(path):
                with open(path, "rb") as file:
                    found[name] = file.read()
    return found


def _order(path: str) -> tuple[str, bool, str]:
    head, name = os.path.split(path)
    return head, name != "state", name


def put_contents(copy: LogCopy, contents: Contents, end: int) -> None:
    """Write into a copy what was read, except the logs of queues."""
    for state in contents.tailers:
        copy.add_tailer(state, end)
    if contents.producers is not None:
        copy.notes.write(_PRODUCERS, contents.producers)
    for name, content in sorted(contents.schemas.items()):
        copy.add_file(os.path.join(_SCHEMAS, name), [content])


@contextlib.contextmanager
def opened_logs(folder: str, contents: Contents) -> Iterator[list[tuple[str, CommitLog]]]:
    """Open the logs of the queues for reading, for the length of a `with`."""
    with contextlib.ExitStack() as opened:
        yield [
            (path, opened.enter_context(commitlog.open(os.path.join(folder, path), "r")))
            for path in contents.queues
        ]

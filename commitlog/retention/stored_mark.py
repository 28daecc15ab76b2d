"""The file `stored`: that a log has a store, and how far it is stored.

It is in the log's directory, so that every process that deletes segments knows what the store
lacks, also if the log is closed or the store is out of reach. A handle that is opened with
`store=` writes it before it can delete anything; the thread that stores the log keeps it up to
date. Without the file, no store holds segments.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

from commitlog._kernel import segments as kernel
from commitlog.errors import CommitLogError, CorruptSegmentError
from commitlog.flush import known_durable
from commitlog.segment import checked_json
from commitlog.segment.directory import LogDirectory

NAME = "stored"
_NUMBERS = ("end", "failed_rounds", "requests")
_ERROR_CHARACTERS = 500


@dataclass(frozen=True)
class StoredMark:
    """What a log's store has.

    Attributes
    ----------
    target : str
        The address or the absolute path of the store.
    position : int
        Below it, each segment is stored whole.
    end : int
        Where the stored part of the log ends.
    error : str or None
        Why the log cannot be stored now.
    failing_since_ns : int or None
        When that error first occurred, in nanoseconds since 1970.
    failed_rounds : int
        Rounds that failed since the log was opened.
    requests : int
        Requests to the store since then.
    """

    target: str
    position: int = 0
    end: int = 0
    error: str | None = None
    failing_since_ns: int | None = None
    failed_rounds: int = 0
    requests: int = 0

    @classmethod
    def begin(cls, directory: LogDirectory, place: str) -> None:
        """Note durably that a log has a store. A store at another place has nothing yet."""
        try:
            known = cls.read(directory)
        except (CommitLogError, OSError):  # it is replaced
            known = None
        if known is None or known.target != place:
            cls(place).write(directory)

    @classmethod
    def read(cls, directory: LogDirectory) -> StoredMark | None:
        """Read the file; None if the log has no store.

        If the segment before `position` is another one than when the file was written, nothing is
        known to be stored: the log was cut or restored, and has other records since.

        Raises
        ------
        CorruptSegmentError, UnsupportedVersionError
            The file is damaged, or a later release wrote it.
        """
        content = checked_json.read(directory, NAME)
        if content is None:
            return None
        mark = _mark_of(directory, content)
        last = mark.position // directory.segment_size - 1
        seal = content.get("seal")
        if last < 0 or (seal is not None and _seal_of(directory, last) == seal):
            return mark
        if last < min(LogDirectory.segment_numbers(directory), default=0):
            return mark  # it was deleted
        return replace(mark, position=0, end=0)

    def write(self, directory: LogDirectory) -> None:
        """Replace the file durably."""
        error = self.error
        if error is not None:  # of a server, and printed on terminals
            printable = (each if each.isprintable() else " " for each in error[:_ERROR_CHARACTERS])
            error = "".join(printable)
        content = asdict(replace(self, error=error))
        last = self.position // directory.segment_size - 1
        with directory.translate_errors(f"write `{NAME}`"):
            checked_json.write(directory, NAME, {**content, "seal": _seal_of(directory, last)})


def forget(directory: LogDirectory) -> None:
    """Remove the file durably, before records are cut: the end that it has would prove that what
    replaces them was durable.
    """
    with directory.translate_errors(f"remove `{NAME}`"), contextlib.suppress(FileNotFoundError):
        os.unlink(NAME, dir_fd=directory.fd)
        directory.sync()


def _mark_of(directory: LogDirectory, content: dict[str, Any]) -> StoredMark:
    fields = StoredMark.__dataclass_fields__
    given = {name: content[name] for name in fields if name in content}
    since, error = given.get("failing_since_ns"), given.get("error")
    numbers = [given.get("position"), *(given.get(name, 0) for name in _NUMBERS)]
    numbers += [] if since is None else [since]
    sound = all(type(each) is int and 0 <= each < 1 << 63 for each in numbers)
    if not sound or type(given.get("target")) is not str or type(error) not in (str, type(None)):
        raise CorruptSegmentError(
            f"`{NAME}` is damaged: open the log with its store",
            path=os.path.join(directory.path, NAME),
        )
    return StoredMark(**given)


def _seal_of(directory: LogDirectory, number: int) -> list[int] | None:
    """Return what identifies a sealed segment of this disk; None without such a segment."""
    # A reader's directory may also have segments of a store, which would be fetched.
    page = LogDirectory.read_header(directory, number) if number >= 0 else None
    base, size = number * directory.segment_size, directory.segment_size
    seal = None if page is None else kernel.read_seal(page, directory.log_uuid, base, size)
    return None if seal is None else list(seal[:4])


def _stored_end(directory: LogDirectory, numbers: Collection[int]) -> int:
    """Return how far the log is stored, if the last whole segment there is on this disk, too: what
    is stored was durable before.
    """
    with contextlib.suppress(CommitLogError, OSError):
        mark = StoredMark.read(directory)
        if mark is not None and mark.position // directory.segment_size - 1 in numbers:
            return mark.end
    return 0


known_durable.register(_stored_end)

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
from dataclasses import replace
from typing import Any

from commitlog.errors import CommitLogError, CorruptSegmentError
from commitlog.flush import known_durable
from commitlog.segment import checked_json
from commitlog.segment.directory import LogDirectory
from commitlog.segment.segment_header import SegmentHeader
from commitlog.stats import StoreStats

NAME = "stored"
_NUMBERS = ("position", "failed_rounds", "requests")
# The names in the file, and those of `StoreStats`.
_FIELDS = {
    "target": "target",
    "position": "kept_position",
    "end": "position",
    "error": "last_error",
    "failing_since_ns": "failing_since_ns",
    "failed_rounds": "failed_rounds",
    "requests": "requests",
}
_ERROR_CHARACTERS = 500


def begin(directory: LogDirectory, place: str) -> None:
    """Note durably that a log has a store. A store at another place has nothing yet."""
    try:
        known = read(directory)
    except (CommitLogError, OSError):  # it is replaced
        known = None
    if known is None or known.target != place:
        write(directory, StoreStats(target=place))


def read(directory: LogDirectory) -> StoreStats | None:
    """Read the file; None if the log has no store. The lag is left out.

    If the last segment that was stored whole is another one than when the file was written, nothing
    is known to be stored: the log was cut or restored, and has other records since.

    Raises
    ------
    CorruptSegmentError, UnsupportedVersionError
        The file is damaged, or a later release wrote it.
    """
    content = checked_json.read(directory, NAME)
    if content is None:
        return None
    stored = _parse(directory, content)
    last = stored.kept_position // directory.segment_size - 1
    seal = content.get("seal")
    if last < 0 or (seal is not None and _seal_of(directory, last) == seal):
        return stored
    if last < min(LogDirectory.segment_numbers(directory), default=0):
        return stored  # it was deleted
    return replace(stored, kept_position=0, position=0)


def write(directory: LogDirectory, stored: StoreStats) -> None:
    """Replace the file durably."""
    error = stored.last_error
    if error is not None:  # of a server, and printed on terminals
        printable = (each if each.isprintable() else " " for each in error[:_ERROR_CHARACTERS])
        error = "".join(printable)
    content = {name: getattr(stored, field) for name, field in _FIELDS.items()}
    last = stored.kept_position // directory.segment_size - 1
    with directory.translate_errors(f"write `{NAME}`"):
        checked_json.write(
            directory, NAME, {**content, "error": error, "seal": _seal_of(directory, last)}
        )


def forget(directory: LogDirectory) -> None:
    """Remove the file durably, before records are cut: the end that it has would prove that what
    replaces them was durable.
    """
    with directory.translate_errors(f"remove `{NAME}`"), contextlib.suppress(FileNotFoundError):
        os.unlink(NAME, dir_fd=directory.fd)
        directory.sync()


def _parse(directory: LogDirectory, content: dict[str, Any]) -> StoreStats:
    given = {field: content[name] for name, field in _FIELDS.items() if name in content}
    since, error = given.get("failing_since_ns"), given.get("last_error")
    numbers = [given.get("kept_position"), *(given.get(name, 0) for name in _NUMBERS)]
    numbers += [] if since is None else [since]
    sound = all(type(each) is int and 0 <= each < 1 << 63 for each in numbers)
    if not sound or type(given.get("target")) is not str or type(error) not in (str, type(None)):
        raise CorruptSegmentError(
            f"`{NAME}` is damaged: open the log with its store",
            path=os.path.join(directory.path, NAME),
        )
    return StoreStats(**given)


def _seal_of(directory: LogDirectory, number: int) -> list[int] | None:
    """Return what identifies a sealed segment of this disk; None without such a segment."""
    # A reader's directory may also have segments of a store, which would be fetched.
    page = LogDirectory.read_header(directory, number) if number >= 0 else None
    seal = None if page is None else SegmentHeader(page).seal_of(directory.identity, number)
    if seal is None:
        return None
    return [seal.segment_id, seal.crc, seal.end, seal.first_sequence]


def _stored_end(directory: LogDirectory, numbers: Collection[int]) -> int:
    """Return how far the log is stored, if the last whole segment there is on this disk, too: what
    is stored was durable before.
    """
    with contextlib.suppress(CommitLogError, OSError):
        stored = read(directory)
        if stored and stored.kept_position // directory.segment_size - 1 in numbers:
            return stored.position
    return 0


known_durable.register(_stored_end)

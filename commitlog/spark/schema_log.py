"""The log of a read, opened for the schemas of its messages."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator

import commitlog
from commitlog import CommitLog, Store
from commitlog.base.path import is_remote
from commitlog.errors import (
    InvalidOptionError,
    LogNotFoundError,
    MissingExtraError,
    NotALogError,
)
from commitlog.extension import open_source
from commitlog.spark import places
from commitlog.spark.segment_bytes import COMPRESSED, open_bytes
from commitlog.spark.slices import PIECE_BYTES
from commitlog.spark.store_topic import is_object_place
from commitlog.stores.archive_source import ArchiveSource


@contextlib.contextmanager
def open_schema_log(place: str, store: str | None) -> Iterator[CommitLog]:
    """Open a log of any kind that a read can name, with its store if it has one. A segment file is
    opened as its log or archive, or else alone: it has the schemas of its messages.
    """
    with contextlib.ExitStack() as stack:
        if places.segment_of(places.name_of(place)) is None:
            log = _open(place, store)
        else:
            log = _open_around(place, store) or _open_alone(place, stack)
        yield stack.enter_context(log)


def _open_around(place: str, store: str | None) -> CommitLog | None:
    """Open the log or archive that has a segment; None if there is none around it."""
    try:
        return _open(places.parent(place), store)
    except (LogNotFoundError, NotALogError):
        return None


def _open_alone(place: str, stack: contextlib.ExitStack) -> CommitLog:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="commitlog-"))
    return commitlog.open(_unpack(place, folder), "r")


def _unpack(place: str, folder: str) -> str:
    """Return a plain local file of a segment: its own, or a copy in a folder."""
    name = places.name_of(place)
    if not places.is_uri(place) and not name.endswith(COMPRESSED):
        return place
    copy = os.path.join(folder, name.removesuffix(COMPRESSED))
    piece, at = memoryview(bytearray(PIECE_BYTES)), 0
    with open_bytes(place) as source, open(copy, "wb") as file:
        while got := source.read_into(piece, at):
            file.write(piece[:got])
            at += got
    return copy


def _open(place: str, store: str | None) -> CommitLog:
    if is_remote(place) or not places.is_uri(place):
        return commitlog.open(place, "r", store=None if store is None else Store(store))
    if is_object_place(place):
        try:
            return commitlog.open(place, "r")
        except MissingExtraError:
            pass  # the read itself uses pyarrow, too
    return _open_by_pyarrow(place)


def _open_by_pyarrow(place: str) -> CommitLog:
    filesystem, path = places.file_system(place)
    source = ArchiveSource(path, filesystem)
    if not source.segments():
        source.close()
        raise InvalidOptionError(
            f"messages are not decoded from uncompressed segments at {places.shown(place)}: "
            "archive the log with `commitlog archive`, or copy the segments to a directory"
        )
    return open_source(source)

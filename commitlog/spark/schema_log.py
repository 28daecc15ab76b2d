"""The log of a read, opened for the schemas of its messages."""

from __future__ import annotations

import commitlog
from commitlog import CommitLog, Options, Store
from commitlog.base.path import is_remote
from commitlog.errors import (
    InvalidOptionError,
    LogNotFoundError,
    MissingExtraError,
    NotALogError,
)
from commitlog.log.open_log import OpenLog
from commitlog.log.reading import opened_detached
from commitlog.retention.archived_directory import ArchivedDirectory
from commitlog.spark import places
from commitlog.spark.store_topic import is_object_place


def open_schema_log(place: str, store: str | None) -> CommitLog:
    """Open a log of any kind that a read can name, with its store if it has one. A segment file is
    opened as its log or archive, or else alone: it has the schemas of its messages.
    """
    if places.segment_of(places.name_of(place)) is None:
        return _open(place, store)
    try:
        return _open(places.parent(place), store)
    except (LogNotFoundError, NotALogError):
        return _open(place, store)


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
    options = Options()
    directory = ArchivedDirectory(path, options.tuning.archive_cache, filesystem)
    if not directory.segment_numbers():
        directory.close()
        raise InvalidOptionError(
            f"messages are not decoded from uncompressed segments at {places.shown(place)}: "
            "archive the log with `commitlog archive`, or copy the segments to a directory"
        )
    return CommitLog(OpenLog("r", opened_detached(directory), options))

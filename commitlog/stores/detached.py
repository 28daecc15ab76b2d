"""Find out whether a path names an archive or a single segment file, and open it."""

from __future__ import annotations

import os

from commitlog.segment.lone_segment import LoneSegment
from commitlog.stores.archived import is_archive, refuse_remote
from commitlog.stores.archived_directory import ArchivedDirectory

Detached = ArchivedDirectory | LoneSegment


def open_detached(path: str, cache_bytes: int = 0) -> Detached | None:
    """Open an archive or a segment file as a log's directory; None if the path is neither."""
    refuse_remote(path)
    if is_archive(path):
        return ArchivedDirectory(path, cache_bytes)
    if os.path.isfile(path):  # a log is a directory
        return LoneSegment(path)
    return None

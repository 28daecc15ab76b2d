"""What is read apart from its log: an archive, or one segment's file. All who read ask here which
of them a path leads to.
"""

from __future__ import annotations

from commitlog.retention.archived import is_archive
from commitlog.retention.archived_directory import ArchivedDirectory
from commitlog.segment.lone_segment import LoneSegment, is_lone_segment

Detached = ArchivedDirectory | LoneSegment


def open_detached(path: str, cache_bytes: int = 0) -> Detached | None:
    """The archive or the lone segment at a path, as a log's directory; None where there is neither,
    but a log if anything.

    Parameters
    ----------
    path : str
        A path or an address.
    cache_bytes : int
        How much of an archive may lie unpacked here: see `ArchivedDirectory`.
    """
    if is_archive(path):
        return ArchivedDirectory(path, cache_bytes)
    if is_lone_segment(path):
        return LoneSegment(path)
    return None

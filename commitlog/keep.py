"""Retention, archiving and segment events."""

from commitlog.retention.archive import Archive
from commitlog.retention.archived import archived_bases, open_segment_bytes, read_identity
from commitlog.retention.listener import SegmentInfo, SegmentListener
from commitlog.retention.outside import archive_segments, prune
from commitlog.retention.pruner import Pruned, Removal
from commitlog.retention.retention import Retention
from commitlog.retention.target import target_of

__all__ = [
    "Archive",
    "Pruned",
    "Removal",
    "Retention",
    "SegmentInfo",
    "SegmentListener",
    "archive_segments",
    "archived_bases",
    "open_segment_bytes",
    "prune",
    "read_identity",
    "target_of",
]

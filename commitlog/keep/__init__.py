"""What becomes of old segments: how long they are kept, who is told of them, where they go."""

from commitlog.keep.archive import Archive
from commitlog.keep.archived import archived_bases, open_segment_bytes, read_identity
from commitlog.keep.listener import SegmentInfo, SegmentListener
from commitlog.keep.outside import archive_segments, prune
from commitlog.keep.pruner import Pruned, Removal
from commitlog.keep.retention import Retention
from commitlog.keep.target import target_of

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

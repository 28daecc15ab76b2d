"""Retention, archiving, stores and segment events."""

from commitlog.repair.restore import Restored, restore
from commitlog.retention.listener import SegmentInfo, SegmentListener
from commitlog.retention.pruner import Pruned, Removal
from commitlog.retention.retention import Retention
from commitlog.stores.archived import archived_bases, open_segment_bytes, read_identity
from commitlog.stores.outside import archive_segments, prune
from commitlog.stores.store import Store
from commitlog.stores.store_lease import StoreLease
from commitlog.stores.target import target_of

__all__ = [
    "Pruned",
    "Removal",
    "Restored",
    "Retention",
    "SegmentInfo",
    "SegmentListener",
    "Store",
    "StoreLease",
    "archive_segments",
    "archived_bases",
    "open_segment_bytes",
    "prune",
    "read_identity",
    "restore",
    "target_of",
]

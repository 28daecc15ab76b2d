"""Keep a log: verify, repair, back up and restore it; retention, archives, stores and events."""

from commitlog.backup.backing_up import backup
from commitlog.log.backups import BackedUp
from commitlog.repair.repair import repair
from commitlog.repair.reports import (
    Action,
    Damage,
    RepairReport,
    SegmentReport,
    TornTail,
    VerifyReport,
)
from commitlog.repair.verification import verify
from commitlog.retention.listener import SegmentInfo, SegmentListener
from commitlog.retention.outside import prune
from commitlog.retention.pruner import Pruned, Removal
from commitlog.retention.retention import Retention
from commitlog.stores.archived import archived_bases, open_segment_bytes, read_identity
from commitlog.stores.archiving import archive_segments
from commitlog.stores.restore import Restored, restore
from commitlog.stores.store import Store
from commitlog.stores.store_lease import StoreLease
from commitlog.stores.target import target_of

__all__ = [
    "Action",
    "BackedUp",
    "Damage",
    "Pruned",
    "Removal",
    "RepairReport",
    "Restored",
    "Retention",
    "SegmentInfo",
    "SegmentListener",
    "SegmentReport",
    "Store",
    "StoreLease",
    "TornTail",
    "VerifyReport",
    "archive_segments",
    "archived_bases",
    "backup",
    "open_segment_bytes",
    "prune",
    "read_identity",
    "repair",
    "restore",
    "target_of",
    "verify",
]

"""Types for annotations: of options, and of parameters and results of a log's methods."""

from __future__ import annotations

from commitlog._kernel.readers import FollowIterator, Idle
from commitlog.allocation.disk_monitor import DiskState
from commitlog.base.progress import Progress
from commitlog.base.units import Age, Duration, Size
from commitlog.log.backups import BackedUp, BackupContent
from commitlog.log.parts import Mode
from commitlog.log.scan import Bound
from commitlog.log.views import TailerOptions
from commitlog.options import Flush, OnLag, Timestamps
from commitlog.retention.deletion import Waivable
from commitlog.retention.pruner import Pruned
from commitlog.segment.identity import Identity
from commitlog.tail.cycles import CycleLike
from commitlog.tail.replay import Replay
from commitlog.tail.seek import Direction, Start, Timestamp, Visibility
from commitlog.tail.segment_holder import OnDamage
from commitlog.tail.tailer_file import Durable

__all__ = [
    "Age",
    "BackedUp",
    "BackupContent",
    "Bound",
    "CycleLike",
    "Direction",
    "DiskState",
    "Durable",
    "Duration",
    "Flush",
    "FollowIterator",
    "Identity",
    "Idle",
    "Mode",
    "OnDamage",
    "OnLag",
    "Progress",
    "Pruned",
    "Replay",
    "Size",
    "Start",
    "TailerOptions",
    "Timestamp",
    "Timestamps",
    "Visibility",
    "Waivable",
]

"""What extensions of commitlog import: an open log as they see it, and where segments come from.

Everything above the core is written with these names, the names of `commitlog`, `commitlog.errors`
and `commitlog.options`, and the toolbox `commitlog.base`. See docs/extending.md.
"""

from commitlog._kernel.segments import (
    FRAME_ALIGN,
    HEADER_SIZE,
    SEAL_AT,
    SEAL_SIZE,
    Segment,
    check_header,
    copy_frames,
    header_fields,
    read_seal,
)
from commitlog.log.copy_writer import CopyWriter
from commitlog.log.locked_log import LockedLog
from commitlog.log.snapshot import Snapshot
from commitlog.log.view import LogView, view_of
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Epoch, Lineage, Member, Rank
from commitlog.segment.cursors_file import Writer
from commitlog.segment.directory import segment_name
from commitlog.segment.identity import Identity
from commitlog.segment.notes import Notes
from commitlog.segment.seal_table import Seal
from commitlog.segment.source import SegmentRef, SegmentSource, SourceEnds

__all__ = [
    "FRAME_ALIGN",
    "HEADER_SIZE",
    "SEAL_AT",
    "SEAL_SIZE",
    "CopyWriter",
    "Epoch",
    "Epochs",
    "Identity",
    "Lineage",
    "LockedLog",
    "LogView",
    "Member",
    "Notes",
    "Rank",
    "Seal",
    "Segment",
    "SegmentRef",
    "SegmentSource",
    "Snapshot",
    "SourceEnds",
    "Writer",
    "check_header",
    "copy_frames",
    "header_fields",
    "read_seal",
    "segment_name",
    "view_of",
]

"""What extensions of commitlog import: an open log as they see it, and where segments come from.

Everything above the core is written with these names, the names of `commitlog`, `commitlog.errors`
and `commitlog.options`, and the toolbox `commitlog.base`. See docs/extending.md.
"""

from commitlog._kernel.memory import crc32c_implementation
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
from commitlog.log.commit_log import open_source
from commitlog.log.copy_writer import CopyWriter
from commitlog.log.frame_list import frame_size
from commitlog.log.locked_log import LockedLog
from commitlog.log.log_copy import LogCopy
from commitlog.log.open_log import view_of
from commitlog.log.view import LogView
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Epoch, Lineage, Member, Rank
from commitlog.repair.log_files import LogFiles
from commitlog.repair.removal import LogRemoval
from commitlog.repair.source_files import SourceFiles
from commitlog.repair.verification import surveying
from commitlog.retention.outside import pruning
from commitlog.retention.pruner import Pruned
from commitlog.retention.retention import Retention
from commitlog.retention.stored_mark import StoredMark
from commitlog.segment.directory import holes, segment_name
from commitlog.segment.identity import Identity
from commitlog.segment.notes import Notes
from commitlog.segment.piece_decoder import PieceDecoder
from commitlog.source.segment_source import SegmentRef, SegmentSource, SourceEnds
from commitlog.source.source_registry import SourceKind, register_source
from commitlog.stage.joining import join
from commitlog.stage.staging import StagingWriter

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
    "LogCopy",
    "LogFiles",
    "LogRemoval",
    "LogView",
    "Member",
    "Notes",
    "PieceDecoder",
    "Pruned",
    "Rank",
    "Retention",
    "Segment",
    "SegmentRef",
    "SegmentSource",
    "SourceEnds",
    "SourceFiles",
    "SourceKind",
    "StagingWriter",
    "StoredMark",
    "check_header",
    "copy_frames",
    "crc32c_implementation",
    "frame_size",
    "header_fields",
    "holes",
    "join",
    "open_source",
    "pruning",
    "read_seal",
    "register_source",
    "segment_name",
    "surveying",
    "view_of",
]

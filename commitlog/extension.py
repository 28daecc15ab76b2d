"""What extensions of commitlog import: an open log as they see it, and where segments come from.

Everything above the core is written with these names, the names of `commitlog`, `commitlog.errors`
and `commitlog.options`, and the toolbox `commitlog.base`. See docs/extending.md.
"""

from commitlog._kernel.memory import crc32c_implementation
from commitlog._kernel.segments import FRAME_ALIGN, HEADER_SIZE
from commitlog.log.frame_list import frame_size
from commitlog.log.locked_log import LockedLog
from commitlog.log.log_copy import LogCopy
from commitlog.log.open_calls import open_source
from commitlog.log.open_log import view_of
from commitlog.log.view import LogView
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Epoch, Lineage, Member, Rank
from commitlog.repair.log_files import LogFiles
from commitlog.repair.removal import LogRemoval
from commitlog.repair.source_files import SourceFiles
from commitlog.repair.verification import surveying
from commitlog.retention.outside import pruning
from commitlog.segment.directory import holes
from commitlog.segment.identity import Identity
from commitlog.segment.notes import Notes
from commitlog.segment.piece_decoder import PieceDecoder
from commitlog.segment.segment_header import SegmentHeader
from commitlog.source.growing import Growing
from commitlog.source.segment_source import LiveSource, SegmentRef, SegmentSource
from commitlog.source.source_registry import SourceKind, register_source
from commitlog.stage.joining import join
from commitlog.stage.staging import StagingWriter
from commitlog.tail.tailer_file import TailerFile

__all__ = [
    "FRAME_ALIGN",
    "HEADER_SIZE",
    "Epoch",
    "Epochs",
    "Growing",
    "Identity",
    "Lineage",
    "LiveSource",
    "LockedLog",
    "LogCopy",
    "LogFiles",
    "LogRemoval",
    "LogView",
    "Member",
    "Notes",
    "PieceDecoder",
    "Rank",
    "SegmentHeader",
    "SegmentRef",
    "SegmentSource",
    "SourceFiles",
    "SourceKind",
    "StagingWriter",
    "TailerFile",
    "crc32c_implementation",
    "frame_size",
    "holes",
    "join",
    "open_source",
    "pruning",
    "register_source",
    "surveying",
    "view_of",
]

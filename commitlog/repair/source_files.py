"""SourceFiles: an archive or a segment file, as `info` and `verify` read it."""

from __future__ import annotations

from typing import Any, Self

from commitlog.log.frame_list import segment_fields
from commitlog.options import Options, Tuning
from commitlog.segment.directory import holes
from commitlog.source.source_directory import SourceDirectory
from commitlog.source.source_registry import open_source_directory, source_kind


class SourceFiles:
    """Read an archive or a segment file from its start to its end; a context manager.

    Attributes
    ----------
    directory : SourceDirectory
        Its segments. It keeps as few of them as it can.
    is_segment : bool
        Whether it is one segment's file.
    """

    def __init__(self, directory: SourceDirectory, *, is_segment: bool) -> None:
        self.directory = directory
        self.is_segment = is_segment

    @classmethod
    def open(cls, path: str) -> Self | None:
        """Open what is at a path; return None for a log's directory or for nothing."""
        directory = open_source_directory(path, Options(tuning=Tuning(archive_cache=0)))
        return None if directory is None else cls(directory, is_segment=source_kind(path) is None)

    def holes(self) -> list[tuple[int, int]]:
        """Return the ranges of positions at which segments are missing between others."""
        return holes(self.directory.segment_numbers(), self.directory.segment_size)

    def segment_fields(self) -> dict[str, Any]:
        """Return the header of the first segment with its seal; None for what is not written."""
        with self.directory.opened_segment(self.directory.segment_numbers()[0]) as segment:
            return segment_fields(segment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.directory.close()

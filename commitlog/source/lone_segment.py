"""LoneSegment: one segment's file as a source, to read it without its log."""

from __future__ import annotations

import os
from collections.abc import Sequence

from commitlog._kernel import segments as kernel
from commitlog._kernel.failure import failure
from commitlog.base.regular_file import open_regular, opened_regular, read_range
from commitlog.errors import CorruptSegmentError, NotALogError
from commitlog.segment.directory import BLOCK, segment_name
from commitlog.segment.identity import Identity
from commitlog.segment.segment_header import SegmentHeader
from commitlog.source.segment_source import SegmentRef, SegmentSource
from commitlog.source.source_directory import SourceDirectory

_COPY_BYTES = 1 << 20


def refuse_lone_segment(path: str) -> None:
    """Refuse a segment's file, for operations that repair a whole log."""
    if os.path.isfile(path):
        raise NotALogError(
            "this is a single segment file, which can only be repaired in its log: "
            "repair the log, then copy the segment again",
            path=path,
        )


def open_lone_segment(path: str) -> SourceDirectory:
    """Open a segment's file as a directory with this one segment in it."""
    source = LoneSegment(path)
    return SourceDirectory(source, 0, source.folder)


class LoneSegment(SegmentSource):
    """One segment's file; other files beside it are ignored.

    Its header holds the log's uuid, its size and its base, but neither the roll cycle nor the
    appenders' clock. If the file's name is not that of a segment of its base, it gets that name in
    a temporary folder, as a link, or as a copy if links cannot be made.

    Attributes
    ----------
    number : int
        The segment.
    folder : str
        The folder in which the file has the name of its segment.
    """

    kind = "segment"

    def __init__(self, path: str) -> None:
        self._temporary: str | None = None
        self.location = path
        self._header = _read_header(path)
        header = SegmentHeader(self._header)
        base, size = header.base, header.segment_size
        self.identity = Identity(header.log_uuid, size, "coarse", max(0, header.created_ns))
        self.number = base // size
        self._file = os.path.realpath(path)
        try:
            self.folder = self._folder(self._file, segment_name(base))
        except BaseException:
            self.close()
            raise
        whole = header.seal_of(self.identity, self.number) is not None
        stored = os.stat(self._file).st_blocks * BLOCK
        self._segments = (SegmentRef(self.number, stored, whole),)

    def _folder(self, file: str, name: str) -> str:
        if os.path.basename(file) == name:
            return os.path.dirname(file)
        import tempfile

        self._temporary = tempfile.mkdtemp(prefix="commitlog-")
        try:
            os.link(file, os.path.join(self._temporary, name))
        except OSError:
            self._copy(file, os.path.join(self._temporary, name))
        return self._temporary

    def _copy(self, file: str, copy: str) -> None:
        """The size from the header: the file may be larger."""
        size = self.identity.segment_size
        with open(open_regular(file), "rb") as source, open(copy, "wb") as target:
            while size and (piece := source.read(min(size, _COPY_BYTES))):
                target.write(piece)
                size -= len(piece)

    def close(self) -> None:
        if self._temporary is not None:
            import shutil

            shutil.rmtree(self._temporary, ignore_errors=True)

    def segments(self) -> Sequence[SegmentRef]:
        return self._segments

    def header(self, number: int) -> bytes | None:
        if number != self.number:
            return None
        with opened_regular(self._file) as fd:
            return read_range(fd, kernel.HEADER_SIZE, 0)

    def fill(self, number: int, fd: int) -> None:
        self._copy(self._file, f"/proc/self/fd/{fd}")

    def locate(self, number: int) -> str:
        return self.location


def _read_header(path: str) -> bytes:
    with opened_regular(path, follow=True) as fd:
        status = os.fstat(fd)
        page = read_range(fd, kernel.HEADER_SIZE, 0)
    if page[: len(kernel.MAGIC)] != kernel.MAGIC:
        raise NotALogError(
            "this file is not a segment of a log: give a segment file or a log's directory",
            path=path,
        )
    page = page.ljust(kernel.HEADER_SIZE, b"\0")
    uuid, _, base, size, _ = kernel.header_fields(page)
    if (code := kernel.check_header(page, uuid, base, size)) != 0:
        raise failure(code, path=path)
    if not kernel.SMALLEST <= size <= kernel.LARGEST or base % size or status.st_size < size:
        raise CorruptSegmentError(
            f"this segment has {status.st_size} bytes, but its header says {size}: copy it again",
            path=path,
        )
    return page

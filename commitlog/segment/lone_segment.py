"""LoneSegment: one segment's file as a log's directory, to read it without its log."""

from __future__ import annotations

import os

from commitlog._kernel import segments as kernel
from commitlog._kernel.failure import DAMAGE, failure
from commitlog.base.regular_file import open_regular, opened_regular
from commitlog.errors import CorruptSegmentError, NotALogError, PositionError
from commitlog.segment.directory import LogDirectory, segment_name
from commitlog.segment.identity import Identity

_COPY_BYTES = 1 << 20


def refuse_lone_segment(path: str) -> None:
    """Refuse a segment's file, for operations that repair a whole log."""
    if os.path.isfile(path):
        raise NotALogError(
            "this is a single segment file, which can only be repaired in its log: "
            "repair the log, then copy the segment again",
            path=path,
        )


class LoneSegment(LogDirectory):
    """A directory with this one segment in it; other files beside it are ignored.

    Its header holds the log's uuid, its size and its base, but neither the roll cycle nor the
    appenders' clock. If the file's name is not that of a segment of its base, it gets that name in
    a temporary folder, as a link, or as a copy if links cannot be made.
    """

    kind = "segment"

    def __init__(self, path: str) -> None:
        self._temporary: str | None = None
        self.header = _read_header(path)
        uuid, _, base, size, created_ns = kernel.header_fields(self.header)
        identity = Identity(uuid, size, "coarse", max(0, created_ns))
        self.number = base // size
        file = os.path.realpath(path)
        try:
            super().__init__(self._folder(file, segment_name(base)), identity)
        except BaseException:
            self._remove_temporary()
            raise
        self.path = path

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
        size = kernel.header_fields(self.header)[3]
        with open(open_regular(file), "rb") as source, open(copy, "wb") as target:
            while size and (piece := source.read(min(size, _COPY_BYTES))):
                target.write(piece)
                size -= len(piece)

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            import shutil

            shutil.rmtree(self._temporary, ignore_errors=True)

    def close(self) -> None:
        super().close()
        self._remove_temporary()

    # --- a directory of one segment ---------------------------------------------------------------

    def segment_path(self, number: int) -> str:
        return self.path if number == self.number else super().segment_path(number)

    def segment_numbers(self) -> list[int]:
        return [self.number]

    def has(self, number: int) -> bool:
        return number == self.number

    def whole_disk_bytes(self) -> int:
        return self.disk_bytes(self.number)

    def fetch(self, number: int) -> None:
        if number != self.number:
            raise PositionError(
                "this is one segment of a log, but the position is in another: open the log",
                path=self.path,
                position=number * self.segment_size,
                first_position=self.number * self.segment_size,
            )

    def read_header(self, number: int) -> bytes | None:
        return super().read_header(number) if number == self.number else None

    @property
    def joining(self) -> bool:
        return False

    # --- where it ends ----------------------------------------------------------------------------

    def find_end(self) -> int:
        """Return the position at which its records end: from there on a bad frame is the end, and
        not damage.

        A sealed segment is whole. In a segment that was copied while it was written, the first
        invalid frame is the end, or damage if whole frames follow it.
        """
        base = self.number * self.segment_size
        with self.opened_segment(self.number) as segment:
            if segment.sealed() is not None:
                return base + self.segment_size
            stopped, code = segment.scan()[:2]
            return base + (segment.certain_end(stopped) if code == DAMAGE else stopped)


def _read_header(path: str) -> bytes:
    with opened_regular(path, follow=True) as fd:
        status = os.fstat(fd)
        page = os.pread(fd, kernel.HEADER_SIZE, 0)
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

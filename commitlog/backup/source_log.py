"""SourceLog: the segments of an open log, as a backup copies them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import BinaryIO

from commitlog import CommitLog
from commitlog.base.host import host
from commitlog.errors import CorruptRecordError, CorruptSegmentError, FencedError, PositionError
from commitlog.extension import HEADER_SIZE, LogFiles, SegmentHeader, holes, view_of

_CHUNK = 1 << 20  # bytes of frames, and one frame more, that are in memory
_HOLE_BYTES = 64 << 10
_ZEROS = bytes(_HOLE_BYTES)
_FLUSH_S = 5.0
_LOOK_S = 0.05


class SourceLog:
    """Copy the frames of a log up to a position, and check the CRC of each.

    Positions and sizes are in bytes. The log may be appended to, rolled and pruned meanwhile.

    Parameters
    ----------
    log : CommitLog
        Open for reading or writing. It stays open.
    """

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.view = view_of(log)
        self.identity = self.view.identity
        self.size = self.identity.segment_size
        self._is_here = os.path.isdir(log.path)  # and not an archive or on another machine
        self._is_here = self._is_here and LogFiles.identity_at(log.path) is not None
        self.lineage = self.view.epochs.read()

    @property
    def folder(self) -> str | None:
        """The directory of the log; None if its files are elsewhere."""
        return self.log.path if self._is_here else None

    def find_end(self) -> int:
        """Flush what can be flushed; return the end of what is committed, behind a record.

        A handle that writes commits and flushes all. Another one asks the writer to flush, and
        waits some seconds.
        """
        view = self.view
        if self.log.mode == "r":
            end = view.committed_position
            self._await_flush(end)
        else:
            self.log.commit()
            end = view.committed_position
            view.flush(_FLUSH_S)
        first = view.first_position
        # A header page alone is left out: it is not complete before the segment has records.
        recorded = end if end % self.size > HEADER_SIZE else end - end % self.size
        return max(recorded, first + HEADER_SIZE)

    def _await_flush(self, end: int) -> None:
        if self.folder is None:
            return
        with LogFiles(self.folder, self.identity) as files:
            if not files.live:
                return
        until_s = host.monotonic() + _FLUSH_S
        while self.view.flushed_position < end and host.monotonic() < until_s:
            seen = self.view.signal("flush")
            self.view.ask_for_flush()
            self.view.wait("flush", seen, _LOOK_S)

    def numbers(self, end: int) -> list[int]:
        """Return the segments below a position; refuse a gap between them."""
        found = [number for number in self.view.segment_numbers() if number * self.size < end]
        gaps = holes(found, self.size)
        if found and found[-1] != (end - 1) // self.size:
            gaps.append(((found[-1] + 1) * self.size, end))
        if gaps or not found:
            start, stop = gaps[0] if gaps else (0, end)
            raise CorruptSegmentError(
                f"segments from position {start} to {stop} are missing in the log, so no backup is "
                "made: run `commitlog verify` on it",
                path=self.log.path,
                position=start,
            )
        return found

    def has(self, number: int) -> bool:
        """Return whether the log has a segment now."""
        return number in self.view.segment_numbers()

    def stop_of(self, number: int, end: int) -> int:
        """Return the offset at which the copy of a segment stops."""
        return min(self.size, end - number * self.size)

    def page(self, number: int, end: int) -> bytes:
        """Return the first page of a segment, without a seal if the copy ends inside.

        Raises
        ------
        PositionError
            The segment was deleted.
        """
        page = self.view.header(number)
        if page is None or not SegmentHeader(page).is_of(self.identity, number):
            if page is None and not self.has(number):
                raise self._deleted(number)
            raise CorruptSegmentError(
                "the header of this segment is damaged, so no backup is made: run `commitlog "
                "verify` on the log",
                path=self.view.location(number),
                position=number * self.size,
            )
        return page if end >= (number + 1) * self.size else SegmentHeader.without_seal(page)

    def write(self, number: int, end: int, file: BinaryIO, done: Callable[[int], object]) -> None:
        """Write a segment to an empty file, up to a position; zeros become holes. `done` gets
        how many bytes more are written.

        Raises
        ------
        PositionError
            The segment was deleted.
        CorruptRecordError
            A frame is damaged.
        """
        stop, offset = self.stop_of(number, end), HEADER_SIZE
        file.seek(HEADER_SIZE)
        while offset < stop:
            found = self.view.copy_frames(number, offset, min(offset + _CHUNK, stop), digests=False)
            if found is None:
                raise self._deleted(number)
            if not found.frames:
                raise CorruptRecordError(
                    f"the frame here is damaged (code {found.code}), so no backup is made: run "
                    "`commitlog verify` on the log, and repair it",
                    path=self.log.path,
                    position=number * self.size + offset,
                )
            write_sparse(file, found.frames)
            offset += len(found.frames)
            done(len(found.frames))
        # After the frames: the header is complete then, with the time at which the log rolled.
        file.seek(0)
        file.write(self.page(number, end))
        file.truncate(self.size)
        file.flush()
        done(HEADER_SIZE)

    def digest(self, number: int, stop: int) -> int:
        """Return the digest of the frames of a segment up to an offset."""
        with self.view.opened_segment(number) as segment:
            return int(segment.digest(HEADER_SIZE, stop, 0)[1])

    def check_same(self) -> None:
        """Refuse what was copied if the log was cut, replaced or removed meanwhile."""
        if self.folder is None:
            return
        if self.view.epochs.read().epochs != self.lineage.epochs:
            raise FencedError(
                "the log was promoted, recovered or cut while it was copied, so no backup was "
                "made: try again",
                path=self.log.path,
            )
        if not self.view.is_at(os.path.abspath(self.log.path)):
            raise FencedError(
                "the log was replaced, moved or removed while it was copied, so no backup was "
                "made: check the path",
                path=self.log.path,
            )

    def _deleted(self, number: int) -> PositionError:
        return PositionError(
            "the segment was deleted before it was copied",
            path=self.log.path,
            position=number * self.size,
        )


def write_sparse(file: BinaryIO, content: bytes | memoryview) -> None:
    for start in range(0, len(content), _HOLE_BYTES):
        part = bytes(content[start : start + _HOLE_BYTES])  # a view compares byte by byte
        if part == _ZEROS[: len(part)]:
            file.seek(len(part), os.SEEK_CUR)
        else:
            file.write(part)

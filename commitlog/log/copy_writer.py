"""CopyWriter: write the segments of a log byte for byte as another log has them.

It is the second writer of segments, beside the appender: a copy that follows a primary is written
with it. Each step can be killed: a header is durable before its segment has a name, frames are
shown only after their CRCs were checked, and the checkpoint never has an end that is not durable.
"""

from __future__ import annotations

import contextlib
import os

from commitlog._kernel.memory import MODE_POOLED, STATE_NONE, STATE_READY, write_checkpoint
from commitlog._kernel.segments import (
    CELL_SIZE,
    FRAME_ALIGN,
    HEADER_SIZE,
    SEAL_AT,
    SEAL_SIZE,
    Segment,
    start_writeback,
)
from commitlog.base.boot import boot_id
from commitlog.base.failpoint import failpoint
from commitlog.base.host import host
from commitlog.base.regular_file import write_whole
from commitlog.errors import CommitLogError, FencedError
from commitlog.flush import checkpoint as checkpoints
from commitlog.log.opened import Opened
from commitlog.log.written_end import WrittenEnd
from commitlog.recovery.cut import FORK, find_cut, take_out
from commitlog.recovery.location import Location
from commitlog.retention import stored_mark
from commitlog.segment.blocks import make_solid
from commitlog.segment.directory import LogDirectory, segment_name
from commitlog.segment.lock_file import new_holder
from commitlog.segment.new_file import put_new_file
from commitlog.segment.segment_header import Seal, SegmentHeader

_CHECKPOINT_INTERVAL_S = 1.0
_UNFLUSHED_BYTES = 32 << 20  # while more frames come
_WRITTEN_BYTES = 64 << 10  # from here on frames are written, not copied into the mapped file


class CopyWriter:
    """Write headers, frames and seals of segments, in the order of their positions.

    One thread at a time may use it. Positions and sizes are in bytes. A method that gets something
    that does not fit the log changes nothing, and raises `ValueError`; its text says what was
    wrong, such as "damaged frames", for an error that names the sender.

    Parameters
    ----------
    opened : Opened
        The log, locked and recovered. It is closed with the writer.

    Attributes
    ----------
    path : str
        The log's directory.

    Raises
    ------
    IOFailureError, DiskFullError
        The disk cannot be written.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.path = opened.directory.path
        self._directory = directory = opened.directory
        self._cursors = opened.cursors
        self._size = directory.segment_size
        self._segment: Segment | None = None
        end = directory.identity.past_header(opened.end)
        self._number, self._offset = divmod(end, self._size)
        self._durable = self.end
        self._failure: CommitLogError | None = None  # of a write or a flush
        self._cut_short = False
        self._count = opened.checkpoint_count
        self._marked_s = 0.0
        self._closed = False
        if directory.has(self._number):
            make_solid(directory, self._number)
        self._written = WrittenEnd(directory, self._number, self._offset)
        self._checkpoint_fd = checkpoints.open_for_writing(directory.fd)
        try:
            self._begin()
        except BaseException:
            os.close(self._checkpoint_fd)
            raise

    def _begin(self) -> None:
        self._unmark()
        cursors, lock_file = self._cursors, self._opened.lock_file
        cursors.mode = MODE_POOLED
        cursors.allocated = 0, 0  # each segment has all of its blocks
        assert lock_file is not None  # of an exclusive lock
        lock_file.write(new_holder(boot_id(), os.fstat(self._directory.fd).st_ino))
        cursors["state"] = STATE_READY

    # --- state ------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """Return the end of what was written, and where the next frame is written."""
        return self._number * self._size + self._offset

    @property
    def durable(self) -> int:
        """Return the end of what is durable."""
        return self._durable

    @property
    def first(self) -> int:
        """Return where the oldest segment begins."""
        return self._directory.segment_numbers()[0] * self._size

    def unsealed(self) -> list[int]:
        """Return the numbers of the whole segments without a seal."""
        numbers = [number for number in self._directory.segment_numbers() if number < self._number]
        return [number for number in numbers if not self._is_sealed(number)]

    def _is_sealed(self, number: int) -> bool:
        page = self._directory.read_header(number)
        return page is not None and self._seal(page, number) is not None

    def _seal(self, page: bytes, number: int) -> Seal | None:
        return SegmentHeader(page).seal_of(self._directory.identity, number)

    # --- writing ----------------------------------------------------------------------------------

    def header(self, number: int, page: bytes) -> None:
        """Begin the segment at the end of the log durably, or check that it is the same one.

        Parameters
        ----------
        number : int
            Its base position divided by the segment size.
        page : bytes
            Its first 4096 bytes. A seal in them is left out: see `seal`.

        Raises
        ------
        ValueError
            The page is damaged or another segment's, or another segment is next.
        FencedError
            The log has another segment with records here.
        """
        check_page(self._directory, number, page)
        page = SegmentHeader.without_seal(page)
        if number != self._number:
            raise ValueError(f"the header of segment {number}, and segment {self._number} is next")
        if self._directory.has(number):
            own = self._directory.read_header(number)
            if own is not None and _identified(own) == _identified(page):
                return
            if self._offset > HEADER_SIZE:
                raise FencedError(
                    "the copy and the primary have different segments here: they diverged; keep "
                    "what you need of the copy, remove it, and follow again",
                    path=self._directory.path,
                    position=number * self._size,
                )
            self._release()
            self._directory.remove_segment(number)  # recovery made it, and it is empty
        place_segment(self._directory, number, page)

    def frames(self, position: int, content: bytes | memoryview, *, more: bool = False) -> None:
        """Write whole frames at the end, check the CRC of each, and show them to readers.

        Parameters
        ----------
        position : int
            Where they begin: `end`.
        content : bytes-like
            At most up to the end of their segment.
        more : bool
            More frames follow at once, so up to 32 MiB are made durable together. By default, and
            at the end of a segment, the frames are durable when this returns.

        Raises
        ------
        ValueError
            They do not begin at the end, reach beyond their segment, come before its header, or
            are damaged.
        IOFailureError, DiskFullError, ReadOnlyError
            The write or a flush failed, now or before: see `sync`.
        """
        self._check_failure()
        if position != self.end:
            raise ValueError(f"position {position}, and the copy goes on elsewhere")
        start, stop = self._offset, self._offset + len(content)
        if len(content) % FRAME_ALIGN or not start < stop <= self._size:
            raise ValueError("frames that do not fit their segment")
        segment = self._writable()
        # The first cell last: until then readers see the end of the log here.
        self._put(segment, start + CELL_SIZE, memoryview(content)[CELL_SIZE:])
        segment.write(start, content[:CELL_SIZE])
        scanned, code = segment.scan(start, stop)[:2]
        if code != 0 or scanned != stop:
            segment.write(start, bytes(len(content)))
            raise ValueError("damaged frames: run `commitlog verify` there")
        self._written.note(self._number, start, content)
        self._show(stop)
        if more and stop < self._size and self.end - self._durable < _UNFLUSHED_BYTES:
            with self._directory.opened_file(self._number, os.O_RDWR) as fd:
                start_writeback(fd, start, stop)
            return
        self.sync()
        if stop == self._size:
            self._release()
            self._number, self._offset = self._number + 1, HEADER_SIZE
            self._durable = self.end

    def _put(self, segment: Segment, offset: int, content: memoryview) -> None:
        if len(content) < _WRITTEN_BYTES:
            segment.write(offset, content)
            return
        # One call instead of a fault for each page.
        try:
            with (
                self._directory.translate_errors("write the frames of a copy"),
                self._directory.opened_file(self._number, os.O_RDWR) as fd,
            ):
                write_whole(fd, content, offset)
        except CommitLogError as error:
            # Some of it may be behind the end, which then has no clean mark: a recovery clears it.
            self._failure = error
            raise

    def _show(self, stop: int) -> None:
        """Move the end, after the frames: a recovery treats a zero cell below the tail as a dead
        claim.
        """
        self._offset = stop
        cursors = self._cursors
        cursors.tail = self._number, stop
        cursors["appended"] = self.end
        cursors["committed"] = self.end
        cursors.wake_readers()
        failpoint("frames written")

    def seal(self, number: int, page: bytes) -> None:
        """Write the seal of a whole segment durably; `page` is its header with the seal.

        Raises
        ------
        ValueError
            The page is damaged, another segment's, or without a seal; or the segment is not whole.
        """
        check_page(self._directory, number, page)
        if number >= self._number or not self._directory.has(number):
            raise ValueError("a seal before its frames")
        seal, own = self._seal(page, number), self._directory.read_header(number)
        if seal is None or own is None or SegmentHeader(own).segment_id != seal.segment_id:
            raise ValueError("a seal that is not its segment's")
        with self._directory.opened_file(number, os.O_RDWR) as fd:
            write_whole(fd, page[SEAL_AT : SEAL_AT + SEAL_SIZE], SEAL_AT)
            os.fsync(fd)
        failpoint("seal written")

    def sync(self) -> int:
        """Make durable what was written, and return its end.

        If a write or a flush has failed, raise its error again: the next flush would succeed
        without a write.
        """
        self._check_failure()
        if self.end > self._durable:
            base = self._number * self._size
            try:
                self._writable().flush(self._durable - base, self._offset)
            except CommitLogError as error:
                self._failure = error
                raise
            self._cursors.end_flush(self.end)
            self._durable = self.end
            failpoint("frames flushed")
        return self._durable

    def check_in_place(self) -> None:
        """Raise `FencedError` if what was written is not in the log at the path any more."""
        with self._directory.translate_errors("compare the copy with its path"):
            if self._written.is_there():
                return
        raise FencedError(
            "the files of this copy were replaced or removed while it was followed, such as by a "
            "backup: it may lack records and promises that it gave. Remove it and follow again, or "
            "go on with it as a new copy: `commitlog follow --restored`, or restored=True",
            path=self._directory.path,
            position=self.end,
        )

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def cut(self, position: int, save_as: str = FORK) -> None:
        """Remove everything from a position on durably; save its records to `<segment>` with the
        suffix `save_as` first. Close the writer then, and open the log again.

        A kill at any step leaves a log that ends at the position or above it: cut it again then.

        Raises
        ------
        ValueError
            The log does not reach the position, or its segment was deleted.
        """
        if not self.first <= position <= self.end:
            raise ValueError(f"position {position}, which is not in the log")
        self._release()
        self._cut_short = True  # until what was above the position is gone
        stored_mark.forget(self._directory)
        self._number, self._offset = divmod(position, self._size)
        self._durable = position
        self._unmark()  # a recovery begins here from now on
        # Open readers stay behind with these; new ones take the end from the log's files.
        self._cursors["state"] = STATE_NONE
        self._cursors["cut"] = position + 1
        failpoint("fork found")
        numbers, location = self._directory.segment_numbers(), Location(self._number, self._offset)
        found = find_cut(self._directory, numbers, location)
        if found is not None:
            take_out(self._directory, found, save_as)
        self._cut_short = False

    def mark(self) -> None:
        """Write the durable end into `checkpoint`, for recoveries; at most once a second."""
        if host.monotonic() - self._marked_s >= _CHECKPOINT_INTERVAL_S:
            self._mark(clean=False)

    def close(self) -> None:
        """Make durable what was written, mark the log as closed cleanly, and release its lock; a
        second call does nothing.

        If a write, a flush or a cut fails or has failed, the next open recovers the log.
        """
        if self._closed:
            return
        self._closed = True
        try:
            with contextlib.suppress(CommitLogError):  # noted in `_failure`
                self.sync()
            self._release()
            if self._written.is_there():  # else the end of other files is elsewhere
                self._mark(clean=self._failure is None and not self._cut_short)
        finally:
            os.close(self._checkpoint_fd)
            self._opened.close()

    # --- files ------------------------------------------------------------------------------------

    def _writable(self) -> Segment:
        if self._segment is None:
            if not self._directory.has(self._number):
                raise ValueError("frames before their segment")
            self._segment = self._directory.open_segment(self._number, writable=True)
        return self._segment

    def _release(self) -> None:
        if self._segment is not None:
            self._segment.release()
            self._segment = None

    def _unmark(self) -> None:
        """Remove the clean mark, in both records of the file: see `LogParts._announce`."""
        for _ in range(2):
            self._mark(clean=False)

    def _mark(self, *, clean: bool) -> None:
        self._count += 1
        self._marked_s = host.monotonic()
        uuid = self._directory.log_uuid
        with self._directory.translate_errors("write the checkpoint of a copy"):
            write_checkpoint(self._checkpoint_fd, uuid, self._count, self._durable, clean)


def _identified(page: bytes) -> tuple[bytes, int, int, int]:
    header = SegmentHeader(page)
    return header.log_uuid, header.segment_id, header.base, header.segment_size


def check_page(directory: LogDirectory, number: int, page: bytes) -> None:
    """Refuse a header page that is not that segment's: `ValueError`."""
    if not 0 <= number * directory.segment_size < 1 << 63 or not SegmentHeader(page).is_of(
        directory.identity, number
    ):
        raise ValueError("a damaged header")


def place_segment(directory: LogDirectory, number: int, page: bytes) -> None:
    """Put a segment in place durably, with all of its blocks: a full disk must not turn a store
    through a mapping into SIGBUS.
    """
    size = directory.segment_size
    with directory.translate_errors(f"create a segment of {size} bytes"):
        put_new_file(directory.fd, segment_name(number * size), page, size)
    directory.sync()
    failpoint("segment placed")

"""Replica: the directory that a follower writes, byte for byte as its primary."""

from __future__ import annotations

import os
import shutil
import threading
import time
from dataclasses import replace

from commitlog._kernel.memory import MODE_POOLED, STATE_READY, write_checkpoint
from commitlog._kernel.segments import (
    CELL_SIZE,
    FRAME_ALIGN,
    HEADER_SIZE,
    SEAL_AT,
    SEAL_SIZE,
    Segment,
    header_fields,
    read_seal,
    start_writeback,
)
from commitlog.base.boot import boot_id
from commitlog.base.failpoint import failpoint
from commitlog.base.regular_file import write_whole
from commitlog.errors import CommitLogError, FencedError, LogLockedError, ReplicationError
from commitlog.flush import checkpoint as checkpoints
from commitlog.log.opened import Opened
from commitlog.log.opening import open_for_writing
from commitlog.options import Options
from commitlog.recovery import lineage
from commitlog.recovery.admission import is_restored
from commitlog.recovery.cut import FORK, find_cut, take_out
from commitlog.recovery.lineage import Lineage, Rank
from commitlog.recovery.location import Location
from commitlog.replication.digests import Digests
from commitlog.replication.followed_mark import FollowedMark
from commitlog.replication.new_replica import check_page, place_segment
from commitlog.replication.promise import Asked, Standing, standing_of
from commitlog.replication.wire import Chunk
from commitlog.retention import stored_mark
from commitlog.segment.blocks import make_solid
from commitlog.segment.directory import LogDirectory
from commitlog.segment.lock_file import new_holder

_SCHEMAS = "topics"  # a folder: a copy of the schemas of messages
_CHECKPOINT_INTERVAL_S = 1.0
_UNFLUSHED_BYTES = 32 << 20  # while more chunks come
_WRITTEN_BYTES = 64 << 10  # from here on a chunk is written, not copied into the mapped file


def fence_closed(path: str, asked: Asked) -> tuple[Rank, Standing]:
    """Have a log promise an epoch that no follower and no writer has open."""
    replica = Replica(path)
    try:
        return replica.promise(asked)
    finally:
        replica.close()


class Replica:
    """The files of a follower, locked and recovered: it writes chunks and shows them to readers.

    Parameters
    ----------
    path : str
        A directory with `log.json`, `epoch` and at least one segment.
    restored : bool
        Go on with a directory that was restored or cloned, as a new copy.
    checked : bool
        The caller has checked that already.
    """

    def __init__(self, path: str, *, restored: bool = False, checked: bool = False) -> None:
        opened = open_for_writing(path, "a", Options(wait_for_log=0), follower=True)
        try:
            if not opened.exclusive or opened.lock_file is None:
                raise LogLockedError(
                    "the log is open for writing, so it cannot follow: close it", path=path
                )
            self._opened: Opened = opened
            self.directory = opened.directory
            self.lineage = (
                lineage.read(opened.directory)
                if checked
                else self._admitted(opened.directory, restored=restored)
            )
            self.digests = Digests(opened.directory)
            self.followed = FollowedMark(opened.directory)
            self.follows_primary = False  # and not another copy of it
            # Held by the thread that writes here, or that changes the lineage.
            self.lock = threading.Lock()
            self._size = opened.directory.segment_size
            self._segment: Segment | None = None
            self._number, self._offset = divmod(opened.end, self._size)
            self._offset = max(self._offset, HEADER_SIZE)
            self._durable = self._number * self._size + self._offset
            if self.directory.has(self._number):
                make_solid(self.directory, self._number)
            self._checkpoint_fd = checkpoints.open_for_writing(self.directory.fd)
        except BaseException:
            opened.close()
            raise
        self._closed = False
        self._failure: CommitLogError | None = None  # of a flush
        self._count = opened.checkpoint_count
        self._checked_at = 0.0
        for _ in range(2):  # in both records of the file: see `LogParts._announce`
            self._mark(clean=False)
        cursors = opened.cursors
        cursors.mode = MODE_POOLED
        cursors.allocated = 0, 0  # each segment has all of its blocks
        opened.lock_file.write(new_holder(boot_id(), os.fstat(self.directory.fd).st_ino))
        cursors["state"] = STATE_READY

    @staticmethod
    def _admitted(directory: LogDirectory, *, restored: bool) -> Lineage:
        """Return the lineage; refuse a directory that is another one than before."""
        known = lineage.read(directory)
        if is_restored(directory):
            if not restored:
                raise FencedError(
                    "this directory is another one than before: it was restored from a backup, "
                    "cloned, or moved to another file system, so it may lack records and promises "
                    "that it gave. Remove it and follow again, or go on with it as a new copy: "
                    "`commitlog follow --restored`, or restored=True",
                    path=directory.path,
                )
            known = replace(known, member="")
        # Written anew each time, so that an older state of the directory shows.
        return lineage.write(directory, known) if known.is_replicated else known

    @property
    def position(self) -> int:
        """The end of what is durable here."""
        return self._durable

    @property
    def is_fenced(self) -> bool:
        """Whether the copy has promised an epoch that it does not have yet."""
        return self.lineage.promised > self.lineage.rank

    def identified(self) -> Lineage:
        """Return the lineage, with an id of this log."""
        with self.lock:
            if not self.lineage.member:
                self.lineage = lineage.write(self.directory, self.lineage)
            return self.lineage

    def adopt(self, new: Lineage) -> None:
        """Record the primary's lineage durably, before frames of a new epoch."""
        if new != self.lineage:
            self.lineage = lineage.write(self.directory, new)
            failpoint("lineage adopted")

    def promise(self, asked: Asked) -> tuple[Rank, Standing]:
        """Promise durably to follow nothing below an epoch, unless a higher one was promised.

        Returns what is promised now, and the standing, which does not change before that epoch.
        """
        with self.lock:
            if self._closed:
                raise ReplicationError(
                    "the copy is closed or cut at this moment: ask again", path=self.directory.path
                )
            self.sync()
            new = asked.answered(self.lineage)
            if new != self.lineage:
                self.lineage = lineage.write(self.directory, new)
                failpoint("fence written")
            return self.lineage.promised, standing_of(self.lineage, self.position, self._size)

    def cut(self, position: int) -> None:
        """Cut the records from a position on, which the primary's log does not have; save them to
        `<segment>.fork`. The copy has to be closed and opened again.
        """
        numbers = self.directory.segment_numbers()
        if position < numbers[0] * self._size:
            raise FencedError(
                f"this log and its primary diverged at {position}, and the segments before are "
                "deleted here: keep what you need of this log, remove it, and follow again",
                path=self.directory.path,
                position=position,
            )
        self.followed.lower(position)
        self._release()
        stored_mark.forget(self.directory)
        # It may name schemas that are cut, and is made again from those in the segments.
        shutil.rmtree(os.path.join(self.directory.path, _SCHEMAS), ignore_errors=True)
        self._number, self._offset = divmod(position, self._size)
        self._durable = position
        for _ in range(2):  # in both records of the file; a recovery begins here from now on
            self._mark(clean=False)
        failpoint("fork found")
        found = find_cut(self.directory, numbers, Location(self._number, self._offset))
        if found is not None:
            take_out(self.directory, found, FORK)

    def unsealed(self) -> list[int]:
        """Return the whole segments without a seal."""
        numbers = [number for number in self.directory.segment_numbers() if number < self._number]
        return [number for number in numbers if not self._is_sealed(number)]

    def _is_sealed(self, number: int) -> bool:
        page = self.directory.read_header(number)
        uuid = self.directory.log_uuid
        return page is not None and bool(read_seal(page, uuid, number * self._size, self._size))

    def write(self, chunk: Chunk) -> None:
        """Write a chunk, show it to readers, and make it durable; refuse one that does not fit.

        If more chunks come at once, because the primary has flushed beyond this one, several are
        made durable together.
        """
        with self.directory.translate_errors("write the copy"):
            if chunk.header:
                self._write_header(chunk)
            elif chunk.frames:
                self._write_frames(chunk)
            if self.follows_primary:  # a copy flushes what its primary may not have flushed yet
                self.followed.note(min(chunk.flushed, self._durable), chunk.flushed)
            if time.monotonic() - self._checked_at >= _CHECKPOINT_INTERVAL_S:
                self._mark(clean=False)

    def _write_header(self, chunk: Chunk) -> None:
        check_page(self.directory, chunk.number, chunk.header)
        if chunk.offset == self._size:
            self._write_seal(chunk)
            return
        self._expect(chunk)
        if not self.directory.has(chunk.number):
            place_segment(self.directory, chunk.number, chunk.header)
            return
        own = self.directory.read_header(chunk.number)
        if own is not None and header_fields(own)[:4] == header_fields(chunk.header)[:4]:
            return
        if self._offset > HEADER_SIZE:
            raise FencedError(
                "the copy and the primary have different segments here: they diverged; keep what "
                "you need of the copy, remove it, and follow again",
                path=self.directory.path,
                position=chunk.number * self._size,
            )
        self._release()
        self.directory.remove_segment(chunk.number)  # recovery made it, and it is empty
        place_segment(self.directory, chunk.number, chunk.header)

    def _write_seal(self, chunk: Chunk) -> None:
        number, base = chunk.number, chunk.number * self._size
        if number >= self._number or not self.directory.has(number):
            raise ReplicationError("a seal came before its frames", path=self.directory.path)
        seal = read_seal(chunk.header, self.directory.log_uuid, base, self._size)
        own = self.directory.read_header(number)
        if seal is None or own is None or header_fields(own)[1] != seal[0]:
            raise ReplicationError("a seal is not its segment's", path=self.directory.path)
        with self.directory.opened_file(number, os.O_RDWR) as fd:
            write_whole(fd, chunk.header[SEAL_AT : SEAL_AT + SEAL_SIZE], SEAL_AT)
            os.fsync(fd)
        failpoint("seal written")

    def _write_frames(self, chunk: Chunk) -> None:
        self._expect(chunk)
        frames, start = chunk.frames, self._offset
        stop = start + len(frames)
        if len(frames) % FRAME_ALIGN or stop > self._size:
            raise ReplicationError("frames do not fit their segment", path=self.directory.path)
        segment = self._writable()
        # The first cell last: until then readers see the end of the log here.
        self._put(segment, start + CELL_SIZE, memoryview(frames)[CELL_SIZE:])
        segment.write(start, frames[:CELL_SIZE])
        scanned, code = segment.scan(start, stop)[:2]
        if code != 0 or scanned != stop:
            segment.write(start, bytes(len(frames)))
            raise ReplicationError(
                "the primary sent damaged frames: run `commitlog verify` there",
                path=self.directory.path,
                position=self.position,
            )
        cursors = self._opened.cursors
        end = self._number * self._size + stop
        # After the frames: a recovery treats a zero cell below the tail as a dead claim.
        cursors.tail = self._number, stop
        cursors["appended"] = end
        cursors["committed"] = end
        cursors.wake_readers()
        failpoint("frames written")
        self._offset = stop
        if end < chunk.flushed and stop < self._size and end - self._durable < _UNFLUSHED_BYTES:
            with self.directory.opened_file(self._number, os.O_RDWR) as fd:
                start_writeback(fd, start, stop)
            return
        self.sync()
        if stop == self._size:
            self._release()
            self._number, self._offset = self._number + 1, HEADER_SIZE
            self._durable = end + HEADER_SIZE

    def _put(self, segment: Segment, offset: int, content: memoryview) -> None:
        if len(content) < _WRITTEN_BYTES:
            segment.write(offset, content)
        else:  # one call instead of a fault for each page
            with self.directory.opened_file(self._number, os.O_RDWR) as fd:
                write_whole(fd, content, offset)

    def sync(self) -> None:
        """Make durable what was written; the caller holds the lock.

        If a flush has failed, raise its error again: the next one would succeed without a write.
        """
        base = self._number * self._size
        end = base + self._offset
        if self._failure is not None:
            raise self._failure
        if end > self._durable:
            try:
                self._writable().flush(self._durable - base, self._offset)
            except CommitLogError as error:
                self._failure = error
                raise
            self._opened.cursors.end_flush(end)
            self._durable = end
            failpoint("frames flushed")

    def _expect(self, chunk: Chunk) -> None:
        if (chunk.number, chunk.offset) != (self._number, self._offset):
            raise ReplicationError(
                f"the primary sent position {chunk.number * self._size + chunk.offset}, and the "
                "copy goes on elsewhere",
                path=self.directory.path,
                position=self.position,
            )

    def _writable(self) -> Segment:
        if self._segment is None:
            if not self.directory.has(self._number):
                raise ReplicationError("frames came before their segment", path=self.directory.path)
            self._segment = self.directory.open_segment(self._number, writable=True)
        return self._segment

    def _release(self) -> None:
        if self._segment is not None:
            self._segment.release()
            self._segment = None

    def _mark(self, *, clean: bool) -> None:
        self._count += 1
        self._checked_at = time.monotonic()
        uuid = self.directory.log_uuid
        write_checkpoint(self._checkpoint_fd, uuid, self._count, self.position, clean)

    def close(self) -> None:
        """Mark the copy as closed cleanly, and release its lock; a second call does nothing.

        If a flush has failed, the next open recovers the copy, and writes its end once more.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._release()
            self._mark(clean=self._failure is None)
        finally:
            os.close(self._checkpoint_fd)
            self._opened.close()

"""Sender: the chunks of one log for one follower."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from commitlog.base.host import host
from commitlog.errors import CorruptRecordError, PositionError, ReplicationError
from commitlog.extension import FRAME_ALIGN, HEADER_SIZE, SegmentHeader
from commitlog.network.remote.wire import HEARTBEAT_S, number_of
from commitlog.network.replication import wire
from commitlog.network.replication.served import Served
from commitlog.network.replication.wire import CHUNK_BYTES, SEALS_LIMIT, Chunk

_SLEEP_S = 0.02  # in the kernel; a flush ends it


class Sender:
    """Send what the log has flushed, from a position on, and then what it flushes later.

    If the log is served ahead, committed records are sent while their flush runs, so that the
    copy's flush runs at the same time. A crash of the primary's machine may take these from it:
    its recovery is in the file `epoch` then, and copies are cut there. The end of a segment is sent
    only when it is flushed, so a whole segment of a copy is never cut.
    """

    def __init__(self, served: Served, position: int, unsealed: list[int]) -> None:
        log = served.log
        self._served = served
        self._view = served.view
        self._log = log
        self._size = log.segment_size
        self.sent = self._view.identity.past_header(position)  # the end of what the follower has
        self._number, self._offset = divmod(self.sent, self._size)
        self._unsealed = unsealed[:SEALS_LIMIT]
        self._version = self._view.epochs.version()
        self._acknowledged = served.acknowledged

    def chunks(self) -> Iterator[Chunk]:
        """Yield chunks until the server stops or the log is promoted."""
        view, begun, sent_at = self._view, False, 0.0
        if self._number * self._size == view.first_position:
            # A new copy needs a segment at once. The header of a later one is not complete before
            # it has frames.
            begun = True
            yield self._header(self._number, self._log.flushed_position, sealed=False)
        while not self._served.stopping.is_set():
            seen = view.signal("flush")
            flushed = self._log.flushed_position
            end = self._end(flushed)
            # After `end`: an epoch is in its file before its first record is committed.
            if self._view.epochs.version() != self._version:
                return  # the follower adopts the new epoch when it connects again
            has_more = end > self._number * self._size + self._offset
            is_silent = host.monotonic() - sent_at >= HEARTBEAT_S
            chunks: list[Chunk] = []
            if has_more:
                if not begun:
                    begun = True
                    chunks.append(self._header(self._number, flushed, sealed=False))
                chunks += self._frames(end, flushed)
            elif is_silent:
                self._served.drop_overwritten()
            if self._is_replaced:
                return  # the follower compares its records when it connects again
            if self._unsealed:
                yield from self._seals(flushed)
            yield from chunks
            if has_more:
                if self._offset >= self._size:
                    self._unsealed.append(self._number)
                    self._number, self._offset, begun = self._number + 1, HEADER_SIZE, False
                sent_at = host.monotonic()
                # What came after `seen` ends the sleep at once.
                if self._number * self._size + self._offset < end:
                    continue
            elif is_silent:
                sent_at = host.monotonic()
                view.refresh()
                yield Chunk(self._number, self._offset, flushed)
            self._served.acknowledged.show()  # what a flush that has ended completes
            view.wait("flush", seen, _SLEEP_S)

    def _header(self, number: int, flushed: int, *, sealed: bool) -> Chunk:
        page = self._view.header(number)
        if page is None or len(page) != HEADER_SIZE:
            raise self._missing(number)
        if not sealed:  # the seal follows when all frames are there
            page = SegmentHeader.without_seal(page)
        offset = self._size if sealed else self._offset
        return Chunk(number, offset, flushed, header=page)

    def _end(self, flushed: int) -> int:
        """Return the end of what may be sent now."""
        committed = self._log.committed_position if self._served.ahead else flushed
        return committed if committed // self._size == self._number else flushed

    @property
    def _is_replaced(self) -> bool:
        return self._served.acknowledged is not self._acknowledged

    def _frames(self, end_of_log: int, flushed: int) -> list[Chunk]:
        """Return the next frames; nothing if other ones were written over those before."""
        base = self._number * self._size
        stop = min(self._size, self._offset + CHUNK_BYTES, end_of_log - base)
        # If the log is served ahead, its writer has it open all the time.
        digests = not self._served.ahead
        copied = self._view.copy_frames(self._number, self._offset, stop, digests=digests)
        if copied is None:
            raise self._missing(self._number)
        # After the copy: what was written over the files before it differs from what was sent.
        self._served.drop_overwritten()
        if self._is_replaced:
            return []
        frames = copied.frames
        if not frames:
            raise CorruptRecordError(
                f"the frame here is damaged (code {copied.code}), and no follower gets past it: "
                "run `commitlog verify` on the log",
                path=self._log.path,
                position=base + self._offset,
            )
        if digests:
            self._served.note_sent(base + self._offset, len(frames), copied.digest)
        chunk = Chunk(self._number, self._offset, flushed, copied.crc, frames=frames)
        self._offset += len(frames)
        # Before the follower has them, so that its acknowledgement is not above.
        self.sent = self._view.identity.past_header(base + self._offset)
        return [chunk]

    def _seals(self, flushed: int) -> Iterator[Chunk]:
        """Yield the headers of whole segments that have got their seals."""
        for number in list(self._unsealed):
            page = self._view.header(number)
            if page is None or len(page) != HEADER_SIZE:
                self._unsealed.remove(number)  # deleted; the copy seals it at its promotion
            elif SegmentHeader(page).seal_of(self._view.identity, number) is not None:
                self._unsealed.remove(number)
                yield self._header(number, flushed, sealed=True)

    def _missing(self, number: int) -> PositionError:
        return PositionError(
            "the log no longer has the segment that the follower needs next: remove the copy and "
            "follow again, and let the log keep more",
            path=self._log.path,
            position=number * self._size,
        )


def flushed_chunks(served: Served, content: dict[str, Any]) -> Iterator[Chunk]:
    """Yield the chunks from a position on that a follower asks for, up to what is flushed now."""
    position = number_of(content, "position", "the follower")
    unsealed = wire.numbers_of(content, "unsealed", "the follower")
    end = served.log.flushed_position
    if position % FRAME_ALIGN or position > served.view.identity.past_header(end):
        raise ReplicationError(f"the follower asks for position {position}, and the end is {end}")
    sender = Sender(served, position, unsealed)
    for chunk in sender.chunks():
        yield chunk
        if not chunk.header and sender.sent >= end:  # frames follow the header of their segment
            return

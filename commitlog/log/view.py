"""LogView: an open log as an extension sees it."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from commitlog._kernel.engine import (
    RecordList,
    announce_sleeper,
    copied_signal,
    flush_signal,
    headers_length,
    wait_append,
    wait_copied,
    wait_flush,
    wake_sleepers,
)
from commitlog._kernel.failure import REPLACED
from commitlog._kernel.readers import Selection
from commitlog._kernel.segments import Segment, copy_frames
from commitlog.base.host import host
from commitlog.base.name import check_name
from commitlog.base.path import open_directory
from commitlog.errors import NotALogError, ReadOnlyError
from commitlog.log.async_append import append_list_async
from commitlog.log.frame_list import frame_length, list_frames
from commitlog.log.parts import LogParts, Mode
from commitlog.log.producers import checked
from commitlog.log.scan import Scan
from commitlog.log.snapshot import Snapshot, take_snapshot
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.join_note import Manifest
from commitlog.segment import identity as identities
from commitlog.segment.identity import Identity
from commitlog.segment.notes import Notes
from commitlog.segment.segment_header import Seal
from commitlog.stats import FlowStats, TopicStats
from commitlog.tail import tailer_state
from commitlog.tail.tailer_state import TailerState

Event = Literal["append", "flush", "copied"]
T = TypeVar("T")

_SIGNALS = {
    "append": (announce_sleeper, wait_append),
    "flush": (flush_signal, wait_flush),
    "copied": (copied_signal, wait_copied),
}


class FrameCopy(NamedTuple):
    """A copy of frames.

    Attributes
    ----------
    crc : int
        The CRC-32C of the frames.
    code : int
        Why the copy ends before it was to; 0 if it does not.
    digest : int
        What `Segment.digest` returns for the frames alone, if it was asked for.
    """

    frames: bytes | memoryview
    crc: int
    code: int
    digest: int


class LogView:
    """What an open log offers to extensions beyond the methods of `CommitLog`, by `view_of`.

    A view keeps no `CommitLog` alive, and is used while the log is open.
    Positions and sizes are in bytes.

    Attributes
    ----------
    holds : dict
        What `hold` has added: see there.
    """

    def __init__(self, parts: LogParts) -> None:
        self._parts = parts
        self.holds: dict[str, Callable[[], int | None]] = {}

    @cached_property
    def epochs(self) -> Epochs:
        """Under which epochs the log was written, and which log it follows."""
        return Epochs(self._parts.directory)

    @cached_property
    def notes(self) -> Notes:
        """The small files of extensions in the log's directory."""
        return Notes(self._parts.directory)

    # --- the log ----------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        return self._parts.path

    @property
    def mode(self) -> Mode:
        return self._parts.mode

    @property
    def identity(self) -> Identity:
        """Uuid, segment size, roll cycle and timestamps, as `log.json` fixes them."""
        return self._parts.identity

    def check_open(self) -> None:
        """Raise `ClosedError` if the log was closed, `FencedError` if it was cut at a fork."""
        self._parts.check_open()
        self._parts.engine.check_cut()

    def is_at(self, path: str) -> bool:
        """Return whether a path still leads to this log, and not to another one or to none.

        An open log keeps its directory's inode, so that a later directory has another one. A log
        that was cut at a fork is another one for handles of before.
        """
        if self.is_cut:
            return False
        try:
            fd = open_directory(path)
        except (FileNotFoundError, NotALogError):
            return False
        try:
            identity = identities.read(fd, path)
            status = os.fstat(fd)
            return (
                identity is not None
                and identity.uuid == self.identity.uuid
                and (status.st_dev, status.st_ino) == self._parts.directory.inode
            )
        finally:
            os.close(fd)

    @property
    def is_cut(self) -> bool:
        """Whether the log was cut at a fork since it was opened here: positions and segments raise
        `FencedError` then.
        """
        return self._parts.engine.is_cut

    def fail_replaced(self) -> None:
        """Fail the log for all processes, because another log or writer has taken its place: each
        append raises `FencedError` from now on.
        """
        self._parts.engine.fail(REPLACED)

    def refresh(self) -> None:
        """Continue with the watermarks of a writer that opened the log after this reader."""
        self._parts.find_cursors()

    # --- watermarks -------------------------------------------------------------------------------

    def signal(self, event: Event) -> int:
        """Return the number of an event: read it, look at the watermark, then `wait` for it."""
        return _SIGNALS[event][0](self._parts.engine)

    def wait(self, event: Event, seen: int, timeout_s: float) -> None:
        """Sleep until an event has another number than `seen`, or the time is over."""
        host.await_event(_SIGNALS[event][1], self._parts.engine, seen, timeout_s)

    def wake_readers(self) -> None:
        """End each wait for the event "append"; those that wait look again."""
        wake_sleepers(self._parts.engine)

    @property
    def committed_position(self) -> int:
        """The end of what readers may see."""
        return int(self._parts.engine.committed_position)

    @property
    def flushed_position(self) -> int:
        """The end of what is durable here."""
        return int(self._parts.engine.flushed_position)

    @property
    def copied_position(self) -> int:
        """The end of what enough copies have durably."""
        return self._parts.engine.cursors["copied"]

    def begin_copies(self) -> None:
        """Have appends announce flushes, and readers wait for copies, from now on; what an earlier
        server knew may be of another epoch.
        """
        self._parts.engine.announce_flushes()
        cursors = self._parts.engine.cursors
        cursors["copied"] = 0
        cursors.raise_replicated(1)

    def raise_copied(self, position: int) -> None:
        """Note that enough copies have everything below a position durably."""
        cursors = self._parts.engine.cursors
        cursors.raise_copied(position)
        cursors.raise_replicated(min(position, self.flushed_position))

    def wake_copied(self) -> None:
        """Wake all who wait for the event "copied"."""
        self._parts.engine.cursors.wake_copied()

    @property
    def tail_position(self) -> int:
        """The end of what is appended, open claims included."""
        return int(self._parts.engine.tail_position)

    def flush(self, timeout_s: float) -> int:
        """Make durable what readers see; return the end of what is durable."""
        engine = self._parts.engine
        engine.flush_to(engine.committed_position, timeout_s)
        return self.flushed_position

    def ask_for_flush(self) -> None:
        """Wake the flush thread of the log's writer, in any process."""
        self._parts.engine.ask_for_flush()

    # --- segments ---------------------------------------------------------------------------------

    def segment_numbers(self) -> list[int]:
        """Return the numbers of all segments, ascending, those allocated ahead included."""
        return self._parts.queue.numbers()

    @property
    def first_position(self) -> int:
        """Where the oldest segment begins."""
        return self._parts.queue.first_number * self.identity.segment_size

    def copy_frames(self, number: int, start: int, stop: int, *, digests: bool) -> FrameCopy | None:
        """Copy whole frames of a segment for another machine, from an offset up to another one; a
        first frame that ends behind `stop` is copied, too. None if there is no such segment.
        """
        with self._parts.queue.held(number, "replication") as segment:
            if segment is None:
                return None
            frames, crc, code = copy_frames(segment, start, stop)
            digest = segment.digest(start, start + len(frames), 0)[1] if digests else 0
            return FrameCopy(frames, crc, code, digest)

    def opened_file(self, number: int) -> AbstractContextManager[int]:
        """Open a segment's file, by its name now, for the length of a `with`."""
        return self._parts.directory.opened_file(number)

    def opened_segment(self, number: int) -> AbstractContextManager[Segment]:
        """Open and map a segment's file, by its name now, for the length of a `with`."""
        return self._parts.directory.opened_segment(number)

    def header(self, number: int) -> bytes | None:
        """Return the header page of a segment; None if it cannot be read."""
        return self._parts.directory.read_header(number)

    def location(self, number: int) -> str:
        """Return where a segment is, for messages."""
        return self._parts.directory.segment_path(number)

    def seal(self, number: int) -> Seal | None:
        """Return the counts and times of a sealed segment; None for another one."""
        return self._parts.index.seals.get(number)

    # --- places -----------------------------------------------------------------------------------

    def sequence_of(self, position: int) -> int:
        """Return how many records are before a position."""
        return self._parts.index.sequence_of(position)

    def position_of(self, sequence: int) -> int:
        """Return the position of the record with a sequence."""
        return self._parts.index.position_of(sequence)

    def position_since(self, timestamp_ns: int) -> int | None:
        """Return the position of the first record at or after a time; None if there is none."""
        return self._parts.index.position_since(timestamp_ns)

    def entry_before(self, position: int) -> int | None:
        """Return the position of the last index entry below a position in its segment."""
        return self._parts.index.entry(position, before=True)

    def listed(
        self, number: int, types: Sequence[int] | None, key: bytes | None
    ) -> NDArray[np.uint32] | None:
        """Return the ascending offsets of at least all records of a segment with one of the types
        and with the key; None if its posting lists do not tell them.
        """
        with self._parts.queue.held(number, "lists") as segment:
            wanted, postings = Selection(types, key), self._parts.index.postings
            return None if segment is None else postings.listed(segment, wanted)

    # --- named tailers ----------------------------------------------------------------------------

    def tailer_state(self, name: str) -> TailerState:
        """Return the state of one named tailer, without its lag; a damaged file is in it. Raise
        `TailerNotFoundError` if there is no such tailer.
        """
        return tailer_state.read_state(self._parts.directory, check_name(name))

    # --- appends ----------------------------------------------------------------------------------

    @property
    def record_list(self) -> partial[RecordList]:
        """What makes a list of records to append, of values, keys, types, a timestamp, a condition,
        what completes the values for their positions, and headers. It has no Python call.
        """
        return partial(RecordList, self._parts.engine)

    @property
    def append_records(self) -> Callable[[RecordList, bool | None], NDArray[np.int64]]:
        """What appends such a list, as `CommitLog.append_many` does, and returns the positions."""
        return self._parts.engine.append_records

    @property
    def append_records_async(
        self,
    ) -> Callable[[RecordList, bool | None], Coroutine[Any, Any, NDArray[np.int64]]]:
        """What appends such a list, as `CommitLog.append_many_async` does."""
        return partial(append_list_async, self._parts)

    def largest_value(self, key: bytes | None = None, type: int = 0) -> int:
        """Return the longest value that a record with a key and a type can have."""
        return self._parts.engine.largest_value + frame_length(0) - frame_length(0, key, type)

    @staticmethod
    def headers_length(headers: Mapping[str, Any] | None) -> int:
        """Check the headers of one record, and return how many bytes they take in front of it."""
        return headers_length(headers)

    def check_producer(self, producer: object, number: object, expect: object) -> tuple[str, int]:
        """Check the arguments of an append of a producer, before something else is appended."""
        return checked(self.path, producer, number, expect)

    def last_producer_sequence(self, producer: str) -> int | None:
        """Return the largest `producer_sequence` that was appended as a producer; None if there is
        none. This handle uses the name from then on, as it does after an append.
        """
        self._parts.check_open()
        checked(self.path, producer, 0, None)
        if self._parts.mode == "r":
            why = "the log was opened for reading: open it with mode 'a' to append as a producer"
            raise ReadOnlyError(why, path=self.path)
        return self._parts.producers.last_number(producer)

    def topic_stats(self, topic: str) -> TopicStats:
        """Return what `CommitLog.stats` reports of a topic; the caller counts in it."""
        return self._parts.topics.setdefault(topic, TopicStats())

    @property
    def flows(self) -> dict[str, Callable[[], FlowStats]]:
        """What moves records from or to the log with this handle, by name: `CommitLog.stats` and
        the metrics report what these functions return. Any thread may call them, while the log is
        open.
        """
        return self._parts.flows

    # --- state ------------------------------------------------------------------------------------

    def state(self, key: type[T], make: Callable[[], T]) -> T:
        """Return the one object of a class that an extension keeps for this handle, to all threads
        the same one.
        """
        known = self._parts.state
        found: T | None = known.get(key)
        return known.setdefault(key, make()) if found is None else found

    def hold(self, name: str, lowest: Callable[[], int | None]) -> None:
        """Have retention and `delete_before` of this handle keep what is at or above the position
        that `lowest` returns to any thread; None: nothing. It replaces a hold of that name.
        """
        self.holds[name] = lowest

    def at_close(self, call: Callable[[], object]) -> None:
        """Call a function when the log is closed, after its last append."""
        self._parts.guests.callback(call)

    # --- figures and scans, for tools and Spark ---------------------------------------------------

    @property
    def grows(self) -> bool:
        """Whether records may still arrive, unlike in an archive or a segment file."""
        return self._parts.grows

    @property
    def is_removed(self) -> bool:
        """Whether the log's directory was removed."""
        return os.fstat(self._parts.directory.fd).st_nlink == 0

    def snapshot(self) -> Snapshot:
        """Return what the files that the processes of the log share say now."""
        return take_snapshot(self._parts)

    def frames(self, number: int, start: int | None, stop: int | None) -> Iterator[dict[str, Any]]:
        """Yield the frames of a segment and what is between them, damaged or not."""
        return list_frames(self._parts, number, start, stop)

    def scan(
        self, start: int | None, end: int | None, columns: Sequence[str] | None, what: str
    ) -> Scan:
        """Return a scan of the records between two positions, with keys and values as Arrow views;
        `what` is the call that needs pyarrow, for the error. The caller keeps the log open.
        """
        return Scan(self._parts, start, end, columns, what, views=True)

    def is_stored(self, number: int) -> bool:
        """Return whether the log's store has a segment whole; the directory may have it, too."""
        return self._parts.directory.is_stored(number)

    def is_older(self, number: int) -> bool:
        """Return whether a segment is in the log's store, and below those of the directory."""
        return self._parts.directory.is_older(number)

    def has_joined(self, query: str, batch: int) -> bool:
        """Return whether the batch of a query, or a later one of it, has joined the log."""
        return Manifest.read(self._parts.directory).has(query, batch)

"""Listener: call a program's own code on segment events, in a separate thread."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from commitlog.base.later_log import LaterLog
from commitlog.base.service import Service
from commitlog.errors import ClosedError
from commitlog.segment.directory import LogDirectory
from commitlog.segment.mapped_file_queue import Event
from commitlog.segment.seal_table import SealTable

_logger = logging.getLogger("commitlog.keep")
_WAITING_MOST = 1024
_FINISH_S = 10.0


@dataclass(frozen=True)
class SegmentInfo:
    """Describe a segment to a listener.

    Attributes
    ----------
    path : str
        The segment's file.
    position : int
        The segment's base.
    size : int
        Bytes of the file.
    records : int or None
        The number of records; None if the segment is not sealed, or deleted.
    first_sequence : int or None
        The sequence of its first record; None likewise.
    first_timestamp_ns, last_timestamp_ns : int or None
        The timestamps of its first and last record; None likewise, and if it has no record.
    """

    path: str
    position: int
    size: int
    records: int | None = None
    first_sequence: int | None = None
    first_timestamp_ns: int | None = None
    last_timestamp_ns: int | None = None


class SegmentListener:
    """Handle segment events. Derive from it, or pass any object that has some of these methods.

    One thread of the log calls them, one after the other. An exception is logged and counted. A
    slow listener delays nothing: up to 1024 events wait, and further ones are dropped and counted
    in `stats().dropped_events`.
    """

    def on_created(self, segment: SegmentInfo) -> None:
        """Handle the creation of a segment, usually ahead of need.

        Segments that exist when the log is opened cause no event.
        """

    def on_sealed(self, segment: SegmentInfo) -> None:
        """Handle the seal of a segment, whose file does not change any more and can be copied."""

    def on_released(self, segment: SegmentInfo) -> None:
        """Handle the unmapping of the segment by this handle.

        The handle keeps up to 16 unused segments mapped, and unmaps all when it is closed.
        """

    def on_deleted(self, segment: SegmentInfo) -> None:
        """Handle the deletion of the segment's file by any process."""


class ListenerService(Service):
    """Queue segment events and call a listener's methods in a thread."""

    def __init__(self, directory: LogDirectory, listener: object) -> None:
        super().__init__(f"commitlog listener {directory.path}")
        self._directory = directory
        self._listener = listener
        self._seals = SealTable(directory)
        # May be filled at any time, also by a finaliser that interrupts it. None ends the thread.
        self._waiting: SimpleQueue[tuple[str, int] | None] = SimpleQueue()
        self._log = LaterLog(_logger)
        self._dropping = False
        self.dropped = 0
        self.failures = 0

    def offer(self, event: Event, number: int) -> None:
        """Queue an event, in the thread that causes it."""
        method = f"on_{event}"
        if not callable(getattr(self._listener, method, None)):
            return
        if self._waiting.qsize() < _WAITING_MOST:
            self._waiting.put((method, number))
            self._dropping = False
            return
        self.dropped += 1
        warned, self._dropping = self._dropping, True
        if not warned:
            self._log.note(
                logging.WARNING,
                "%s: the segment listener is too slow: events are dropped",
                self._directory.path,
            )

    def report(self) -> None:
        """Log that events were dropped. Call this while no lock is held."""
        self._log.report()

    # --- the thread -------------------------------------------------------------------------------

    def run(self) -> None:
        while (event := self._waiting.get()) is not None:
            self._tell(*event)
            self.report()

    def _tell(self, method: str, number: int) -> None:
        try:
            getattr(self._listener, method)(self._describe(number))
        except Exception:
            self.failures += 1
            _logger.exception(
                "%s: %s of the segment listener failed; the log continues",
                self._directory.path,
                method,
            )

    def _describe(self, number: int) -> SegmentInfo:
        path, size = self._directory.segment_path(number), self._directory.segment_size
        try:
            seal = self._seals.get(number)
        except ClosedError:
            seal = None
        if seal is None:
            return SegmentInfo(path, number * size, size)
        times = (
            (seal.first_timestamp_ns, seal.last_timestamp_ns) if seal.record_count else (None, None)
        )
        return SegmentInfo(
            path, number * size, size, seal.record_count, seal.first_sequence, *times
        )

    def finish(self) -> None:
        """Handle the waiting events, for ten seconds at most, and end the thread."""
        self._waiting.put(None)
        if not self.join(_FINISH_S):
            left = 0
            with contextlib.suppress(Empty):
                while self._waiting.get_nowait() is not None:
                    left += 1
            self._waiting.put(None)
            self._log.note(
                logging.WARNING,
                "%s: the segment listener did not finish in time: %d events are dropped",
                self._directory.path,
                left,
            )

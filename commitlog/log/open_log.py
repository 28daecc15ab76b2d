"""OpenLog: the parts of an open log at work."""

from __future__ import annotations

import time
from typing import Any

from commitlog._kernel.engine import REFUSED_FORKED, LogMethods
from commitlog.base.option import switch
from commitlog.errors import InvalidOptionError, ReadOnlyError
from commitlog.log import closing, fork
from commitlog.log.local_places import LocalPlaces
from commitlog.log.opened import Opened
from commitlog.log.parts import LogParts, Mode
from commitlog.log.producers import checked
from commitlog.log.registry import registry
from commitlog.log.view import LogView
from commitlog.log.writer_services import WriterServices
from commitlog.options import Options, ReplicationRule


class OpenLog(LogParts):
    """The parts of an open log, and the engine's policy: what the kernel cannot decide.

    The engine calls `roll_from`, `grow`, `meet_cycle`, `hold_back`, `count_records`, `adopt`,
    `find_cursors`, `adopt_cursors` and `release_files`, with the interpreter's lock held.

    Attributes
    ----------
    view : LogView
        The log as extensions see it.
    """

    view: LogView

    def __init__(self, mode: Mode, opened: Opened, options: Options) -> None:
        self.view = LogView(self)
        self.places = opened.places or LocalPlaces(self)
        super().__init__(mode, opened, options, policy=self)
        registry.add(self)
        if options.replicate is not None:
            self._replicate(options.replicate)

    def _replicate(self, rule: ReplicationRule) -> None:
        try:
            if self.mode == "r":
                raise InvalidOptionError(
                    "replicate= needs a log that is open for writing: use mode 'a', or serve it "
                    "with commitlog.replication.serve",
                    path=self.path,
                )
            self.engine.copies = rule._begin(self.view)
        except BaseException:
            self.close()
            raise

    def writing(self) -> WriterServices:
        """Return the services of a writable log; in the child of a fork, adopt the log first."""
        self.check_open()
        if self.engine.refusal == REFUSED_FORKED:
            self.adopt()
        if self.writer is None:
            why = "the log was opened for reading: open it with mode 'a' to write"
            raise ReadOnlyError(why, path=self.path)
        return self.writer

    def append_once(
        self,
        producer: object,
        number: object,
        record: tuple[Any, Any, Any, Any, Any],
        sync: bool | None,
        expect: object,
    ) -> int:
        """Append a record of a producer, of value, key, type, timestamp and headers: see
        `CommitLog.append`.
        """
        name, whole = checked(self.path, producer, number, expect)
        self.writing()
        position = self.producers.append(name, whole, record)
        durable = self.options.flush == "sync" if sync is None else switch(sync, "sync")
        if durable and position >= 0:
            self.make_durable(self.options.sync_timeout)
        return position

    def make_durable(self, timeout_s: float) -> None:
        """Make everything appended so far durable, here and on the copies that `replicate` asks
        for: see `CommitLog.flush`.
        """
        engine = self.engine
        end = engine.tail_position
        engine.check_claims(end)
        engine.make_durable(end, timeout_s)
        engine.check_failed()

    # --- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Close the log: see `CommitLog.close`."""
        closing.close(self)

    def dropped_by(self, log: LogMethods) -> None:
        """Close the log for a `CommitLog` that was collected: see `closing.close_dropped`."""
        closing.close_dropped(self, log)

    def forked(self) -> None:
        """Prepare for use in the child of a fork, before any other code runs there."""
        fork.forked(self)

    # --- the engine's policy -----------------------------------------------------------------

    @property
    def _writer(self) -> WriterServices:
        writer = self.writer
        assert writer is not None  # a reader's engine appends nothing
        return writer

    def roll_from(self, number: int) -> None:
        """Provide the segment after `number` and move the tail there.

        One thread of this process does so in its turn; the others then find the tail moved. Each
        step may be done twice.
        """
        engine, directory, writer = self.engine, self.directory, self._writer
        try:
            with writer.roll_turn.taken():
                tail = engine.tail
                if tail is None or tail[0] != number or tail[1] < engine.segment_size:
                    return
                writer.allocation.bring(number + 1)
                opened_ns = engine.open_segment(number + 1, self.time_after(number))
                engine.move_tail(number, opened_ns, directory.cycle_at(opened_ns))
        finally:
            writer.report()

    def grow(self, number: int, end: int) -> None:
        """Give the segment in use blocks for claims that reach to `end`."""
        try:
            self._writer.allocation.grow(number, end)
        finally:
            self._writer.report()

    def meet_cycle(self) -> None:
        """Close the current segment if its cycle is over; else set `Engine.cycle_end_ns`, at which
        the kernel calls this again.

        The header of the segment holds the time at which the log rolled into it, so every process
        computes the same cycle. One swap on the tail closes the segment, so it is closed once even
        if several handles find its cycle over. A clock that was set back closes nothing and never
        reopens an earlier cycle.
        """
        tail, clock = self.engine.tail, self.directory.cycle_clock
        if tail is None or clock is None or tail[1] >= self.engine.segment_size:
            return
        opened_ns = self._opened_ns(tail[0])
        # A segment without a time is in no known cycle.
        end_ns = clock.end_ns(clock.number_at(opened_ns)) if opened_ns else 0
        if time.time_ns() < end_ns:
            self.engine.cycle_end_ns = end_ns
        else:
            self.engine.close_segment(tail[0])

    def time_after(self, number: int) -> int:
        """Return the time of the roll from a segment: now, but not before the last roll."""
        return max(time.time_ns(), self._opened_ns(number))

    def _opened_ns(self, number: int) -> int:
        with self.queue.held(number, "its cycle") as segment:
            return 0 if segment is None else segment.opened_ns

    def hold_back(self, records: int) -> bool:
        """Hold an append for a required tailer; return whether its records are dropped."""
        return self._writer.backpressure.hold(records)

    def count_records(self) -> tuple[int, int]:
        """Return a position near the end of the log, and how many records are below it."""
        return self.index.end()

    def adopt(self) -> None:
        """Take the log over on the first append in the child of a fork."""
        if fork.adopt(self):
            registry.add(self)
            if self.closed:  # by a signal handler
                registry.discard(self)
            self._writer.backpressure.begin()
            self.meet_cycle()


def view_of(log: Any) -> LogView:
    """Return the view of an open `CommitLog` for an extension."""
    parts: OpenLog = log._parts
    return parts.view

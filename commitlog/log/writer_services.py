"""WriterServices: the background services of a writable log."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

from commitlog._kernel.engine import REFUSED_CLOSED, Engine
from commitlog.allocation.allocation_service import AllocationService
from commitlog.allocation.buffer_lease import BufferLeases
from commitlog.allocation.segment_buffers import SegmentBuffers
from commitlog.base.service import Service, start_lock
from commitlog.base.turn import Turn
from commitlog.flush.flush_service import CommitService, FlushService
from commitlog.log.posting_service import PostingService
from commitlog.log.report_service import ReportService
from commitlog.options import Options, StoreWork
from commitlog.retention.holds import Ends, copied_end
from commitlog.retention.listener import ListenerService
from commitlog.retention.pruner import LogState, Pruner, RetentionService
from commitlog.retention.retention import Retention
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.tail.backpressure import Backpressure
from commitlog.tail.postings import LogPostings

if TYPE_CHECKING:
    from commitlog.flush.acknowledge_service import AcknowledgeService
    from commitlog.log.fair_queue import FairQueues

_JOIN_S = 10.0
_FLUSH_S = 5.0


class WriterServices:
    """Back-pressure, the pool's lender and the background services of a writable log."""

    def __init__(
        self,
        engine: Engine,
        queue: MappedFileQueue,
        options: Options,
        lender: BufferLeases | None,
        view: Any,
        *,
        postings: LogPostings,
    ) -> None:
        directory = queue.directory
        self._engine = engine
        self.lender = lender
        self.roll_turn = Turn()
        self.acknowledge_service: AcknowledgeService | None = None
        self.fair_queues: FairQueues = {}
        self.backpressure = Backpressure(
            engine,
            directory,
            on_lag=options.on_lag,
            timeout_s=options.lag_timeout,
            evict_after_s=options.evict_after,
        )
        self.store: StoreWork | None = None
        if options.store is not None:
            self.store = options.store._begin(view)
        self.pruner = Pruner(directory, _log_state(engine, queue, view.holds))
        with ExitStack() as undo:
            self.listener: ListenerService | None = None
            if options.listener is not None:
                self.listener = ListenerService(directory, options.listener)
                self.listener.start()
                undo.callback(self.listener.finish)
                queue.watch(self.listener.offer)
            buffers = None if lender is None else SegmentBuffers(engine, queue, lender)
            self.allocation = AllocationService(engine, queue, options, buffers)
            self.services: list[Service | StoreWork] = [self.allocation]
            if options.flush != "none":
                self.services.append(FlushService(engine, options))
            if lender is not None:
                self.services.append(CommitService(engine, options))
            if options.retention is not None:
                retention = cast(Retention, options.retention)
                self.services.append(
                    RetentionService(
                        engine.path,
                        retention,
                        self.pruner,
                        flush=_flush_to(engine) if options.flush == "none" else None,
                    )
                )
            if self.store is not None:
                self.services.append(self.store)
            if options.posting_lists:
                self.services.append(PostingService(engine.path, postings))
            self.services.append(ReportService(engine))
            undo.pop_all()

    def start(self) -> None:
        for service in self.services:
            service.start()

    def report(self) -> None:
        """Log what the last calls met. Call this while no lock is held: a log handler may append,
        or wait for a thread that appends.
        """
        self.allocation.report()
        if self.listener is not None:
            self.listener.report()

    def acknowledging(self, sync_timeout_s: float) -> AcknowledgeService | None:
        """Return the service that acknowledges durable appends to coroutines; start it first. None
        if the log is being closed and no service was started before.
        """
        if self.acknowledge_service is None:
            # Imported here, because programs without coroutines do not need asyncio.
            from commitlog.flush.acknowledge_service import AcknowledgeService

            with start_lock:
                if self._engine.refusal == REFUSED_CLOSED:
                    return None
                if self.acknowledge_service is None:
                    service = AcknowledgeService(self._engine, sync_timeout_s)
                    service.start()
                    self.acknowledge_service = service
            if self._engine.refusal == REFUSED_CLOSED:  # a signal handler has closed the log
                self.acknowledge_service.stop()
        return self.acknowledge_service

    def stop(self) -> None:
        """Stop the threads, and take the pool's buffers back from the segments."""
        self._engine.stop()
        if self._engine.copies is not None:
            self._engine.copies.close()
        try:
            for service in self.services:
                service.join(_JOIN_S)
            if self.acknowledge_service is not None:
                self.acknowledge_service.stop()
                self.acknowledge_service.join(_JOIN_S)
        finally:
            self.allocation.give_back_all()

    def end(self) -> None:
        """Record in the lock file that no pool buffer is left to recover."""
        if self.lender is not None:
            self.lender.end()

    def forked(self) -> None:
        """Forget threads and waiting coroutines in the child of a fork: the parent has them."""
        self.roll_turn.forked()
        self.services = []
        self.store = None
        self.pruner.forked()
        self.listener = None
        self.acknowledge_service = None
        self.fair_queues = {}


def _flush_to(engine: Engine) -> Callable[[int], object]:
    """Return what makes durable the segments that retention is about to delete."""
    return lambda end: engine.flush_to(min(end, engine.committed_position), _FLUSH_S)


def _log_state(
    engine: Engine, queue: MappedFileQueue, holds: dict[str, Callable[[], int | None]]
) -> LogState:
    def ends() -> Ends:
        copies = engine.copies
        copied = copied_end(queue.directory, engine.cursors) if copies is None else copies.position
        lowest = {name: find() for name, find in holds.copy().items()}
        held = {name: position for name, position in lowest.items() if position is not None}
        return Ends(engine.flushed_position, copied, held)

    return LogState(
        ends=ends,
        holders=queue.holders,
        remove=queue.delete,
        check=lambda: None,  # this handle has written here, and holds the lock
    )

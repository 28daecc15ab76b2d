"""LogParts: the parts of one open log, wired together."""

from __future__ import annotations

import contextlib
import logging
import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Literal, cast

from commitlog._kernel.engine import REFUSED_CLOSED, Engine
from commitlog._kernel.memory import STATE_READY
from commitlog.allocation.buffer_lease import BufferLeases
from commitlog.base.section import Entry, Section
from commitlog.errors import ClosedError
from commitlog.flush import checkpoint as checkpoints
from commitlog.flush.checkpoint import Checkpoint
from commitlog.log.opened import NEVER_UNCERTAIN, Opened
from commitlog.log.producers import Producers
from commitlog.log.writer_services import WriterServices
from commitlog.options import Options
from commitlog.pool.transient_store_pool import TransientStorePool, buffers_of
from commitlog.segment import cursors_file
from commitlog.segment.cursors_file import SlotLock
from commitlog.segment.lock_file import Holder
from commitlog.segment.mapped_file_queue import MappedFileQueue
from commitlog.source.place_keeper import PlaceKeeper
from commitlog.stats import FlowStats, TopicStats
from commitlog.tail.cycles import LogCycles
from commitlog.tail.index import LogIndex
from commitlog.tail.tailer_file import TailerFile

_logger = logging.getLogger("commitlog")
Mode = Literal["a", "x", "r"]
# Commits up to this many bytes go through the mapping, larger ones by pwrite: see
# docs/decisions/flush.md.
COPY_LIMIT = 16 << 10
# A pooled log's committer is woken each time this much was appended.
WAKE_BYTES = 1 << 20
_EVERY_SEGMENT = 1 << 62


class LogParts:
    """Wire the parts of one open log together, for a `CommitLog`.

    Services, queue and index refer to the parts and never to the `CommitLog`, so a `CommitLog` that
    is dropped without `close` is collected, and then closed. The parts own what was `opened`, also
    when the constructor raises. The engine does not call the `policy` before the constructor
    returns. A reader has no `writer`.
    """

    writer: WriterServices | None
    view: Any  # a `LogView`, which refers to the parts
    places: PlaceKeeper
    writing: Callable[[], WriterServices]  # the services of a writable log; a reader raises

    def __init__(self, mode: Mode, opened: Opened, options: Options, policy: object) -> None:
        self.mode = mode
        self.options = options
        self.directory = opened.directory
        self.identity = opened.directory.identity
        self.has_writers = opened.has_writers
        self.lock_file = opened.lock_file
        self.slot_lock: SlotLock | None = None
        self.checkpoint_fd = -1
        self.writer = None
        self.closing = Section()
        self.adopting = Section()
        self.finding = Section()
        self.closed = False
        self.named: dict[int, weakref.ref[TailerFile]] = {}  # by the identity of the file
        self.topics: dict[str, TopicStats] = {}  # those that change the size of their messages
        self.flows: dict[str, Callable[[], FlowStats]] = {}
        self.guests = ExitStack()  # what is closed with the log
        self.state: dict[type, Any] = {}  # what extensions keep for this handle
        self.pid = os.getpid()
        with ExitStack() as undo:
            undo.callback(opened.close)
            self.engine = Engine(
                policy,
                opened.directory.path,
                opened.directory.fd,
                self.identity.uuid,
                self.identity.segment_size,
                opened.cursors,
                writable=mode != "r",
                pooled=opened.pooled,
                claim_timeout_ns=int(options.claim_timeout * 1e9),
                copy_limit=COPY_LIMIT,
            )
            self.engine.uncertain_from = opened.uncertain_from
            self.engine.asks = opened.asks
            self.queue = MappedFileQueue(self.engine, self.directory, writable=mode != "r")
            self.producers = self.new_producers()
            undo.callback(self.unmap)
            spacing, writable = options.tuning.index_spacing, mode != "r"
            self.index = LogIndex(self.queue, spacing=spacing, writable=writable)
            self.cycles = LogCycles(self.index)
            if writable:
                self._begin_writing(opened, undo)
            elif opened.cursors.shared:
                self.watch_slots()
            undo.pop_all()

    def _begin_writing(self, opened: Opened, undo: ExitStack) -> None:
        self.directory.fail_log = self.engine.fail
        if opened.pooled:
            self.engine.tail = opened.tail
        undo.callback(self.leave_slot)
        self.take_slot()
        self.engine.keep_index(self.options.tuning.index_spacing)
        self.checkpoint_fd = checkpoints.open_for_writing(self.directory.fd)
        undo.callback(self.close_checkpoint)
        self.keep_checkpoint(opened.checkpoint_count)
        if opened.exclusive:
            self._announce(opened)
        self.writer = self.new_writer_services(opened.holder if opened.pooled else None)
        undo.callback(self.writer.end)
        undo.callback(self.writer.stop)
        undo.callback(setattr, self.engine, "refusal", REFUSED_CLOSED)
        # After `_announce`, so that a tailer that is declared required from here on finds the
        # cursors.
        self.writer.backpressure.begin()
        number, offset = opened.tail
        if offset < self.engine.segment_size:
            self.writer.allocation.bring(number, opening=True)
        self.writer.start()
        _logger.info(
            "%s: opened for writing (%s%s, flush=%r), ends at position %d",
            self.path,
            "pooled" if opened.pooled else "mapped",
            "" if opened.exclusive else ", shared with other handles",
            self.options.flush,
            self.engine.tail_position,
        )

    def new_writer_services(self, holder: Holder | None) -> WriterServices:
        """Create the services of a writable log; a pooled log has a `holder`."""
        lender: BufferLeases | None = None
        if holder is not None:
            assert self.lock_file is not None
            pool = buffers_of(cast(TransientStorePool, self.options.pool))
            owner, uuid = f"log {self.path}", self.identity.uuid
            lender = BufferLeases(pool, owner, uuid, self.lock_file, holder)
        try:
            return WriterServices(
                self.engine,
                self.queue,
                self.options,
                lender,
                self.view,
                postings=self.index.postings,
            )
        except BaseException:
            if lender is not None:
                lender.end()
            raise

    def new_producers(self) -> Producers:
        return Producers(self.engine, self.queue, self.options.sync_timeout)

    def _announce(self, opened: Opened) -> None:
        """Remove the clean mark durably, before the first claim; then admit other writers."""
        assert opened.lock_file is not None
        # In both records of the file, so that one lost sector does not restore the clean mark.
        for _ in range(2):
            self.engine.write_checkpoint(opened.end, False)
        self.engine.cursors["state"] = STATE_READY
        if not opened.pooled:
            opened.lock_file.acquire("shared")

    # --- slot and checkpoint -----------------------------------------------------------------

    def take_slot(self) -> None:
        """Take a writer slot, and accept appends."""
        slot_lock = SlotLock(self.directory.fd, writable=True)
        try:
            self.engine.attach_slot(*slot_lock.descriptors)
        except BaseException:
            slot_lock.close()
            raise
        # After `attach_slot`: until then the kernel probes owners through the old descriptors.
        self._close_slot_lock()
        self.slot_lock = slot_lock
        self.engine.begin_appends(
            precise=self.identity.timestamps == "precise",
            by_time=self.identity.roll_cycle is not None,
            wake_bytes=min(WAKE_BYTES, self.engine.segment_size // 4),
            sync=self.options.flush == "sync",
            sync_timeout=self.options.sync_timeout,
        )

    def watch_slots(self) -> None:
        """Open the descriptors through which the kernel probes which owners live."""
        self.slot_lock = SlotLock(self.directory.fd, writable=False)
        self.engine.watch_slots(*self.slot_lock.descriptors)

    def find_cursors(self) -> None:
        """Continue with the cursors that a writer made after this reader was opened, if any; raise
        if the source of the log is out of reach.
        """
        self.directory.check()
        self.adopt_cursors()

    def adopt_cursors(self, timeout_s: float = 0.0) -> None:
        """As `find_cursors`, for what is in the directory; wait so long for another thread that
        does so.
        """
        with self.finding.entered(timeout_s) as entry:
            if entry is not Entry.ENTERED:
                return  # another thread does so now, or closes the log
            # Out of descriptors or memory: the next poll tries again. Or a signal handler has
            # closed the log.
            with contextlib.suppress(OSError, ClosedError):
                self._find_cursors()
            if self.closed:
                self._close_slot_lock()

    def _find_cursors(self) -> None:
        cursors = self.engine.cursors
        if self.closed or cursors.shared or not self.has_writers:
            return
        live = cursors_file.find(self.directory.fd, self.identity)
        if live is not None and live.ready:
            if live.cells["cuts"] != cursors["cuts"]:
                cursors["cut"] = 1  # at a position that is not known
                return
            cursors.become(live.cells)
            self.watch_slots()
            # That writer has recovered the log.
            self.engine.uncertain_from = NEVER_UNCERTAIN

    def leave_slot(self) -> None:
        """Detach from the slot and close its files."""
        self.engine.detach_slot()
        self._close_slot_lock()

    def _close_slot_lock(self) -> None:
        if self.slot_lock is not None:
            self.slot_lock.close()
            self.slot_lock = None

    def release_files(self) -> None:
        """Close what kernel calls use: after `close` and the last call of other threads."""
        self.close_checkpoint()
        self._close_slot_lock()
        if self.pid == os.getpid():
            self.directory.close()
        if self.lock_file is not None:
            self.lock_file.close()
        self.engine.cursors.part()

    def keep_checkpoint(self, count: int) -> None:
        """Have flushes write the checkpoint from now on; the last record has number `count`."""
        interval_ns = int(self.options.tuning.checkpoint_interval * 1e9)
        self.engine.keep_checkpoint(self.checkpoint_fd, count, interval_ns)

    def recount_checkpoint(self) -> Checkpoint | None:
        """Continue from the file's last record, which may be another handle's; return that."""
        found = checkpoints.read_open(self.checkpoint_fd, self.identity.uuid)
        self.keep_checkpoint(found.count if found is not None else 0)
        return found

    def close_checkpoint(self) -> None:
        """Have flushes write no checkpoint any more, and close its file."""
        self.engine.keep_checkpoint(-1, 0, 0)
        if self.checkpoint_fd >= 0:
            os.close(self.checkpoint_fd)
            self.checkpoint_fd = -1

    # --- named tailers -----------------------------------------------------------------------

    def know(self, file: TailerFile) -> None:
        """Close the file of a named tailer with the log, if it still exists then."""
        key, named = id(file), self.named
        named[key] = weakref.ref(file, lambda _: named.pop(key, None))

    def known(self) -> list[TailerFile]:
        files = [reference() for reference in self.named.copy().values()]
        return [file for file in files if file is not None]

    # --- state -------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        return self.engine.path

    @property
    def grows(self) -> bool:
        """Whether records may be added while this handle is open."""
        return self.has_writers or bool(self.engine.asks)

    @property
    def inode(self) -> tuple[int, int] | None:
        """Device and inode of a writable log's directory; None for a reader's or a closed log."""
        return None if self.mode == "r" or self.closed else self.directory.inode

    def check_open(self) -> None:
        if self.closed:
            raise ClosedError("the log is closed: open it again", path=self.path)

    def unmap(self) -> None:
        """Release every segment; views, tailers and open claims keep theirs."""
        self.queue.close()
        self.engine.drop_segment()
        self.engine.trim(_EVERY_SEGMENT, 0)
        if self.writer is not None and self.writer.listener is not None:
            self.writer.listener.finish()


def parts_of(log: Any) -> LogParts:
    """Return the parts of a `CommitLog`, for this package's own tools."""
    parts: LogParts = log._parts
    return parts

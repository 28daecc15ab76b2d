"""Parts: what the parts of an open queue share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from commitlog import CommitLog, Record
from commitlog.extension import LogView
from commitlog.queues.compiled.leases import LeaseTable
from commitlog.queues.scanner import Scanner
from commitlog.queues.state_log import Beginning, StateLog
from commitlog.queues.terms import Terms
from commitlog.queues.worker import Worker


@dataclass
class Parts:
    """An open queue.

    Attributes
    ----------
    sync : bool
        Whether an acceptance is durable before the call returns.
    decode : callable, optional
        Makes the value of a job of its record; a ValueError says that it cannot be decoded.
    """

    log: CommitLog
    view: LogView
    name: str
    folder: str
    worker: Worker
    state: StateLog
    scanner: Scanner
    beginning: Beginning
    sync: bool
    decode: Callable[[Record], Any] | None

    @property
    def table(self) -> LeaseTable:
        return self.worker.table

    @property
    def terms(self) -> Terms:
        return self.beginning.terms

    def append_note(self, note: bytes, kind: int, *, sync: bool, stop: int) -> None:
        """Note jobs below `stop` as done. If that is to be durable, their records are it first: a
        record that a power cut takes has not been done.
        """
        if sync and stop > self.view.flushed_position:
            self.log.flush() if self.log.mode != "r" else self.view.ask_for_flush()
        self.state.append(note, kind, sync=sync)

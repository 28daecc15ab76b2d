"""Parts: what the parts of an open queue share."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from commitlog import CommitLog, Record
from commitlog.errors import IOFailureError
from commitlog.extension import LogView
from commitlog.queues.compiled.leases import LeaseTable
from commitlog.queues.scanner import Scanner
from commitlog.queues.state_log import Beginning, StateLog
from commitlog.queues.terms import Terms
from commitlog.queues.worker import Worker


def check_place(view: LogView) -> None:
    """Raise if the directory of an open log was moved: a log made there is not of this one."""
    if not view.is_at(view.path):
        raise IOFailureError(
            "the directory of the log was moved, removed or replaced while it is open: close the "
            "queue, then open it where the log is",
            path=view.path,
            errno=errno.ENOENT,
        )


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

    def make_durable(self, position: int) -> None:
        """Make records below a position durable before they are noted as done durably: a record
        that a power cut takes has not been done.
        """
        if position > self.view.flushed_position:
            if self.log.mode == "r":
                self._await_flush(position)
            else:
                self.log.flush()

    def _await_flush(self, position: int) -> None:
        """Have the writer of a pooled log flush, which is another process."""
        deadline_s = time.monotonic() + self.log.options.sync_timeout
        while position > self.view.flushed_position:
            seen = self.view.signal("flush")
            self.view.ask_for_flush()
            if position <= self.view.flushed_position:
                return
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise IOFailureError(
                    "the writer of the log has not flushed it in time, and the job is not accepted",
                    path=self.log.path,
                    errno=errno.ETIMEDOUT,
                )
            self.view.wait("flush", seen, min(left_s, 0.05))

"""Waiting: how workers sleep until there is a job.

One of them, the watcher, sleeps until the log has more; appends wake it. The others sleep in the
leases of the queue. Each that gets a job lets another one watch. So an append wakes one worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from commitlog.queues.parts import Parts
from commitlog.queues.upkeep import Upkeep
from commitlog.queues.worker import boot_ns

_NAP_S = 0.1  # the longest sleep
_PROBE_S = 0.005  # while other workers have jobs, which may die

T = TypeVar("T")


class Waiting:
    """Repeat an attempt to take jobs until it has some."""

    def __init__(self, parts: Parts, upkeep: Upkeep) -> None:
        self._parts = parts
        self._upkeep = upkeep

    def until(self, take: Callable[[], list[T]], timeout_s: float | None) -> list[T]:
        """Return what `take` returns; an empty list if it is that until the time is over."""
        jobs = take()
        if jobs or timeout_s == 0:
            return jobs
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        watches = False
        try:
            while True:
                watches = watches or self._parts.table.watch()
                jobs = self.once(take, deadline_s, watches=watches)
                if jobs or (deadline_s is not None and time.monotonic() >= deadline_s):
                    return jobs
        finally:
            if watches:
                self._parts.table.unwatch()

    def once(
        self, take: Callable[[], list[T]], deadline_s: float | None, *, watches: bool
    ) -> list[T]:
        """Try to take jobs, or sleep once."""
        parts, table = self._parts, self._parts.table
        # The signal is read before the attempt: what comes after it ends the sleep.
        seen = parts.view.signal("append") if watches else table.ready
        now_ns = boot_ns()
        self._upkeep.run(now_ns)
        jobs = take()
        if jobs or (self._upkeep.rescue(now_ns) and (jobs := take())):
            return jobs
        nap_s = self._nap_s(now_ns, deadline_s)
        if nap_s > 0:
            if watches:
                parts.view.wait("append", seen, nap_s)
            else:
                table.sleep(seen, int(nap_s * 1e9))
        return []

    def _nap_s(self, now_ns: int, deadline_s: float | None) -> float:
        table = self._parts.table
        nap_s = _PROBE_S if table.others_acquired else _NAP_S
        event_ns = table.next_event_ns()
        if event_ns:
            nap_s = min(nap_s, max(0.0, (event_ns - now_ns) / 1e9))
        if deadline_s is not None:
            nap_s = min(nap_s, deadline_s - time.monotonic())
        return nap_s

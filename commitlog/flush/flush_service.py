"""FlushService: what becomes durable in the background."""

from __future__ import annotations

from commitlog._kernel.engine import Committer
from commitlog.base.service import Service
from commitlog.flush.commit_service import pace
from commitlog.options import Options


class FlushService(Service):
    """Flushes behind the appends; RocketMQ's FlushRealTimeService.

    Every `flush_interval` it flushes what is committed, if it is at least `flush_least_pages`; what
    is less waits for `flush_thorough_interval` at most. A power cut takes back what it had not
    reached.

    Under ``flush="sync"`` it flushes only what no appender waits for (``append(..., sync=False)``).
    There is no hand-over to a thread, as RocketMQ's GroupCommitService has it, which would cost 5
    to 10 µs: the first waiting appender leads, and flushes for all that were published before it
    began.
    """

    def __init__(self, core: Committer, options: Options) -> None:
        super().__init__(f"commitlog flush {core.path}")
        self._core = core
        self._pace = pace(
            options.flush_interval,
            options.tuning.flush_thorough_interval,
            options.tuning.flush_least_pages,
        )

    def run(self) -> None:
        self._core.run_flush_loop(*self._pace)

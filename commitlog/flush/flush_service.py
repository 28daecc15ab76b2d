"""FlushService: the flush thread."""

from __future__ import annotations

from commitlog._kernel.engine import Committer
from commitlog.base.service import Service
from commitlog.flush.commit_service import pace
from commitlog.options import Options


class FlushService(Service):
    """Flush committed records behind the appends; RocketMQ's FlushRealTimeService.

    Every `flush_interval` the thread flushes the committed bytes if they fill at least
    `flush_least_pages`; fewer wait for at most `flush_thorough_interval`. A power cut loses what is
    not flushed yet.

    Under ``flush="sync"`` the thread flushes only records that no appender waits for
    (``append(..., sync=False)``). The first waiting appender leads the group commit and flushes
    every record that was published before the flush began. A hand-over to a thread, as in
    RocketMQ's GroupCommitService, would cost 5 to 10 µs.
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

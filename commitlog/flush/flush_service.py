"""The flush thread, and the commit thread of a pooled log. Their loops run without the GIL."""

from __future__ import annotations

from commitlog._kernel.engine import Committer
from commitlog.base.service import Service
from commitlog.options import PAGE_SIZE, Options


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


class CommitService(Service):
    """Commit a pooled log's published records; RocketMQ's CommitRealTimeService.

    Every `commit_interval`, and whenever the appender has filled another MiB, the thread commits
    the published bytes if they fill at least `commit_least_pages`; fewer wait for at most
    `commit_thorough_interval`.
    """

    def __init__(self, core: Committer, options: Options) -> None:
        super().__init__(f"commitlog commit {core.path}")
        self._core = core
        self._pace = pace(
            options.commit_interval,
            options.tuning.commit_thorough_interval,
            options.tuning.commit_least_pages,
        )

    def run(self) -> None:
        self._core.run_commit_loop(*self._pace)


def pace(interval_s: float, thorough_s: float, least_pages: int) -> tuple[int, int, int]:
    """Convert a loop's options to the kernel's units: nanoseconds, nanoseconds, bytes."""
    return int(interval_s * 1e9), int(thorough_s * 1e9), least_pages * PAGE_SIZE

"""CommitService: the commit thread, which copies pool buffers to segments without the GIL."""

from __future__ import annotations

from commitlog._kernel.engine import Committer
from commitlog.base.service import Service
from commitlog.options import PAGE_SIZE, Options


def pace(interval_s: float, thorough_s: float, least_pages: int) -> tuple[int, int, int]:
    """Convert a loop's options to the kernel's units: nanoseconds, nanoseconds, bytes."""
    return int(interval_s * 1e9), int(thorough_s * 1e9), least_pages * PAGE_SIZE


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

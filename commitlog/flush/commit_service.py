"""CommitService: moves published bytes from pool buffers to segments, in a thread that never takes
the interpreter's lock.
"""

from __future__ import annotations

from commitlog._kernel.engine import Committer
from commitlog.base.service import Service
from commitlog.options import Options

PAGE_SIZE = 4096


def pace(interval_s: float, thorough_s: float, least_pages: int) -> tuple[int, int, int]:
    """The kernel's form of a loop's three knobs: nanoseconds, nanoseconds, bytes."""
    return int(interval_s * 1e9), int(thorough_s * 1e9), least_pages * PAGE_SIZE


class CommitService(Service):
    """The committer of a pooled log; RocketMQ's CommitRealTimeService.

    Every `commit_interval`, and whenever the appender has filled another MiB, it commits what is
    published, if it is at least `commit_least_pages`; what is less waits for
    `commit_thorough_interval` at most.
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

"""FlushService and GroupCommitService: what becomes durable, and when."""

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
    """

    sync = False

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


class GroupCommitService(FlushService):
    """Appends wait for the disk; RocketMQ's GroupCommitService.

    There is no hand-over to a thread, which would cost 5 to 10 µs: the first waiting appender
    leads, and flushes for all that were published before it began; the others wait for the
    watermark and one of them leads next. The thread of the base class takes only what nobody waits
    for (``append(..., sync=False)``).
    """

    sync = True


class NoFlushService(FlushService):
    """Nothing is flushed but by `flush()` and `close()`: what the system wrote of its own accord is
    all that a power cut leaves.
    """

    def start(self) -> None:
        """There is no thread."""


def flush_service(core: Committer, options: Options) -> FlushService:
    """The service that ``flush=`` names."""
    kinds = {"async": FlushService, "sync": GroupCommitService, "none": NoFlushService}
    return kinds[options.flush](core, options)

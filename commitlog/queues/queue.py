"""Queue: the jobs of one log for one group of workers."""

from __future__ import annotations

import asyncio
import datetime as dt
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Self, SupportsIndex, Unpack

from commitlog import CommitLog, Record
from commitlog.base.option import counted
from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import (
    ClosedError,
    InvalidOptionError,
    NoJobError,
    ReadOnlyError,
)
from commitlog.queues.compiled.leases import MOST
from commitlog.queues.dead_letters import DeadLetter, DeadLetters
from commitlog.queues.delayed_log import delayed_job
from commitlog.queues.delays import delays_of
from commitlog.queues.due_time import due_of
from commitlog.queues.finishing import Finishing
from commitlog.queues.handing_out import HandingOut
from commitlog.queues.job import Job
from commitlog.queues.operating import Operating
from commitlog.queues.parts import Parts
from commitlog.queues.queue_stats import QueueStats, queue_stats
from commitlog.queues.terms import TermOverrides, Terms, given_terms
from commitlog.queues.upkeep import Upkeep
from commitlog.queues.waiting import Waiting
from commitlog.queues.worker import boot_ns

_batch = counted(MOST, 1)
_ASYNC_NAP_S = 0.05


class Queue(ProcessBound):
    """Hand the records of a log out to workers, each to one of them; `commitlog.queue` returns it.

    Any number of threads and processes take jobs. Each process opens the queue; a forked child uses
    its parent's, as a worker of its own.
    """

    _instead = "open the queue in each process"

    def __init__(self, parts: Parts, dead: DeadLetters, *, owns_log: bool) -> None:
        """Wrap the parts; only `commitlog.queue` calls this."""
        self._parts = parts
        self._owns_log = owns_log
        self._dead = dead
        self._finishing = Finishing(parts, dead)
        self._upkeep = Upkeep(parts, self._finishing)
        self._handing_out = HandingOut(parts, self._finishing, self._upkeep)
        self._waiting = Waiting(parts, self._upkeep)
        self._operating = Operating(parts, dead, self._handing_out, self._finishing, self._upkeep)
        self._executor: ThreadPoolExecutor | None = None
        self._nap_end: asyncio.Future[None] | None = None
        # A queue that is dropped without `close` is as a worker that died.
        weakref.finalize(self, parts.worker.leave).atexit = False
        # The last timeout and its seconds; a loop gives the same one each time.
        self._timeout: tuple[Duration | None, float | None] = None, None

    # --- taking -----------------------------------------------------------------------------------

    def take(self, timeout: Duration | None = None) -> Job:
        """Take the next job; wait for one.

        Parameters
        ----------
        timeout : float, str or None
            How long to wait; 0: not at all; None: without end.

        Raises
        ------
        NoJobError
            There was no job in that time.
        """
        jobs = self._wait(1, timeout)
        if not jobs:
            raise NoJobError(
                f"no job within {timeout!r}: call take() again", path=self._parts.folder
            )
        return jobs[0]

    def take_many(self, most: SupportsIndex, timeout: Duration | None = None) -> list[Job]:
        """Take up to `most` jobs, 1 to 4096; wait until there is one. An empty list if there was
        none within `timeout`.
        """
        return self._wait(_batch(most, "most"), timeout)

    def taking(self, batch: SupportsIndex = 1, timeout: Duration | None = None) -> Iterator[Job]:
        """Iterate over jobs; a job is accepted when the loop asks for the next one.

        If the loop is left early, or its body raises, its current job is released, and those of the
        batch that it has not reached go back untried.

        Parameters
        ----------
        batch : int
            How many jobs are taken and accepted together, 1 to 4096. A kill repeats up to so many
            jobs that were done.
        timeout : float, str or None
            End the loop if there is no job for that long; None: never.
        """
        most = _batch(batch, "batch")
        while jobs := self._wait(most, timeout):
            yield from self._each(jobs)

    def _each(self, jobs: list[Job]) -> Iterator[Job]:
        """Yield jobs; accept those that the loop is done with before their leases end."""
        done: list[Job] = []
        accept_ns = boot_ns() + self._parts.table.terms[0] // 4
        count = 0
        try:
            for job in jobs:
                count += 1
                yield job
                done.append(job)
                if len(done) % 16 == 0 and boot_ns() > accept_ns:
                    self._accept_rest(done)
                    done = []
                    accept_ns = boot_ns() + self._parts.table.terms[0] // 4
        except GeneratorExit:
            current = jobs[count - 1]
            if not current.is_finished:
                self._finishing.give_back_left(current)
            raise
        finally:
            try:
                self._accept_rest(done)
            finally:
                if count < len(jobs):
                    self._finishing.return_untried(jobs[count:])

    def _accept_rest(self, jobs: list[Job]) -> None:
        self._finishing.accept([job for job in jobs if not job.is_finished])

    def _wait(self, most: int, timeout: Duration | None) -> list[Job]:
        known, timeout_s = self._timeout
        if timeout is not known:
            timeout_s = None if timeout is None else parse_duration(timeout, "timeout")
            self._timeout = timeout, timeout_s
        if self._parts.worker.is_joined:
            jobs = self._handing_out.take(most)
            if jobs or timeout_s == 0:
                return jobs
        self._working()
        return self._waiting.until(lambda: self._handing_out.take(most), timeout_s)

    # --- coroutines -------------------------------------------------------------------------------

    async def take_async(self, timeout: Duration | None = None) -> Job:  # noqa: ASYNC109
        """As `take`, without blocking the event loop. If it is cancelled, no job is taken."""
        jobs = await self.take_many_async(1, timeout)
        if not jobs:
            raise NoJobError(
                f"no job within {timeout!r}: call take_async() again", path=self._parts.folder
            )
        return jobs[0]

    async def take_many_async(
        self,
        most: SupportsIndex,
        timeout: Duration | None = None,  # noqa: ASYNC109
    ) -> list[Job]:
        """As `take_many`, without blocking the event loop."""
        count = _batch(most, "most")
        loop = asyncio.get_running_loop()
        timeout_s = None if timeout is None else parse_duration(timeout, "timeout")
        deadline_s = None if timeout_s is None else loop.time() + timeout_s
        while True:
            self._working()
            jobs = self._handing_out.take(count)
            left_s = None if deadline_s is None else deadline_s - loop.time()
            if jobs or (left_s is not None and left_s <= 0):
                return jobs
            nap_s = _ASYNC_NAP_S if left_s is None else min(left_s, _ASYNC_NAP_S)
            nap = self._shared_nap(loop)
            await asyncio.wait((nap,), timeout=nap_s)
            if nap.done():
                nap.result()

    def _shared_nap(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Return the end of the nap that all coroutines of a loop take together."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "commitlog queue")
        if self._nap_end is None or self._nap_end.done() or self._nap_end.get_loop() is not loop:
            self._nap_end = loop.run_in_executor(self._executor, self._nap)
        return self._nap_end

    def _nap(self) -> None:
        """Sleep until there may be a job."""
        table, view = self._parts.table, self._parts.view
        seen = view.signal("append")
        now_ns = boot_ns()
        self._upkeep.run(now_ns)
        if not self._upkeep.rescue(now_ns) and view.committed_position <= table.scan:
            view.wait("append", seen, _ASYNC_NAP_S)

    async def taking_async(
        self,
        batch: SupportsIndex = 1,
        timeout: Duration | None = None,  # noqa: ASYNC109
    ) -> AsyncIterator[Job]:
        """As `taking`, for `async for`."""
        while jobs := await self.take_many_async(batch, timeout):
            for job in self._each(jobs):
                yield job

    # --- many jobs --------------------------------------------------------------------------------

    def accept(self, jobs: Iterable[Job], *, sync: bool | None = None) -> None:
        """Accept several jobs of this process at once.

        Raises
        ------
        LeaseLostError
            The leases of some have ended; the others are accepted.
        """
        given = list(jobs)
        for job in given:
            if not self._is_own(job):
                raise InvalidOptionError(f"jobs must be jobs of this queue, not {job!r}")
            job.check()
        self._finishing.accept(given, sync)

    def _is_own(self, job: object) -> bool:
        return isinstance(job, Job) and job.queue is self._finishing

    def put(
        self,
        value: bytes,
        *,
        key: bytes | None = None,
        type: int = 0,
        after: Duration | None = None,
        at: dt.datetime | str | int | None = None,
        sync: bool | None = None,
        headers: Mapping[str, bytes] | None = None,
    ) -> int:
        """Append a job to the log, for all of its queues; at once, or later.

        A delayed job is durable, or not, as an append is. One of the processes that have a queue of
        the log open appends it when its time has come, exactly once. Its timestamp is of then.

        Parameters
        ----------
        value, key, type, sync, headers
            As for `CommitLog.append`.
        after : float or str, optional
            How much later, up to 366 days.
        at : datetime, str or int, optional
            When: with a time zone; or a text such as ``"2027-05-01T12:30"``, in UTC; or nanoseconds
            since 1970. A time that has passed is now.

        Returns
        -------
        int
            The position of the record; -1 for a delayed job, which has none yet.
        """
        due_ns = due_of(after, at)
        if due_ns is None:
            return self._parts.log.append(value, key=key, type=type, sync=sync, headers=headers)
        log = self._parts.log
        if log.mode == "r" or self._parts.worker.reads_only:
            raise ReadOnlyError("the log is open with mode 'r'", path=log.path)
        delays_of(log).put(log, delayed_job(value, key, type, headers), due_ns, sync)
        return -1

    # --- state ------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._parts.name

    @property
    def log(self) -> CommitLog:
        return self._parts.log

    @property
    def terms(self) -> Terms:
        """Return what all workers of the queue agree on."""
        return self._parts.terms

    def change(self, **terms: Unpack[TermOverrides]) -> Terms:
        """Change terms for all workers, which go on; jobs that are held keep their leases.

        Parameters
        ----------
        **terms
            As for `commitlog.queue`: `lease`, `max_attempts`, `backoff`, `backoff_most`,
            `in_flight`, `worker_in_flight`, `order`.
        """
        self._working()
        self._upkeep.change_terms(given_terms(**terms))
        return self._parts.terms

    def stats(self) -> QueueStats:
        """Return the figures of the queue."""
        return queue_stats(self._parts, self._dead)

    def dead(self) -> Iterator[DeadLetter]:
        """Iterate over the dead letters, oldest first."""
        return iter(self._dead)

    def requeue(self, letters: Iterable[DeadLetter] | None = None) -> int:
        """Make dead letters jobs again, with all their attempts; return how many.

        Parameters
        ----------
        letters : iterable of DeadLetter, optional
            Some that `dead` returned; all by default. If the log has a record no more, it is
            appended again, for all queues of the log.
        """
        self._working()
        return self._operating.requeue(list(self.dead() if letters is None else letters))

    def purge(self) -> int:
        """Accept all jobs that are in the log now and that no worker holds; return how many."""
        self._working()
        return self._operating.purge()

    def drain(self, timeout: Duration = 60) -> bool:
        """Hand out no more jobs, in any process, and wait until none is held.

        `resume` goes on.

        Returns
        -------
        bool
            False if jobs were still held after `timeout`; the queue stays paused.
        """
        self._working()
        return self._operating.pause(parse_duration(timeout, "timeout"))

    def resume(self) -> None:
        """Hand out jobs again after `drain`."""
        self._working()
        self._operating.resume()

    def peek(self, most: SupportsIndex = 10) -> list[Record]:
        """Return the oldest records that are not finished, without taking them."""
        return self._operating.peek(_batch(most, "most"))

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} of {self._parts.log.path!r}>"

    # --- opening and closing ----------------------------------------------------------------------

    def _working(self) -> None:
        """Check that jobs may be taken here; the child of a fork becomes a worker of its own."""
        worker = self._parts.worker
        if worker.is_joined:
            return
        if worker.closed:
            raise ClosedError("the queue was closed: open it again", path=self._parts.folder)
        if worker.reads_only:
            raise ReadOnlyError(
                "this queue was opened with mode 'r', which takes and changes nothing: open it "
                "with mode 'a'",
                path=self._parts.folder,
            )
        self._executor = self._nap_end = None
        self._parts.scanner.forked()
        self._finishing.complete(worker.join())

    def close(self) -> None:
        """Give back the jobs that this process holds, and close the queue. Idempotent."""
        self._operating.close()
        if self._executor is not None:
            self._executor.shutdown(wait=False)
        if self._owns_log:
            self._parts.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

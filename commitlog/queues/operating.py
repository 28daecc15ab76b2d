"""Operating: what operators do with a queue, and its end in this process."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import islice

from commitlog import Record
from commitlog.base.failpoint import failpoint
from commitlog.base.polling import attempts
from commitlog.errors import IOFailureError, PositionError
from commitlog.queues import notes
from commitlog.queues.compiled.leases import AGAIN, fingerprint
from commitlog.queues.dead_letters import DeadLetter, DeadLetters
from commitlog.queues.finishing import Finishing
from commitlog.queues.handing_out import HandingOut
from commitlog.queues.parts import Parts
from commitlog.queues.upkeep import Upkeep, move_hold, write_base
from commitlog.queues.worker import boot_ns

_PURGED_AT_ONCE = 1000
_PATIENCE_S = 10.0
_FOREVER_NS = (1 << 63) - 1

_logger = logging.getLogger("commitlog")


class Operating:
    """Requeue, purge, drain, peek and close."""

    def __init__(
        self,
        parts: Parts,
        dead: DeadLetters,
        handing_out: HandingOut,
        finishing: Finishing,
        upkeep: Upkeep,
    ) -> None:
        self._parts = parts
        self._dead = dead
        self._handing_out = handing_out
        self._finishing = finishing
        self._upkeep = upkeep

    def requeue(self, letters: Iterable[DeadLetter]) -> int:
        """Make the jobs of dead letters available again, with all their attempts; return how many.

        A record that the log has no more is appended again, for all queues of the log. A base that
        another process writes between the note and the job would have neither, and of two that
        requeue the same letter one does it: so one process does at a time.
        """
        count = 0
        with self._parts.worker.file.maintaining():
            left = {letter.at for letter in self._dead}
            for letter in letters:
                if letter.at in left:
                    left.discard(letter.at)
                    self._requeue(letter)
                    count += 1
        self._finishing.wake()
        return count

    def _requeue(self, letter: DeadLetter) -> None:
        parts = self._parts
        if self._is_there(letter):
            move_hold(parts, min(parts.table.low(), letter.position))
        if self._is_there(letter):  # the hold keeps it from now on
            parts.state.append(notes.encode_again(letter.place), notes.AGAIN, sync=True)
            failpoint("requeue noted")
            if not any(job[1] == letter.position for job in parts.table.snapshot()[1]):
                parts.table.restore(tuple(letter.place), 0, 0, -1, AGAIN)
            failpoint("requeued")
        elif letter.value is not None:
            parts.log.append(
                letter.value,
                key=letter.key,
                type=letter.type,
                headers=letter.headers,
                sync=True,
            )
        self._dead.remove(letter)

    def _is_there(self, letter: DeadLetter) -> bool:
        try:
            return bool(fingerprint(self._parts.log.read(letter.position)) == letter.place.print)
        except PositionError:
            return False

    def purge(self) -> int:
        """Accept all jobs that no worker holds, and that were appended by now; return how many."""
        parts, end, count = self._parts, self._parts.log.tail_position, 0
        parts.table.wake_due(_FOREVER_NS)
        while jobs := self._handing_out.take(_PURGED_AT_ONCE, purges=True):
            late = [job for job in jobs if job.position >= end]
            self._finishing.accept([job for job in jobs if job.position < end])
            count += len(jobs) - len(late)
            if late:
                self._finishing.return_untried(late)
                break
        return count

    def pause(self, timeout_s: float) -> bool:
        """Hand out no more jobs, and wait until none is held; False if the time is over before."""
        table = self._parts.table
        table.paused = True
        waiting = attempts(timeout_s, f"the workers of queue {self._parts.name}", interval_s=0.02)
        for _ in waiting:
            # Paused workers look for no dead ones.
            now_ns = boot_ns()
            self._upkeep.rescue(now_ns)
            table.expire(now_ns)
            if table.acquired == 0:
                return True
        return False

    def resume(self) -> None:
        self._parts.table.paused = False
        self._parts.table.wake_all()
        self._parts.view.wake_readers()

    def peek(self, most: int) -> list[Record]:
        """Return the next records that can be taken, or are held or wait, without taking them."""
        return list(islice(self._unfinished(), most))

    def _unfinished(self) -> Iterator[Record]:
        parts = self._parts
        scan, jobs = parts.table.snapshot()
        for job in jobs:
            try:
                yield parts.log.read(job[1])
            except PositionError:
                continue
        with parts.log.tailer(start=max(scan, parts.log.first_position)) as tailer:
            for record in tailer:
                if parts.scanner.is_job(record):
                    yield record

    def close(self) -> None:
        """Give back what this process holds; the last worker writes a base."""
        parts = self._parts
        worker = parts.worker
        if worker.closed:
            return
        is_joined, worker.closed = worker.is_joined, True
        try:
            if is_joined:
                with worker.file.opening():
                    self._leave()
                self._finishing.wake()
        except IOFailureError as error:
            if not parts.table.is_overwritten:
                raise
            _logger.warning("queue %s was closed without its leases: %s", parts.folder, error)
        finally:
            worker.leave()
            parts.state.close()
            self._dead.close()
            worker.file.close()

    def _leave(self) -> None:
        """Give back all jobs, when other threads have accepted what they are accepting."""
        parts, table = self._parts, self._parts.table
        worker = parts.worker
        table.end()
        for _ in attempts(_PATIENCE_S, f"threads that accept jobs of {parts.folder}"):
            if table.own_acquired == 0:
                break
        if not worker.file.has_other_workers(worker.number):
            with worker.file.compacting(_PATIENCE_S) as is_ours:
                if is_ours:
                    write_base(parts, is_clean=table.acquired == 0)
        worker.leave()

"""Upkeep: what a worker does for its queue now and then, beside its jobs."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from commitlog.base.failpoint import failpoint
from commitlog.errors import CommitLogError, IOFailureError
from commitlog.queues.delays import delays_of
from commitlog.queues.finishing import Finishing
from commitlog.queues.notes import Place, Print, Tried
from commitlog.queues.parts import Parts
from commitlog.queues.recovery import wall_time
from commitlog.queues.terms import GivenTerms

_EVERY_NS = 250_000_000
_ROUND_NS = 5_000_000  # between looks for dead workers

_logger = logging.getLogger("commitlog")


class Upkeep:
    """Take back the jobs of dead workers, compact the state, and move the hold on the log."""

    def __init__(self, parts: Parts, finishing: Finishing) -> None:
        self._parts = parts
        self._finishing = finishing
        self.due_ns = 0
        self._orphans_due_ns = 0
        self._held_below = 0
        self._terms_version = parts.table.terms_version

    def rescue(self, now_ns: int) -> bool:
        """Take jobs back whose workers have died; return whether there were any."""
        if now_ns < self._orphans_due_ns:
            return False
        self._orphans_due_ns = now_ns + _ROUND_NS
        table, any_died = self._parts.table, False
        for worker, generation in table.dead_workers():
            any_died = True
            self._finishing.complete(table.orphan(worker, generation))
            failpoint("dead worker's jobs taken")
        return any_died

    def run(self, now_ns: int) -> None:
        """Do what is due."""
        if now_ns < self.due_ns:
            return
        self.due_ns = now_ns + _EVERY_NS
        parts = self._parts
        self.rescue(now_ns)
        delays_of(parts.log).run(parts.log)
        if parts.worker.file.is_replaced():
            raise IOFailureError(
                "`leases` was deleted or replaced while the queue is open: close the queue in "
                "every process, then open it again",
                path=parts.folder,
                errno=5,
            )
        if parts.table.terms_version != self._terms_version:
            self._terms_version = parts.table.terms_version
            known = parts.state.beginning()
            if known is not None:
                parts.beginning = known
        self._advance_hold()
        if parts.state.needs_base(parts.table.base):
            with parts.worker.file.compacting() as is_ours:
                if is_ours and parts.state.needs_base(parts.table.base):
                    write_base(parts)

    def _advance_hold(self) -> None:
        """Let retention delete segments that are done. Their acceptances are durable before."""
        parts, size = self._parts, self._parts.log.segment_size
        if parts.table.scan // size <= self._held_below // size:
            return
        low = parts.table.low()
        if low // size > self._held_below // size:
            with parts.worker.file.compacting() as is_ours:
                if is_ours:
                    parts.state.log.flush()
                    move_hold(parts, low)
                    self._held_below = low

    def change_terms(self, given: GivenTerms) -> None:
        """Change the terms for all workers."""
        parts = self._parts
        with parts.worker.file.maintaining():
            known = parts.state.beginning() or parts.beginning
            parts.beginning = known._replace(terms=given.over(known.terms))
            parts.state.begin(parts.beginning)
            failpoint("terms noted")
            parts.table.change_terms(parts.terms.table_terms)


def write_base(parts: Parts, *, is_clean: bool = False, prints: Sequence[Print] = ()) -> None:
    """Note all of the queue durably, let retention delete what is done, and shorten the state. The
    caller is the one that compacts.
    """
    state, table = parts.state, parts.table
    since = state.end
    # What was noted before is in the table; what is noted from now on is read again.
    scan, snapshot = table.snapshot()
    # A job that is being accepted may have its note already, and is none of the table's yet.
    since = min([since, *(job[13] for job in snapshot if job[6] == "accepting")])
    jobs = []
    for (
        start,
        position,
        stop,
        key,
        print,
        attempt,
        kind,
        _,
        until,
        _,
        history,
        _,
        slot,
        _,
    ) in snapshot:
        place = Place(start, position, stop, key, print)
        known = state.read_tried(history)
        order = 2 * attempt
        if known is not None and known.place == place:
            order = max(order, known.order)
            (at,) = state.append_tried([known], sync=False)
            table.move_history(slot, history, at)
        jobs.append(Tried(place, order, wall_time(until) if kind == "waiting" else 0))
    top, print = table.top
    known_prints = [*prints, *state.prints_at(table.base)]
    if top:
        known_prints.append(Print(top, scan, print))
    table.check()
    table.base = state.rebase(
        since,
        scan,
        [each for each in known_prints if each.position < each.stop <= scan],
        jobs,
        state.beginning() or parts.beginning,
        is_clean=is_clean,
    )
    failpoint("base written")
    move_hold(parts, min([scan, *(job.place.position for job in jobs)]))


def move_hold(parts: Parts, position: int) -> None:
    """Let retention delete what is below a position, and nothing above."""
    try:
        begin_hold(parts, position)
    except CommitLogError as error:
        # Kept as it is: retention then deletes less than it may.
        _logger.warning("queue %s: its hold on the log was not moved: %s", parts.folder, error)


def begin_hold(parts: Parts, position: int) -> None:
    """As `move_hold`, and raise if it cannot be."""
    with parts.log.tailer(hold_name(parts.name), required=True, start=position) as tailer:
        tailer.seek(position)


def hold_name(queue: str) -> str:
    """Return the name of the tailer that keeps what a queue has not finished."""
    return f"queue+{queue}"

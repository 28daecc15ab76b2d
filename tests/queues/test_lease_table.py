"""The table of leases against a plain model: any order of its transitions."""

from __future__ import annotations

import os
import struct
import tempfile
from types import SimpleNamespace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from commitlog.queues.compiled.leases import DYING, TABLE_SIZE, Lease, LeaseTable

LEASE_NS = 100
ATTEMPTS = 3
LOCK_AT = 264
DEAD_OWNER = (7 << 11) | 900  # no process holds the byte of this worker


class Held(Lease):
    __slots__ = ()


class Machine(RuleBasedStateMachine):
    """Two workers of one table, and what each job must be."""

    def __init__(self) -> None:
        super().__init__()
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self.memory = bytearray(TABLE_SIZE)
        self.now = 1000
        self.position = 0
        self.done: set[int] = set()
        self.dead: set[int] = set()
        self.jobs: dict[int, SimpleNamespace] = {}

    def teardown(self) -> None:
        self.file.close()

    @initialize(ordered=st.booleans(), in_flight=st.sampled_from([1, 3, 1000]))
    def begin(self, ordered: bool, in_flight: int) -> None:
        self.ordered = ordered
        self.in_flight = in_flight
        fd = self.file.fileno()
        self.tables = [LeaseTable(self.memory, True, fd, "queue") for _ in range(2)]
        self.tables[0].format(0, (LEASE_NS, ATTEMPTS, in_flight, 1000, ordered), 0, 1)
        for number, table in enumerate(self.tables):
            assert table.become(number, os.getpid(), self.now) == []
        self.held: list[list[Held]] = [[], []]

    # --- transitions ------------------------------------------------------------------------------

    @rule(keys=st.lists(st.sampled_from([None, b"a", b"b"]), max_size=6))
    def add(self, keys: list[bytes | None]) -> None:
        start = self.position
        records = []
        for key in keys:
            records.append(
                SimpleNamespace(position=self.position, key=key, value=b"v", timestamp_ns=1, type=0)
            )
            self.jobs[self.position] = SimpleNamespace(key=key, attempt=0, wait=0, dying=False)
            self.position += 10
        if keys:
            last = records[-1]
            assert self.tables[0].add(start, self.position, records, last) == len(keys)
            assert self.tables[1].add(start, self.position, records, last) == -1

    def expire(self) -> None:
        for held in self.held:
            for job in [job for job in held if job.until_ns <= self.now]:
                held.remove(job)
        for job in self.jobs.values():
            if job.wait and job.wait <= self.now:
                job.wait = 0

    @rule(worker=st.integers(0, 1), most=st.integers(1, 4))
    def acquire(self, worker: int, most: int) -> None:
        self.expire()
        free = self.takeable()
        room = self.in_flight - sum(map(len, self.held))
        jobs, limit = self.tables[worker].acquire(Held, None, most, self.now, False)
        assert [job.position for job in jobs] == free[: min(most, room)]
        assert bool(limit) == (room < min(most, len(free)))
        for job in jobs:
            known = self.jobs[job.position]
            if known.attempt == ATTEMPTS or known.dying:
                known.dying = True
                assert job.flags & DYING
            else:
                known.attempt += 1
            assert job.attempt == known.attempt
        self.tables[worker].confirm([job for job in jobs if job.flags])
        self.held[worker] += jobs

    def takeable(self) -> list[int]:
        """The positions of jobs that may be handed out, in order."""
        held = {job.position for jobs in self.held for job in jobs}
        found, keys = [], set()
        for position in sorted(self.jobs):
            job = self.jobs[position]
            first = job.key is None or not self.ordered or job.key not in keys
            keys.add(job.key)
            if first and position not in held and not job.wait:
                found.append(position)
        return found

    @precondition(lambda self: any(self.held))
    @rule(data=st.data(), how=st.sampled_from(["accept", "undo", "release", "wait", "untried"]))
    def finish(self, data: st.DataObject, how: str) -> None:
        worker = data.draw(st.sampled_from([i for i in (0, 1) if self.held[i]]))
        job = data.draw(st.sampled_from(self.held[worker]))
        table, known = self.tables[worker], self.jobs[job.position]
        assert not self.tables[1 - worker].is_held(job) or worker == 1 - worker
        if how in ("accept", "undo"):
            held, note = table.begin_accept([job], 5)
            assert held == [job]
            assert struct.unpack("<qQQqq", note)[3:] == (job.start, job.stop)
            if how == "undo":
                table.undo_accept([job])
                assert table.is_held(job)
                return
            table.finish([job])
            del self.jobs[job.position]
            self.done.add(job.position)
        else:
            until = self.now + 50 if how == "wait" else 0
            assert table.release(job, until, how != "untried")
            known.wait = until
            if how == "untried" and not job.flags & DYING:
                known.attempt -= 1
        self.held[worker].remove(job)
        assert not table.is_held(job)
        assert not table.release(job, 0, True)

    @precondition(lambda self: any(self.held))
    @rule(worker=st.integers(0, 1))
    def renew(self, worker: int) -> None:
        for job in self.held[worker]:
            assert self.tables[worker].renew(job, self.now)

    @rule(passed=st.sampled_from([10, 60, 150]))
    def pass_time(self, passed: int) -> None:
        self.now += passed

    @rule(worker=st.integers(0, 1))
    def die(self, worker: int) -> None:
        """A worker dies; another one takes its place."""
        assert self.tables[worker].become(worker, os.getpid(), self.now) == []
        self.held[worker] = []

    @rule()
    def die_in_the_lock(self) -> None:
        """A process is killed in the middle: lists, heaps and counts are worth nothing."""
        struct.pack_into("<I", self.memory, LOCK_AT, DEAD_OWNER)

    # --- what holds always ------------------------------------------------------------------------

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "tables"):
            return
        scan, jobs = self.tables[0].snapshot()
        assert scan == self.position
        assert [job[1] for job in jobs] == sorted(self.jobs)
        low = min(self.jobs, default=self.position)
        assert self.tables[1].low() == low
        for table, held in zip(self.tables, self.held, strict=True):
            for job in held:
                assert table.is_held(job)  # also behind its end, until a worker takes a job


Machine.TestCase.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
test_any_order_of_transitions_agrees_with_the_model = Machine.TestCase

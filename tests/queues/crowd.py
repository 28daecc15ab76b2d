"""A crowd of workers that are killed at any moment, and an oracle of what they have done."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections import defaultdict
from pathlib import Path

import commitlog
from commitlog.errors import LeaseLostError

KEYS = 20


def job_value(number: int) -> bytes:
    return b"%d" % number


def fill(path: Path, jobs: range) -> None:
    """Append jobs; the key of each is one of a few."""
    with commitlog.open(path, segment_size="64KiB") as log:
        for number in jobs:
            log.append(job_value(number), key=b"key %d" % (number % KEYS))


def work(path: Path, story: Path, seed: int, batch: int) -> None:
    """Take jobs until there are none; note in `story` what was begun and what was finished."""
    chance = random.Random(seed)
    fd = os.open(story, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(what: str, job: commitlog.queues.Job) -> None:
        os.write(fd, f"{what} {int(job.value)} {job.attempt}\n".encode())

    with commitlog.queue(path, "crowd") as queue:
        while jobs := queue.take_many(batch, 1.0):
            for job in jobs:
                note("begin", job)
                try:
                    lot = chance.random()
                    if lot < 0.05:
                        note("give", job)  # before: then another process may begin at once
                        job.release(0, reason="a bad day")
                    elif lot < 0.07:
                        note("drop", job)
                        job.reject("no use")
                        note("dead", job)
                    else:
                        job.accept()
                        note("accept", job)
                except LeaseLostError:
                    note("lost", job)


class Crowd:
    """Worker processes of one queue."""

    def __init__(self, path: Path, workers: int, seed: int, batch: int = 3) -> None:
        self.path = path
        self.story = path.parent / "story"
        self.batch = batch
        self._chance = random.Random(seed)
        self._pids: list[int] = []
        self._workers = workers
        self.kills = 0

    def _start(self) -> int:
        seed = self._chance.randrange(1 << 30)
        pid = os.fork()
        if pid:
            return pid
        try:
            work(self.path, self.story, seed, self.batch)
            os._exit(0)
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
            os._exit(3)

    def run(self, kills: int, limit_s: float) -> None:
        """Kill workers at random and start others, until all jobs are finished."""
        deadline_s = time.monotonic() + limit_s
        self._pids = [self._start() for _ in range(self._workers)]
        try:
            while self._pids:
                assert time.monotonic() < deadline_s, "the workers did not come to an end"
                if self.kills < kills and self._chance.random() < 0.7:
                    time.sleep(self._chance.random() * 0.03)
                    self._kill_one()
                else:
                    time.sleep(0.005)
                self._reap()
        finally:
            for pid in self._pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _kill_one(self) -> None:
        index = self._chance.randrange(len(self._pids))
        pid = self._pids[index]
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        del self._pids[index]
        if os.WIFSIGNALED(status):
            self.kills += 1
            self._pids.append(self._start())

    def _reap(self) -> None:
        for pid in list(self._pids):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                assert status == 0, f"a worker ended with {status}"
                self._pids.remove(pid)

    # --- the oracle -------------------------------------------------------------------------------

    def events(self) -> list[tuple[str, int, int]]:
        lines = self.story.read_text().splitlines()
        return [(what, int(job), int(attempt)) for what, job, attempt in map(str.split, lines)]

    def check(self, jobs: range, *, ordered: bool) -> None:
        """Each job is finished, and was accepted once at most; keys are in order."""
        accepted: dict[int, int] = defaultdict(int)
        begun: dict[int, list[int]] = defaultdict(list)
        attempts: dict[int, int] = defaultdict(int)
        for when, (what, job, attempt) in enumerate(self.events()):
            if what == "begin":
                begun[job].append(when)
                assert attempt >= attempts[job], f"job {job}: attempt {attempt} came late"
                attempts[job] = attempt
            accepted[job] += what == "accept"
        with commitlog.queue(self.path, "crowd") as queue:
            assert queue.take_many(1, 0) == []
            dead = [int(letter.value or b"") for letter in queue.dead()]
            stats = queue.stats()
        assert len(dead) == len(set(dead)), "a job has two dead letters"
        assert (stats.depth, stats.held, stats.waiting) == (0, 0, 0)
        for job in jobs:
            assert begun[job] or job in dead, f"job {job} was lost"
            assert accepted[job] + (job in dead) <= 1, f"job {job} was finished twice"
        if ordered:
            check_order(begun, jobs)


def check_order(begun: dict[int, list[int]], jobs: range) -> None:
    """A job of a key is begun when the one before it never will be again."""
    for job in jobs:
        after = job + KEYS
        if begun[job] and begun.get(after):
            assert begun[job][-1] < begun[after][0], f"job {after} began before {job} was finished"

"""Campaign: many seeds, in forked children, so that no run sees what another one left."""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import select
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.simulation.plan import KINDS
from tests.simulation.run import Outcome, run_seed

_BATCH = 10  # seeds of one child
_LIMIT_S = 120.0  # of a batch
_SEEN = ("pairs", "triples", "places")  # of an outcome
_PACKAGE = Path(__file__).parents[2] / "commitlog"
_STEP = re.compile(r'failpoint\("([^"]+)"\)')


def outcomes(seeds: Iterable[int], workers: int = 1) -> Iterator[Outcome]:
    """Run seeds, each once, and yield what they came to as they end."""
    waiting = list(seeds)
    running: dict[int, tuple[int, list[int], bytearray, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                batch, waiting = waiting[:_BATCH], waiting[_BATCH:]
                fd, pid = _started(batch)
                running[fd] = pid, batch, bytearray(), time.monotonic()
            ready = select.select(list(running), [], [], 1.0)[0]
            for fd in list(running):
                pid, batch, received, began_s = running[fd]
                if fd in ready:
                    piece = os.read(fd, 1 << 16)
                    received += piece
                    *lines, rest = bytes(received).split(b"\n")
                    received[:] = rest
                    for line in lines:
                        found = _parsed(line)
                        batch.remove(found.seed)
                        yield found
                    if piece:
                        continue
                elif time.monotonic() - began_s < _LIMIT_S:
                    continue
                else:
                    os.kill(pid, signal.SIGKILL)
                os.close(fd)
                del running[fd]
                status = os.waitpid(pid, 0)[1]
                if batch:  # the seed at which the child died
                    yield Outcome(batch[0], "crash", f"the process ended with status {status}")
                    waiting = batch[1:] + waiting
    finally:
        for fd, (pid, *_) in running.items():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(fd)


def _started(batch: list[int]) -> tuple[int, int]:
    fd, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return fd, pid
    try:
        os.close(fd)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        gc.disable()
        with os.fdopen(theirs, "wb", buffering=0) as out:
            for seed in batch:
                found = asdict(run_seed(seed))
                for name in _SEEN:
                    found[name] = sorted(found[name])
                out.write(json.dumps(found).encode() + b"\n")
    finally:
        os._exit(0)


def _parsed(line: bytes) -> Outcome:
    found = json.loads(line)
    for name in _SEEN:
        found[name] = {tuple(each) for each in found[name]}
    return Outcome(**found)


def steps_of_the_floors() -> set[str]:
    """Return the steps of replication and stores, all of which a run may pass."""
    files = [each for floor in ("network", "stores") for each in (_PACKAGE / floor).rglob("*.py")]
    return {name for each in files for name in _STEP.findall(each.read_text())}


class Figures:
    """What a campaign has done, for a file of figures."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._began_s = time.monotonic()
        self._sums: Counter[str] = Counter()
        self._rules: Counter[str] = Counter()
        self._steps: Counter[str] = Counter()
        self._pairs: set[tuple[str, ...]] = set()
        self._triples: set[tuple[str, ...]] = set()
        self._places: set[tuple[str, ...]] = set()
        self._cpu_s = 0.0
        self.failed: list[int] = []

    def add(self, found: Outcome) -> None:
        self._sums.update(
            seeds=1,
            events=found.events,
            opens=found.opens,
            acknowledged=found.acks,
            promotions=found.promotions,
            logs_read=found.reads,
            records_of_readers=found.read_by_readers,
            choices=len(found.choices),
        )
        self._steps.update(found.steps)
        self._pairs |= found.pairs
        self._triples |= found.triples
        self._places |= found.places
        self._cpu_s += found.took_s
        if found.rule:
            self._rules[found.rule] += 1
            self.failed.append(found.seed)

    def content(self) -> dict[str, Any]:
        wanted = {(one, two) for one in KINDS for two in KINDS}
        took_s = time.monotonic() - self._began_s
        count = self._sums["seeds"]
        return {
            "first_seed": self._first,
            **self._sums,
            "violations": dict(self._rules),
            "failed_seeds": self.failed,
            "seconds": round(took_s, 1),
            "cpu_seconds": round(self._cpu_s, 1),
            "seeds_per_minute_and_core": round(60 * count / self._cpu_s) if self._cpu_s else 0,
            "steps_passed": len(self._steps),
            "pairs_seen": len(self._pairs & wanted),
            "pairs": len(wanted),
            "triples_seen": len(self._triples),
            "triples": len(KINDS) ** 3,
            "places_seen": len(self._places),  # event, role of the machine, step
            "places": (len(KINDS) + 1) * len({each[1:] for each in self._places}),
            "pairs_never_seen": [" ".join(each) for each in sorted(wanted - self._pairs)],
            "steps_never_passed": sorted(steps_of_the_floors() - self._steps.keys()),
            "events_of_each_place": self._events_of_each_place(),
        }

    def _events_of_each_place(self) -> dict[str, int]:
        """Return after how many kinds of events each role passed each step."""
        counted = Counter(" ".join(each[1:]) for each in self._places)
        return dict(sorted(counted.items()))

"""The loops of the roles that run in Python: those of `Bench.java`."""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable
from itertools import repeat

import numpy as np
import numpy.typing as npt

BATCH = 1024
Append = Callable[[object], object]


class Settings(dict[str, str]):
    """The `KEY=VALUE` arguments of a program."""

    @classmethod
    def of(cls, arguments: Iterable[str]) -> Settings:
        return cls(setting.split("=", 1) for setting in arguments)

    def number(self, name: str) -> int:
        """Return a whole number; 0 if it is not given."""
        return int(float(self.get(name, 0)))

    def value(self) -> bytes:
        return np.random.default_rng(7).bytes(self.number("size"))


def say(**figures: object) -> None:
    print(json.dumps(figures), flush=True)


def ready() -> None:
    """Wait until all processes of the turn are in place."""
    print("ready", flush=True)
    sys.stdin.readline()


def percentiles(taken: npt.ArrayLike) -> dict[str, int]:
    """Return p50, p99 and p99.9 of nanoseconds."""
    ordered = np.sort(np.asarray(taken, np.int64))
    last = len(ordered) - 1
    return {
        name: int(ordered[int(last * part)])
        for name, part in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))
    }


def timed(call: Callable[[], object]) -> int:
    """Return the nanoseconds of a call."""
    began = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - began


def median(each: list[float]) -> float:
    return sorted(each)[len(each) // 2]


def burst(given: Settings, put: Callable[[int], object], drain: Callable[[], object]) -> None:
    """Time bursts of appends; what follows a burst is not counted."""
    records, each = given.number("records"), []
    for turn in range(-given.number("warm"), given.number("bursts")):
        took = timed(lambda: put(records))
        if turn >= 0:
            each.append(took / records)
        drain()
        time.sleep(0.01)
    say(ns=median(each))


def sustained(given: Settings, put: Callable[[int], object], drain: Callable[[], object]) -> None:
    """Time one long piece with its last flush."""
    put(given.number("warm_records"))
    drain()
    records = given.number("bytes") // given.number("size") // BATCH * BATCH
    took = timed(lambda: put(records)) + timed(drain)
    say(mb_s=records * given.number("size") * 1e3 / took)


def paced(given: Settings, append: Append) -> None:
    """Append at a constant rate; a latency counts from when the append was due.

    A roll's time is that of the call.
    """
    value, rate = given.value(), given.number("rate")
    _pace(append, value, rate, rate * given.number("warm_ms") // 1000)
    gc.collect()
    taken, calls, positions = _pace(append, value, rate, rate * given.number("ms") // 1000)
    segments = positions // max(1, given.number("segment"))
    rolls = np.flatnonzero(np.diff(segments)) + 1
    say(**percentiles(taken), rolls=calls[rolls].tolist())


def _pace(append: Append, value: bytes, rate: int, count: int) -> npt.NDArray[np.int64]:
    """Return three rows: latencies, times of the calls, and what they returned."""
    found, clock = np.ones((3, count), np.int64), time.perf_counter_ns
    latencies, calls, positions = (row.data for row in found)
    due = (np.arange(count) * (1e9 / rate)).astype(np.int64)
    due += clock() + 50_000_000
    for index, moment in enumerate(due.data):
        while (began := clock()) < moment:
            pass
        position = append(value)
        ended = clock()
        latencies[index] = ended - moment
        calls[index] = ended - began
        positions[index] = position
    return found


def sync(given: Settings, append: Append) -> None:
    """Append from threads, each append durable before the next."""
    threads, value, taken = given.number("threads"), given.value(), list[int]()
    barrier = threading.Barrier(threads)

    def work() -> None:
        clock, mine = time.perf_counter_ns, []
        for _ in repeat(None, given.number("warm_appends")):
            append(value)
        barrier.wait()
        began = clock()
        deadline = began + given.number("ms") * 1_000_000
        while began < deadline:
            append(value)
            ended = clock()
            mine.append(ended - began)
            began = ended
        taken.extend(mine)

    running = [threading.Thread(target=work) for _ in range(threads)]
    for one in running:
        one.start()
    for one in running:
        one.join()
    say(**percentiles(taken), per_s=len(taken) * 1e3 / given.number("ms"))


def read(given: Settings, read_all: Callable[[], int]) -> None:
    """Time passes over the whole log."""
    records, each = given.number("records"), []
    for turn in range(-given.number("warm"), given.number("passes")):
        began = time.perf_counter_ns()
        seen = read_all()
        took = time.perf_counter_ns() - began
        if seen != records:
            raise RuntimeError(f"a pass read {seen} records and not {records}")
        if turn >= 0:
            each.append(took / records)
    say(ns=median(each))

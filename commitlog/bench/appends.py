"""Appending as fast as it goes: one record a call, a list of them, an array of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import repeat

import numpy as np
import numpy.typing as npt

import commitlog
from commitlog.bench.case import Case
from commitlog.bench.ground import Ground, frame_size, value_of, what_is_written
from commitlog.bench.sample import Meter, Sample

BATCH = 1024
Block = Callable[[int], None]
# Shorter blocks would time the clock; until then a block is doubled, and not counted. It has to be
# as long twice in a row: once may be a processor that others had, and turns of blocks so small
# would be ten seconds of waiting in between.
_SETTLED_NS = 4_000_000
_SETTLED_TIMES = 2
_SMALLEST = 16
_TIMED_BATCHES = 100
_SECONDS_MOST = 10.0


def single(log: commitlog.CommitLog, value: bytes) -> Block:
    """One call a record."""

    def block(count: int) -> None:
        append = log.append
        for _ in repeat(None, count):
            append(value)

    return block


def batch(log: commitlog.CommitLog, value: bytes) -> Block:
    """One call for a list."""
    values = [value] * BATCH

    def block(count: int) -> None:
        append_many = log.append_many
        for _ in repeat(None, count // BATCH):
            append_many(values)

    return block


def array(log: commitlog.CommitLog, value: bytes) -> Block:
    """One call for an array, a row a record."""
    rows = np.frombuffer(value * BATCH, np.uint8).reshape(BATCH, len(value))

    def block(count: int) -> None:
        append_array = log.append_array
        for _ in repeat(None, count // BATCH):
            append_array(rows)

    return block


FORMS = {"single": (single, 1), "batch": (batch, BATCH), "array": (array, BATCH)}


def measure(ground: Ground, case: Case, hashed: bool) -> Sample:
    """Bursts of appends, with the log drained in between where appends do not wait for the disk by
    themselves.
    """
    settings = ground.settings
    make_block, per_call = FORMS[case.form]
    calls = (
        settings.latency_appends if per_call == 1 else min(settings.latency_appends, _TIMED_BATCHES)
    )
    # Growing the first block takes up to three bursts that are not counted.
    total = (
        settings.append_bytes
        + 4 * settings.burst_bytes
        + calls * per_call * frame_size(case.value_size)
    )
    with ground.log(case, total) as log, Meter(case.value_size) as meter:
        block = make_block(log, value_of(case.value_size))

        def rest() -> None:
            if case.flush == "async":
                log.flush(timeout=60)
            elif case.flush == "none":
                log.commit()
            if case.flush != "sync":
                time.sleep(settings.rest_s)

        run_blocks(meter, block, ground, case, per_call=per_call, rest=rest)
        # Each call timed by itself, clock included: throughput is not taken from these.
        meter.sample.latencies_ns = one_by_one(block, per_call, calls, settings.sync_s)
        if hashed:
            meter.sample.written = what_is_written(log, case.value_size)
    return meter.sample


def run_blocks(
    meter: Meter,
    block: Block,
    ground: Ground,
    case: Case,
    *,
    per_call: int,
    rest: Callable[[], None],
) -> None:
    """Grow the block until it is long enough to be timed, then count blocks until the turn's bytes
    or seconds are used up.
    """
    settings = ground.settings
    frame = frame_size(case.value_size)
    most = max(per_call, settings.burst_bytes // frame // per_call * per_call)
    seconds = settings.sync_s if case.flush == "sync" else _SECONDS_MOST
    count = _SMALLEST if per_call == 1 else per_call
    clock = time.perf_counter_ns
    settled = 0
    while settled < _SETTLED_TIMES and 2 * count <= most:
        began = clock()
        block(count)
        settled = settled + 1 if clock() - began >= _SETTLED_NS else 0
        rest()
        if settled == 0:
            count *= 2
    deadline, written = clock() + int(seconds * 1e9), 0
    while not written or (written < settings.append_bytes and clock() < deadline):
        began = clock()
        block(count)
        meter.note(began, clock() - began, count)
        written += count * frame
        rest()


def one_by_one(block: Block, per_call: int, calls: int, seconds: float) -> npt.NDArray[np.int64]:
    """Nanoseconds of each of some calls."""
    taken = np.zeros(calls, np.int64)
    clock = time.perf_counter_ns
    deadline = clock() + int(seconds * 1e9)
    done = 0
    while done < calls and (not done or clock() < deadline):
        began = clock()
        block(per_call)
        taken[done] = clock() - began
        done += 1
    return taken[:done]

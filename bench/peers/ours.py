"""commitlog in each role: ``python -m bench.peers.ours ROLE DIRECTORY KEY=VALUE...``.

`setup` is mapped, pooled or alone (no log); `flush` is the option; `form` says how to append and
read: by single calls, in batches, as messages, or through the C API (`ticks` names the built
example).
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import count, islice, repeat
from typing import Any

import numpy as np

import commitlog
from bench.peers import loops, messages
from bench.peers.loops import BATCH, Settings
from commitlog.tail.tailer import Tailer

SEGMENT = 64 << 20
CAPI_BYTES = 40


def opened(path: str, given: Settings) -> commitlog.CommitLog:
    """Open for appending."""
    segment = given.number("segment") or SEGMENT
    flush: Any = given.get("flush", "async")
    if given.get("setup") != "pooled":
        return commitlog.open(path, flush=flush, segment_size=segment)
    buffers = given.number("buffers") or 5
    pool = commitlog.TransientStorePool(buffers=buffers, buffer_size=segment, low_water=0)
    return commitlog.open(path, flush=flush, pool=pool)


def appending(log: commitlog.CommitLog, given: Settings) -> Callable[[int], None]:
    """Return a function that appends so many records."""
    value, form = given.value(), given["form"]
    if form in messages.APPENDING:
        return messages.APPENDING[form](log)

    def single(records: int) -> None:
        append = log.append
        for _ in repeat(None, records):
            append(value)

    def many(records: int) -> None:
        append_many, values = log.append_many, [value] * BATCH
        for _ in repeat(None, records // BATCH):
            append_many(values)

    def array(records: int) -> None:
        rows = np.frombuffer(value * BATCH, np.uint8).reshape(BATCH, len(value))
        append_array = log.append_array
        for _ in repeat(None, records // BATCH):
            append_array(rows)

    if form == "capi":
        if len(value) != CAPI_BYTES:
            raise ValueError(f"the example appends {CAPI_BYTES} bytes and not {len(value)}")
        return partial(importlib.import_module("ticks").produce, log)
    return {"single": single, "many": many, "array": array}[form]


def drain(log: commitlog.CommitLog) -> None:
    log.flush(timeout=600)


def burst(path: str, given: Settings) -> None:
    with opened(path, given) as log:
        loops.burst(given, appending(log, given), partial(drain, log))


def sustained(path: str, given: Settings) -> None:
    with opened(path, given) as log:
        loops.sustained(given, appending(log, given), partial(drain, log))


def paced(path: str, given: Settings) -> None:
    if given["setup"] == "alone":  # the loop without a log: what the machine does to the tail
        loops.paced(given, partial(next, count(0, given.number("size"))))
        return
    with opened(path, given) as log:
        loops.paced(given, log.append)


def sync(path: str, given: Settings) -> None:
    with opened(path, Settings(given, flush="sync")) as log:
        loops.sync(given, log.append)


def read(path: str, given: Settings) -> None:
    records, form = given.number("records"), given["form"]
    with opened(path, given) as log:
        is_typed = form in messages.APPENDING
        appending(log, Settings(given, form=form if is_typed else "array"))(records)
        drain(log)
        if is_typed:
            loops.read(given, partial(messages.read_all, log, form))
            return
        with log.tailer() as tailer:

            def read_all() -> int:
                tailer.seek("first")
                READ[form](tailer, records, False)
                return records

            loops.read(given, read_all)


def _values(tailer: Tailer, records: int, live: bool) -> None:
    values = tailer.values(timeout=None, idle="spin") if live else tailer.values()
    for _ in islice(values, records) if live else values:
        pass


def _records(tailer: Tailer, records: int, live: bool) -> None:
    for record in islice(tailer.follow(idle="spin"), records) if live else tailer:
        _ = record.value


def _batches(tailer: Tailer, records: int, live: bool) -> None:
    left = records
    while left:
        left -= len(tailer.read_batch(min(left, 65536), timeout=None, idle="spin"))


def _capi(tailer: Tailer, records: int, live: bool) -> None:
    importlib.import_module("ticks").consume(tailer, records)


READ: dict[str, Callable[[Tailer, int, bool], None]] = {
    "single": _values,
    "values": _values,
    "records": _records,
    "array": _batches,
    "read_batch": _batches,
    "capi": _capi,
}


def reading(path: str) -> commitlog.CommitLog:
    return commitlog.open(path, mode="r", wait_for_log="20s")


def write(path: str, given: Settings) -> None:
    """Append for readers; with a rate, each record carries the time at which it was due."""
    records = given.number("records") + given.number("warm_records")
    with opened(path, given) as log:
        put = appending(log, given)
        loops.ready()
        if given.number("rate"):
            _write_paced(log, given, records)
        else:
            put(records)
        loops.say()
        sys.stdin.readline()  # the log stays open until the reader is done


def _write_paced(log: commitlog.CommitLog, given: Settings, records: int) -> None:
    append, clock, rest = log.append, time.perf_counter_ns, given.value()[8:]
    step, began = 1e9 / given.number("rate"), time.perf_counter_ns() + 100_000_000
    for index in range(records):
        due = began + int(index * step)
        value = due.to_bytes(8, "little") + rest
        while clock() < due:
            pass
        append(value)


def take(path: str, given: Settings) -> None:
    writers, records = given.number("writers"), given.number("records")
    with reading(path) as log, log.tailer() as tailer:
        loops.ready()
        source = READ[given["form"]]
        source(tailer, given.number("warm_records") * writers, True)
        took = loops.timed(lambda: source(tailer, records * writers, True))
        loops.say(ns=took / (records * writers))


def paced_take(path: str, given: Settings) -> None:
    taken = np.ones(given.number("records"), np.int64)
    with reading(path) as log, log.tailer() as tailer:
        loops.ready()
        values = tailer.values(timeout=None, idle="spin")
        into, clock = taken.data, time.perf_counter_ns
        for _ in islice(values, given.number("warm_records")):
            pass
        for index, value in enumerate(islice(values, len(taken))):
            into[index] = clock() - int.from_bytes(value[:8], "little")
        loops.say(**loops.percentiles(taken))


def ping(path: str, given: Settings) -> None:
    """Send a number, wait for the answer."""
    warm, rest = given.number("warm_records"), given.value()[8:]
    taken, clock = np.ones(given.number("records"), np.int64), time.perf_counter_ns
    with opened(f"{path}-there", given) as log:
        loops.ready()
        answers = reading(f"{path}-back").tailer().values(timeout=None, idle="spin")
        for number in range(warm + len(taken)):
            value = number.to_bytes(8, "little") + rest
            began = clock()
            log.append(value)
            answer = next(answers)
            took = clock() - began
            if answer != value:
                raise RuntimeError("another answer came")
            if number >= warm:
                taken[number - warm] = took
    loops.say(**loops.percentiles(taken))


def pong(path: str, given: Settings) -> None:
    records = given.number("records") + given.number("warm_records")
    with opened(f"{path}-back", given) as log:
        loops.ready()
        append, there = log.append, reading(f"{path}-there").tailer()
        for value in islice(there.values(timeout=None, idle="spin"), records):
            append(value)
        loops.say()
        sys.stdin.readline()


ROLES: dict[str, Callable[[str, Settings], None]] = {
    "burst": burst,
    "sustained": sustained,
    "paced": paced,
    "sync": sync,
    "read": read,
    "write": write,
    "take": take,
    "paced-take": paced_take,
    "ping": ping,
    "pong": pong,
}


def main(role: str, directory: str, *settings: str) -> None:
    given = Settings({"form": "single"}, **Settings.of(settings))
    if "ticks" in given:
        sys.path.append(given["ticks"])
    ROLES[role](f"{directory}/log", given)


if __name__ == "__main__":
    main(*sys.argv[1:])

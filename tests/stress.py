"""A program whose threads open, append to, read, prune, fork and close several logs at random. It
is a program of its own because the faults that it searches for end a process.

`python -m tests.stress FOLDER SEED SECONDS` exits with 0, or prints which call failed, and how.
With `--no-fork` it forks no children: in a child, the address sanitizer reports uses of the stacks
of the parent's threads.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import commitlog
from commitlog import CommitLog, Options, Tailer, TransientStorePool
from commitlog.errors import (
    ClaimError,
    ClosedError,
    ForkedError,
    InUseError,
    LogLockedError,
    OpenTimeoutError,
    PoolExhaustedError,
    PositionError,
    RolledBackError,
    SegmentHeldError,
)
from commitlog.log.registry import registry
from commitlog.repair.verification import verify

SEGMENT = 64 << 10
MAPPED = ("mapped-1", "mapped-2", "mapped-3")
POOLED = ("pooled-1", "pooled-2")
THREADS = 6
CHILD_LIMIT_S = 60
CLOSING_LIMIT_S = 60
# The errors that a call may raise when another thread has closed, locked, deleted or claimed its
# object.
EXPECTED = (
    ClosedError,
    ClaimError,
    ForkedError,
    LogLockedError,
    OpenTimeoutError,
    PoolExhaustedError,
    PositionError,
    RolledBackError,
    SegmentHeldError,
    InUseError,
)


def value_of(name: str, number: int, size: int) -> bytes:
    """Return a record with a checksum and the name of its log."""
    head = f"{name} {number} ".encode()
    body = head + bytes(size)
    return zlib.crc32(body).to_bytes(4, "little") + body


def check(name: str, value: bytes) -> None:
    assert zlib.crc32(value[4:]) == int.from_bytes(value[:4], "little"), (
        f"a damaged record in {name}"
    )
    assert value[4:].startswith(name.encode() + b" "), (
        f"a record of another log in {name}: {value[4:40]!r}"
    )


class Stress:
    """The open logs of all threads, and the actions of each thread."""

    def __init__(self, folder: Path, seed: int, seconds: float, *, forks: bool) -> None:
        self.folder = folder
        self.seed = seed
        self.end = time.monotonic() + seconds
        self.failures: list[str] = []
        self.calls = 0
        self._lock = threading.Lock()
        self._open: list[tuple[str, CommitLog]] = []
        self._tailers: list[tuple[str, Tailer]] = []
        self._pool = TransientStorePool(
            buffers=3, buffer_size=SEGMENT, lock_memory="off", low_water=0, wait_timeout=0.05
        )
        self.steps: list[tuple[int, Callable[[random.Random, list[Any]], None]]] = [
            (6, self.open),
            (4, self.close),
            (2, self.drop),
            (30, self.append),
            (4, self.append_many),
            (6, self.claim),
            (10, self.read),
            (4, self.read_by_name),
            (3, self.read_batches),
            (8, self.read_shared),
            (8, self.close_tailer),
            (3, self.follow),
            (4, self.delete),
            (3, self.flush),
            (2, self.roll),
            (3, self.look),
            (4, self.let_go),
            (int(forks), self.fork),
            (1, self.collect),
        ]

    # --- running ----------------------------------------------------------------------------------

    def run(self) -> int:
        threading.excepthook = self.failed
        threads = [
            threading.Thread(target=self.work, args=(number,), name=f"stress {number}")
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for _, log in self._open:
            log.close()
        self._open.clear()
        self._tailers.clear()
        gc.collect()
        while registry._logs and time.monotonic() < self.end + CLOSING_LIMIT_S:
            # Separate threads close the dropped logs.
            time.sleep(0.01)
        if registry._logs:
            self.failures.append(f"not closed: {[log.path for log in registry._logs]}")
        if not self.failures:
            self._pool.close()
            for name in (*MAPPED, *POOLED):
                self.verify(name)
        print(f"seed {self.seed}: {self.calls} calls", *self.failures, sep="\n")
        return 1 if self.failures else 0

    def work(self, number: int) -> None:
        numbers = random.Random(f"{self.seed} {number}")
        kept: list[Any] = []
        weights = [weight for weight, _ in self.steps]
        while time.monotonic() < self.end and not self.failures:
            _, step = numbers.choices(self.steps, weights)[0]
            self.calls += 1
            try:
                step(numbers, kept)
            except EXPECTED:
                continue

    def failed(self, told: threading.ExceptHookArgs) -> None:
        """Record an exception that no call may raise; this thread and all others end."""
        name = told.thread.name if told.thread is not None else "a thread"
        self.failures.append(
            f"{name}:\n"
            + "".join(traceback.format_exception(told.exc_type, told.exc_value, told.exc_traceback))
        )

    def verify(self, name: str) -> None:
        path = self.folder / name
        if not (path / "log.json").exists():
            return
        report = verify(path)
        if not report.sound:
            self.failures.append(f"{name} is not sound: {report}")
        with commitlog.open(path, "r", Options()) as log:
            for value in log.tailer().values():
                check(name, value)

    def any_log(self, numbers: random.Random, names: tuple[str, ...] = ()) -> tuple[str, CommitLog]:
        with self._lock:
            found = [entry for entry in self._open if not names or entry[0] in names]
        if not found:
            raise ClosedError("none is open")
        return numbers.choice(found)

    def writer(self, numbers: random.Random) -> tuple[str, CommitLog]:
        name, log = self.any_log(numbers)
        if log.mode == "r":
            raise ClosedError("a reader's")
        return name, log

    # --- actions of a thread ---------------------------------------------------------------------

    def open(self, numbers: random.Random, kept: list[Any]) -> None:
        name = numbers.choice(MAPPED + POOLED)
        mode = numbers.choice("aaar")
        if mode == "r" and not (self.folder / name / "log.json").exists():
            return
        # The stress test does not search for disks that stall for seconds.
        options: dict[str, Any] = {"wait_for_log": 0.2, "claim_timeout": 5.0, "sync_timeout": 60.0}
        if mode == "a":
            options["flush"] = numbers.choice(("none", "async", "async", "sync"))
            if name in POOLED:
                options["pool"] = self._pool
            else:
                options["segment_size"] = SEGMENT
        log = commitlog.open(self.folder / name, mode, Options.of(None, **options))
        with self._lock:
            self._open.append((name, log))

    def close(self, numbers: random.Random, kept: list[Any]) -> None:
        name, log = self.any_log(numbers)
        with self._lock, contextlib.suppress(ValueError):
            self._open.remove((name, log))
        log.close()

    def drop(self, numbers: random.Random, kept: list[Any]) -> None:
        """Drop a log without `close`: the log closes when its last reference is gone."""
        entry = self.any_log(numbers)
        with self._lock, contextlib.suppress(ValueError):
            self._open.remove(entry)

    def append(self, numbers: random.Random, kept: list[Any]) -> None:
        name, log = self.writer(numbers)
        for _ in range(numbers.randrange(1, 200)):
            log.append(
                value_of(name, numbers.randrange(1 << 30), numbers.randrange(400)),
                sync=numbers.random() < 0.01,
            )

    def append_many(self, numbers: random.Random, kept: list[Any]) -> None:
        name, log = self.writer(numbers)
        log.append_many(
            [value_of(name, number, 100) for number in range(numbers.randrange(1, 2000))]
        )

    def claim(self, numbers: random.Random, kept: list[Any]) -> None:
        name, log = self.writer(numbers)
        value = value_of(name, 0, numbers.randrange(200))
        with log.claim(len(value)) as claim:
            claim.buffer[:] = value
            if numbers.random() < 0.1:
                kept.append(claim.buffer[:4])
            if numbers.random() < 0.1:
                kept.append([claim, kept])
                raise ClosedError("given up")

    def read(self, numbers: random.Random, kept: list[Any]) -> None:
        name, log = self.any_log(numbers)
        start = numbers.choice(("first", "end"))
        tailer = log.tailer(
            start=start,
            direction=numbers.choice(("forward", "backward")) if start == "end" else "forward",
        )
        for _, record in zip(range(numbers.randrange(1, 500)), tailer, strict=False):
            check(name, record.value)
        if numbers.random() < 0.3:
            self._tailers.append((name, tailer))

    def read_shared(self, numbers: random.Random, kept: list[Any]) -> None:
        """Read with a tailer that other threads read with and close at the same time."""
        with self._lock:
            name, tailer = numbers.choice(self._tailers or [("", None)])
        if tailer is not None:
            for value in tailer.values(
                timeout=0.02, idle=numbers.choice(("spin", "yield", "backoff", "block"))
            ):
                check(name, value)
                if numbers.random() < 0.02:
                    return

    def close_tailer(self, numbers: random.Random, kept: list[Any]) -> None:
        with self._lock:
            _, tailer = numbers.choice(self._tailers or [("", None)])
            del self._tailers[: max(0, len(self._tailers) - 4)]
        if tailer is not None:
            tailer.close()

    def read_by_name(self, numbers: random.Random, kept: list[Any]) -> None:
        name, log = self.any_log(numbers)
        with log.tailer(numbers.choice("ab"), required=numbers.choice((None, False))) as tailer:
            for _, value in zip(range(numbers.randrange(1, 500)), tailer.values(), strict=False):
                check(name, value)

    def read_batches(self, numbers: random.Random, kept: list[Any]) -> None:
        name, log = self.any_log(numbers)
        batch = log.tailer().read_batch(1000)
        for index in range(len(batch)):
            check(name, batch.data[batch.offsets[index] : batch.offsets[index + 1]].tobytes())

    def follow(self, numbers: random.Random, kept: list[Any]) -> None:
        name, log = self.any_log(numbers)
        for record in log.tailer(start="end").follow(
            timeout=0.05, idle=numbers.choice(("spin", "yield", "backoff", "block"))
        ):
            check(name, record.value)
            if numbers.random() < 0.01:
                kept.append(record.view())

    def delete(self, numbers: random.Random, kept: list[Any]) -> None:
        _, log = self.writer(numbers)
        log.delete_before(
            max(0, log.tail_position - numbers.randrange(20) * SEGMENT), force_after=0.0
        )

    def flush(self, numbers: random.Random, kept: list[Any]) -> None:
        self.writer(numbers)[1].flush()

    def roll(self, numbers: random.Random, kept: list[Any]) -> None:
        self.writer(numbers)[1].roll()

    def look(self, numbers: random.Random, kept: list[Any]) -> None:
        _, log = self.any_log(numbers)
        log.stats()
        log.tailers()
        log.count()

    def let_go(self, numbers: random.Random, kept: list[Any]) -> None:
        del kept[: numbers.randrange(len(kept) + 1)]

    def collect(self, numbers: random.Random, kept: list[Any]) -> None:
        gc.collect()

    # --- the child of a fork ----------------------------------------------------------------------

    def fork(self, numbers: random.Random, kept: list[Any]) -> None:
        child = os.fork()
        if child == 0:
            self.be_child(numbers)
        deadline = time.monotonic() + CHILD_LIMIT_S
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
            if time.monotonic() > deadline:
                # The fault handler then prints where the child hangs.
                os.kill(child, signal.SIGABRT)
                os.waitpid(child, 0)
                raise AssertionError("a forked child hangs")
            time.sleep(0.001)
        assert ended[1] == 0, f"a forked child ended with status {ended[1]}"

    def be_child(self, numbers: random.Random) -> None:
        status = 1
        try:
            for name, log in list(self._open):
                try:
                    if log.mode != "r" and name in MAPPED:
                        for number in range(200):
                            log.append(value_of(name, number, 400))
                    for _, value in zip(range(300), log.tailer().values(), strict=False):
                        check(name, value)
                    log.close()
                except EXPECTED:
                    pass
            status = 0
        finally:
            if status:
                os.write(2, traceback.format_exc().encode())
            os._exit(status)


if __name__ == "__main__":
    faulthandler.enable()
    warnings.simplefilter("ignore")
    sys.exit(
        Stress(
            Path(sys.argv[1]),
            int(sys.argv[2]),
            float(sys.argv[3]),
            forks="--no-fork" not in sys.argv,
        ).run()
    )

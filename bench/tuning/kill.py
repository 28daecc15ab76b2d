"""What a kill takes: a child appends at a fixed rate, is killed, and what is missing afterwards is
counted.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import commitlog
from bench.tuning.knobs import Knob
from commitlog.extension import frame_size
from commitlog.options import Flush
from commitlog.tools.bench.case import Case
from commitlog.tools.bench.workspace import Workspace

RATE = 10_000
VALUE_SIZE = 100
_PAUSE_S = 0.001
_LIMIT_S = 60.0
_HEADER = 4096


@dataclass(frozen=True)
class Kill:
    """One kill."""

    appended: int  # records that `append` had returned to the child
    lost: int  # of those, not in the log when it was opened again
    not_flushed: int  # of those, above the flushed watermark: a power cut could have taken them


def killed(knob: Knob, directory: Path, options: Workspace, moments_s: list[float]) -> list[Kill]:
    """Kill a child at each of the moments, counted from its first append; they run beside each
    other, each with a log as `options` opens it.
    """
    case = Case("kill", knob.setup, flush_of(knob), VALUE_SIZE)
    children: list[_Child] = []
    try:
        children.extend(
            _Child(directory / f"killed-{number}", options, case)
            for number in range(len(moments_s))
        )
        for child in children:
            child.wait_for_first()
        began = time.monotonic()
        for child, moment_s in sorted(
            zip(children, moments_s, strict=True), key=lambda pair: pair[1]
        ):
            time.sleep(max(0.0, began + moment_s - time.monotonic()))
            child.kill()
        return [child.account() for child in children]
    finally:
        for child in children:
            child.end()


def moments(knob: Knob, count: int, seed: int, longest_s: float) -> list[float]:
    """When to kill: anywhere in the second of two rounds of the slowest service, so that no service
    is always caught at the same place.
    """
    numbers = random.Random(f"{seed} {knob.setup} {knob.name}")
    cycle_s = min(knob.cycle_s, longest_s)
    return [cycle_s + numbers.random() * cycle_s for _ in range(count)]


def flush_of(knob: Knob) -> Flush:
    """The flush option in force, checked."""
    return "sync" if knob.flush == "sync" else "none" if knob.flush == "none" else "async"


class _Child:
    """A process that appends until it is killed, and counts what was appended in memory that
    outlives it.
    """

    def __init__(self, path: Path, workspace: Workspace, case: Case) -> None:
        self.path = path
        self._segment_size = workspace.settings.segment_size
        # Whole words: `struct` clears its bytes and writes them one by one, and a kill in between
        # would leave another number.
        self._count = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")
        self._dead = False
        self.pid = os.fork()
        if self.pid == 0:
            _append_until_killed(path, workspace, case, self._count)

    @property
    def count(self) -> int:
        """How many records `append` has returned."""
        return self._count[0]

    def wait_for_first(self) -> None:
        """Until it appends; an error when it does not."""
        deadline = time.monotonic() + _LIMIT_S
        while not self.count:
            if (
                time.monotonic() > deadline
                or os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            ):
                raise RuntimeError("the process that was to be killed did not come to append")
            time.sleep(_PAUSE_S)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self._dead = True
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise RuntimeError(
                f"the process that was to be killed had ended before, with status {status}"
            )

    def account(self) -> Kill:
        """Open the log again, and compare; raise if what survived is not a prefix."""
        appended = self.count
        with commitlog.open(self.path, mode="r") as log:
            durable = records_below(log.flushed_position, log.segment_size)
        with commitlog.open(self.path) as log, log.tailer() as tailer:
            survived = 0
            for value in tailer.values():
                if value != value_of(survived):
                    raise RuntimeError(f"{self.path}: record {survived} is not what was appended")
                survived += 1
        return Kill(appended, max(0, appended - survived), max(0, appended - durable))

    def end(self) -> None:
        if not self._dead:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self._count.release()


def value_of(index: int) -> bytes:
    """The record with that number."""
    return (index.to_bytes(8, "little") * (VALUE_SIZE // 8 + 1))[:VALUE_SIZE]


def records_below(position: int, segment_size: int) -> int:
    """How many of these records lie below a position."""
    frame = frame_size(VALUE_SIZE)
    number, offset = divmod(position, segment_size)
    return number * ((segment_size - _HEADER) // frame) + max(0, offset - _HEADER) // frame


def _append_until_killed(path: Path, workspace: Workspace, case: Case, shared: memoryview) -> None:
    """In the child: never returns, and ends by itself if the parent does not kill it."""
    try:
        log = workspace.open(path, case)
        append, count = log.append, 0
        began = time.monotonic()
        while (now := time.monotonic()) < began + _LIMIT_S:
            due = int((now - began) * RATE)
            while count < due:
                append(value_of(count))
                count += 1
                shared[0] = count
            time.sleep(_PAUSE_S)
    finally:
        os._exit(1)

"""A turn: the processes of one side, in a directory of its own that is deleted afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.peers.programs import ROOT, Program
from bench.peers.rows import GIB, Row

MEMORY = Path("/dev/shm")
LIMIT_S = 240.0
_SETTLED_KB = 32 << 10
Figures = dict[str, Any]


class TurnError(Exception):
    """A process of a turn failed, or did not end in time."""


def take_turn(row: Row, side: str, program: Program, home: Path, quick: bool) -> Figures:
    """Run one side once; return what the measured process said."""
    place = MEMORY if row.memory else home / "data"
    place.mkdir(exist_ok=True)
    free, needed = shutil.disk_usage(place).free / GIB, 1 if quick else row.room + 2
    if free < needed:
        raise TurnError(f"{free:.1f} GiB are free in {place}, and {needed:g} are needed")
    folder = tempfile.mkdtemp(prefix="commitlog-peers-", dir=place)
    settings = [f"{name}={text}" for name, text in row.settings_of(side, quick).items()]
    commands = [
        [*program.command, role, folder, *settings, *program.settings] for role in row.roles
    ]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{home / 'python'}"}
    try:
        return run_together(commands, environment)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if not row.memory and not quick:
            settle(place)


def run_together(commands: Sequence[list[str]], environment: dict[str, str]) -> Figures:
    """Start processes, each when the one before is ready, and release them together.

    The last one is released first and is measured; the others stay until it has ended.
    """
    with contextlib.ExitStack() as stack:
        error = stack.enter_context(tempfile.TemporaryFile("w+"))
        started: list[subprocess.Popen[str]] = []
        stack.enter_context(_ended_in_time(started))
        for command in commands:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=error,
                text=True,
            )
            started.append(stack.enter_context(process))
            if len(commands) > 1 and _line(process, "ready") is None:
                raise TurnError(_last_line(command, error))
        for process in reversed(started) if len(commands) > 1 else ():
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = _line(started[-1], "{")
        if said is None or started[-1].wait() != 0:
            raise TurnError(_last_line(commands[-1], error))
        return dict(json.loads(said))


def _line(process: subprocess.Popen[str], start: str) -> str | None:
    """Return the next line that starts so; None if the process ends before."""
    assert process.stdout is not None
    return next((line for line in process.stdout if line.startswith(start)), None)


@contextlib.contextmanager
def _ended_in_time(started: list[subprocess.Popen[str]]) -> Iterator[None]:
    """Kill what runs at the end of the block, or after the time limit."""

    def end() -> None:
        for process in started:
            process.kill()

    timer = threading.Timer(LIMIT_S, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        end()


def _last_line(command: list[str], error: tempfile._TemporaryFileWrapper[str]) -> str:
    error.seek(0)
    lines = [line for line in error.read().splitlines() if line and not line.startswith("\tat ")]
    reason = lines[-1] if lines else f"it was killed, or took {LIMIT_S:g} s"
    return f"{Path(command[0]).name} failed: {reason}"


def settle(place: Path) -> None:
    """Wait until the disk has done what a turn left it."""
    subprocess.run(["sync", "-f", str(place)], check=False)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        pairs = (line.split(":", 1) for line in lines)
        known = {name: int(text.split()[0]) for name, text in pairs}
        if known["Dirty"] + known["Writeback"] < _SETTLED_KB:
            return
        time.sleep(0.2)

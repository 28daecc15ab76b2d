"""A turn: the processes of one side of a row, started, told to go at once, and heard."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.peers.java import Java
from bench.peers.rows import PEER, Role, Row, Side

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 100.0
Result = dict[str, object]


class TurnError(Exception):
    """A process of a turn failed, or was not done in time."""


def settings_of(row: Row, scale: float) -> list[str]:
    """How much a row's processes do; a scale below 1 is for trying things out."""
    messages, warm = max(1, int(row.messages * scale)), int(row.warm * scale)
    return [
        f"messages={messages}",
        f"warm={warm}",
        f"writers={row.writers}",
        f"per_minute={row.per_minute}",
    ]


def command_of(
    side: Side, role: Role, path: str, settings: list[str], java: Java | None
) -> list[str]:
    """The command line of one process."""
    if side.name == PEER and role.name not in ("dead", "sizes"):
        if java is None:
            raise TurnError("Mappedbus was not prepared")
        return java.command(role.name, path, settings)
    return [
        sys.executable,
        "-m",
        "bench.peers.ours",
        role.name,
        path,
        f"form={role.form}",
        *settings,
    ]


def take_turn(row: Row, side: Side, place: Path, java: Java | None, scale: float = 1.0) -> Result:
    """Run one side of a row once, in a directory of its own; what the measured process said."""
    settings = settings_of(row, scale)
    folder = Path(tempfile.mkdtemp(prefix="commitlog-peers-", dir=place))
    path = str(folder / "bus")
    try:
        if side.before:
            # What is read again was written whole: by one process that appends as much as all are
            # to read.
            run_together([command_of(side, role, path, settings, java) for role in side.before])
        return run_together([command_of(side, role, path, settings, java) for role in side.roles])[
            side.measured
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_together(commands: Sequence[list[str]]) -> list[Result]:
    """Start processes, each when the one before is ready; let them go together; what each said.

    Raises
    ------
    TurnError
        One failed, or they were not done in time.
    """
    with contextlib.ExitStack() as stack:
        errors = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in commands]
        started: list[subprocess.Popen[str]] = []
        stack.enter_context(_ended_in_time(started))
        for command, error in zip(commands, errors, strict=True):
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=error,
                text=True,
            )
            started.append(stack.enter_context(process))
            if _line_of(process) != "ready":
                raise TurnError(_what_went_wrong(command, error))
        # The measured process is the last one, so that it is there when the others begin.
        for process in reversed(started):
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = []
        for process, command, error in zip(started, commands, errors, strict=True):
            line = _line_of(process)
            if process.wait() != 0 or not line:
                raise TurnError(_what_went_wrong(command, error))
            said.append(json.loads(line))
        return said


@contextlib.contextmanager
def _ended_in_time(started: list[subprocess.Popen[str]]) -> Iterator[None]:
    """Kills what runs at the end of the block, or of the time."""

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


def _line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _what_went_wrong(command: list[str], error: tempfile._TemporaryFileWrapper[str]) -> str:
    error.seek(0)
    lines = error.read().strip().splitlines()
    return (
        f"{' '.join(command)} failed: "
        f"{lines[-1] if lines else f'killed, or silent, within {LIMIT_S:g} s'}"
    )

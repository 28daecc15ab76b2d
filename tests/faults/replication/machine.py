"""Machine: one of the machines of a test, with a disk and a wall clock of its own.

Its programs are forks of one interpreter, which has imported everything and preloads the shim and
the clock. A program writes what it does as lines of JSON to a pipe.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clock import ROOT, Clock
from tests.faults import small_disk
from tests.faults.shim import Shim
from tests.preloaded import compiled, ending_the_process

LIMIT_S = 60.0
DISK = 64 << 20
Said = list[Any]
_SLOW_CALLS = ("msync", "fsync", "fdatasync", "rename")


class Program:
    """A running program of a machine, and what it has said."""

    def __init__(self, name: str, pid: int, output: int, end: Callable[[], None]) -> None:
        self.name = name
        self.pid = pid
        self.said: list[Said] = []
        self._end = end
        self._ended = False
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, args=(output,), daemon=True)
        self._reader.start()

    def _read(self, output: int) -> None:
        with os.fdopen(output) as lines:
            for line in lines:
                if line.endswith("\n"):  # else a kill has torn it
                    with self._news:
                        self.said.append(json.loads(line))
                        self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def count(self, kind: str) -> int:
        """Return how many lines of a kind the program has written."""
        return sum(line[0] == kind for line in list(self.said))

    def wait(self, kind: str, count: int = 1) -> None:
        """Wait until the program has written so many lines of a kind; fail if it ends before."""
        with self._news:
            self._news.wait_for(lambda: self._ended or self.count(kind) >= count, LIMIT_S)
        assert self.count(kind) >= count, (kind, count, self.said[-5:])

    def wait_more(self, kind: str, count: int) -> None:
        """Wait until the program has written so many more lines of a kind."""
        self.wait(kind, self.count(kind) + count)

    def result(self) -> Said:
        """Wait until the program has ended; return its last line, or an empty list."""
        with self._news:
            assert self._news.wait_for(lambda: self._ended, LIMIT_S), self.said[-5:]
        self.kill()
        return self.said[-1] if self.said else []

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the program, unless it has ended, and take the rest of what it has said."""
        self._end()
        self._reader.join(LIMIT_S)


class Machine:
    """Start programs on a machine.

    Parameters
    ----------
    name : str
        Names the machine.
    folder : Path
        The machine's files: its disk is the folder `disk` there.
    libraries : tuple of Path
        The shim and the clock, compiled.
    disks : bool
        Whether file systems may be mounted here.
    """

    def __init__(self, name: str, folder: Path, libraries: tuple[Path, Path], disks: bool) -> None:
        self.name = name
        self._folder = folder
        folder.mkdir()
        self.disk = folder / "disk"
        if disks:
            small_disk.mount("tmpfs", self.disk, DISK)
        else:
            self.disk.mkdir()
        self._mounted = disks
        self._ballast: Path | None = None
        self._programs = 0
        shim, clock = libraries
        self._shim = Shim(shim, folder)
        state = folder / "clock"
        state.write_bytes(bytes(8))
        self._clock = Clock(state)
        variables = self._shim.environment() | {
            "LD_PRELOAD": f"{shim} {clock}",
            "COMMITLOG_TEST_CLOCK": str(state),
            "PYTHONPATH": str(ROOT),
        }
        self._host = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.replication.machine", str(folder)],
            cwd=ROOT,
            env=os.environ | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def start(self, function: Callable[..., None], **arguments: object) -> Program:
        """Run a function of `programs` in a new process."""
        self._programs += 1
        pipe = self._folder / f"pipe{self._programs}"
        os.mkfifo(pipe)
        output = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        pid = self._ask("start", function.__name__, str(pipe), arguments)
        pipe.unlink()
        os.set_blocking(output, True)
        return Program(function.__name__, pid, output, lambda: self._kill(pid))

    def _kill(self, pid: int) -> None:
        self._ask("kill", pid)

    def _ask(self, *command: object) -> int:
        assert self._host.stdin is not None
        assert self._host.stdout is not None
        print(json.dumps(command, default=str), file=self._host.stdin)
        return int(self._host.stdout.readline())

    # --- faults -----------------------------------------------------------------------------------

    def slow(self, milliseconds: float) -> None:
        """Delay each call that makes bytes durable; 0 ends it."""
        for call in _SLOW_CALLS:
            self._shim.delay(call, int(1000 * milliseconds))

    def fill(self) -> None:
        """Fill the disk."""
        if self._mounted and self._ballast is None:
            self._ballast = small_disk.fill(self.disk)

    def step_clock(self, seconds: float) -> None:
        """Move the wall clock, which stands still there."""
        self._clock.set(time.time_ns() + round(seconds * 1e9))

    def heal(self) -> None:
        """End every fault."""
        self.slow(0)
        self._clock.set(0)
        if self._ballast is not None:
            self._ballast.unlink()
            self._ballast = None

    def close(self) -> None:
        """End every program."""
        self._host.communicate(timeout=LIMIT_S)  # it ends with its input
        if self._mounted:
            small_disk.unmount(self.disk)


def libraries(folder: Path) -> tuple[Path, Path]:
    """Compile the shim and the clock."""
    tests = Path(__file__).parents[2]
    return compiled(tests / "faults" / "shim.c", folder), compiled(tests / "clock.c", folder)


# --- the interpreter of a machine -----------------------------------------------------------------


def _run(function: str, output: int, arguments: dict[str, Any], errors: Path) -> None:
    with ending_the_process():
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)

        def say(*words: object) -> None:
            os.write(output, json.dumps(words).encode() + b"\n")

        module = importlib.import_module("tests.faults.replication.programs")
        getattr(module, function)(say, **arguments)


def main() -> None:
    folder = Path(sys.argv[1])
    importlib.import_module("tests.faults.replication.programs").shorten_waits()
    alive: set[int] = set()
    for line in sys.stdin:
        word, *rest = json.loads(line)
        if word == "start":
            function, pipe, arguments = rest
            output = os.open(pipe, os.O_WRONLY)
            pid = os.fork()
            if pid == 0:
                _run(function, output, arguments, folder / f"{function}.txt")
            os.close(output)
            alive.add(pid)
            print(pid, flush=True)
        else:
            pid = rest[0]
            if pid in alive:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                alive.remove(pid)
            print(0, flush=True)
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()

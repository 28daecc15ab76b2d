"""A wall clock that tests set: `clocked` runs a test in a process that preloads the library of
`clock.c`.
"""

from __future__ import annotations

import atexit
import datetime as dt
import functools
import importlib
import inspect
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.preloaded import compiled, ending_the_process

ROOT = Path(__file__).resolve().parents[1]
_STATE = "COMMITLOG_TEST_CLOCK"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Clock:
    """The wall clock of every process started with it. It shows the same time until the test moves
    it.
    """

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._state = mmap.mmap(file.fileno(), 8)

    @property
    def now_ns(self) -> int:
        return int(struct.unpack("<q", self._state[:])[0])

    def set(self, moment: str | int) -> int:
        """Set the clock to an instant and return it in nanoseconds since 1970.

        The instant is ISO 8601 with a UTC offset, or nanoseconds since 1970.
        """
        shown_ns = moment if isinstance(moment, int) else instant_ns(moment)
        self._state[:] = struct.pack("<q", shown_ns)
        return shown_ns

    def move(self, seconds: float) -> int:
        """Move the clock forward, or back."""
        return self.set(self.now_ns + round(seconds * 1e9))


def instant_ns(moment: str) -> int:
    """Return the nanoseconds since 1970 of an instant in ISO 8601."""
    return (dt.datetime.fromisoformat(moment) - _EPOCH) // dt.timedelta(microseconds=1) * 1000


class _Host:
    """An interpreter that preloads the library and forks for each test; starting one interpreter
    per test would take longer than most tests.
    """

    def __init__(self, directory: Path) -> None:
        self.state = directory / "clock"
        library = compiled(Path(__file__).with_name("clock.c"), directory)
        self.state.write_bytes(bytes(8))
        variables = {_STATE: str(self.state), "LD_PRELOAD": str(library), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-X", "faulthandler", "-W", "error", "-m", "tests.clock"]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        atexit.register(self._end)

    def run(self, *spec: object) -> int:
        """Run a test to its end and return its status."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(spec), file=self._process.stdin)
        return int(self._process.stdout.readline())

    def _end(self) -> None:
        self._process.communicate()


@functools.cache
def _host(directory: Path) -> _Host:
    directory.mkdir(exist_ok=True)
    return _Host(directory)


def clocked(start: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with a clock set to `start`.

    The test takes `clock`, `path` for its log, and parameters that JSON can hold.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(
            tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, **parameters: Any
        ) -> None:
            host = _host(tmp_path_factory.getbasetemp() / "clock-host")
            output = tmp_path / "output"
            Clock(host.state).set(start)
            status = host.run(
                test.__module__, test.__name__, str(tmp_path / "log"), str(output), parameters
            )
            assert status == 0, output.read_text()

        own = [name for name in inspect.signature(test).parameters if name not in ("clock", "path")]
        fixtures = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
            for name in ("tmp_path", "tmp_path_factory", *own)
        ]
        run.__signature__ = inspect.Signature(fixtures)  # type: ignore[attr-defined]
        return run

    return decorate


def _run_test(module: str, name: str, path: str, output: str, parameters: dict[str, Any]) -> None:
    with ending_the_process():
        signal.alarm(60)
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        test = getattr(importlib.import_module(module), name).__wrapped__
        test(Clock(Path(os.environ[_STATE])), Path(path), **parameters)


def _serve() -> None:
    for line in sys.stdin:
        module, *rest = json.loads(line)
        importlib.import_module(module)
        child = os.fork()
        if child == 0:
            _run_test(module, *rest)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    _serve()

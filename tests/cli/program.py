"""The `commitlog` program as real processes, in pipes and on a pseudo-terminal."""

from __future__ import annotations

import functools
import importlib
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import commitlog
from commitlog import cli
from commitlog.cli import group

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "commitlog.cli"]
LIMIT_S = 60.0
# A new session takes the terminal on its standard error for its own, so that Ctrl-C typed there
# reaches it.
_WITH_TERMINAL = (
    "import fcntl, termios; fcntl.ioctl(2, termios.TIOCSCTTY, 0); from commitlog.cli import "
    "main; main()"
)
SEGMENT = 64 << 10


def sealed_log(path: Path) -> Path:
    """A closed log of six sealed segments, one record in each."""
    with commitlog.open(path, segment_size=SEGMENT) as log:
        for number in range(6):
            log.append(b"%d" % number)
            log.roll()
    return path


@functools.cache
def _import_commands() -> None:
    """Import what the commands need once, and not in each forked process."""
    for name in ("group", *group.COMMANDS):
        importlib.import_module(f"commitlog.cli.{name.replace('-', '_')}")


def run(
    *arguments: object, feed: bytes = b"", encoding: str | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end with that on standard input, and standard output in that encoding.

    It gets a process of its own, forked from this one, since an interpreter takes longer to start
    than most commands to run.
    """
    _import_commands()
    given = list(map(str, arguments))
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(feed)
        stdin.seek(0)
        child = os.fork()
        if child == 0:
            _run_in_child(given, [stdin.fileno(), stdout.fileno(), stderr.fileno()], encoding)
        _, outcome = os.waitpid(child, 0)
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(
            given, os.waitstatus_to_exitcode(outcome), stdout.read(), stderr.read()
        )


def _run_in_child(arguments: list[str], descriptors: list[int], encoding: str | None) -> None:
    status = 70
    try:
        signal.alarm(60)
        for descriptor, found in enumerate(descriptors):
            os.dup2(found, descriptor)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False, encoding=encoding)  # noqa: SIM115
        status = cli.run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - nothing may get back into the test that was forked
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def shell(script: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run a pipeline in bash, where `c` is the program and "$1" the first argument; its status is
    that of the first command.
    """
    line = (
        f'c() {{ "{sys.executable}" -m commitlog.cli "$@"; }}; {script}; exit "${{PIPESTATUS[0]}}"'
    )
    return subprocess.run(
        ["bash", "-c", line, "bash", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )


def read_until(descriptor: int, text: bytes) -> bytes:
    """What comes from a descriptor up to and with that text; a failure after a minute, or at the
    end.
    """
    seen = b""
    deadline = time.monotonic() + LIMIT_S
    while text not in seen:
        ready, _, _ = select.select([descriptor], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"{text!r} did not come within {LIMIT_S:g} s after {seen!r}"
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # a terminal whose program has ended
            piece = b""
        assert piece, f"it ended after {seen!r}, before {text!r}"
        seen += piece
    return seen


def read_rest(descriptor: int) -> bytes:
    """All that is still to come from a terminal whose program ends."""
    seen = b""
    while True:
        ready, _, _ = select.select([descriptor], [], [], LIMIT_S)
        assert ready, f"it did not end after {seen!r}"
        try:
            piece = os.read(descriptor, 65536)
        except OSError:
            return seen
        if not piece:
            return seen
        seen += piece


@contextmanager
def started(
    *arguments: object, feed: int = subprocess.PIPE, before: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs with pipes on all three sides; ended with the block. `before` is run in
    its process first.
    """
    program = (
        [sys.executable, "-c", f"{before}\nfrom commitlog.cli import main; main()"]
        if before
        else PROGRAM
    )
    process = subprocess.Popen(
        [*program, *map(str, arguments)],
        cwd=ROOT,
        stdin=feed,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def interrupted(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """Ctrl-C: status, and what came on both outputs after it."""
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=LIMIT_S)
    return process.returncode, output, errors


@contextmanager
def on_terminal(
    *arguments: object, feed: int | None = None, output: int | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A command whose terminal we hold the other end of: the process and that end. `feed` and
    `output` are in place of the terminal.
    """
    master, slave = pty.openpty()
    settings = termios.tcgetattr(slave)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    process = subprocess.Popen(
        [sys.executable, "-c", _WITH_TERMINAL, *map(str, arguments)],
        cwd=ROOT,
        stdin=slave if feed is None else feed,
        stdout=slave if output is None else output,
        stderr=slave,
        start_new_session=True,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(slave)
    try:
        yield process, master
    finally:
        process.kill()
        process.wait()
        os.close(master)

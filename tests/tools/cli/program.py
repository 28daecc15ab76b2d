"""Runs the `commitlog` program in real processes, in pipes and on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import commitlog
from commitlog.tools import cli
from commitlog.tools.cli import group
from tests.host import ROOT, Hosted, exit_early, host_of

PROGRAM = [sys.executable, "-m", "commitlog.tools.cli"]
LIMIT_S = 60.0
SEGMENT = 64 << 10


def sealed_log(path: Path) -> Path:
    """Create a closed log of six sealed segments with one record each."""
    with commitlog.open(path, segment_size=SEGMENT) as log:
        for number in range(6):
            log.append(b"%d" % number)
            log.roll()
    return path


def hosted(target: str, arguments: Sequence[str | None], **options: Any) -> Hosted:
    """Start the program in a process of a host that has imported the commands."""
    commands = [
        f"commitlog.tools.cli.commands.{name.replace('-', '_')}" for name in group.own_commands()
    ]
    host = host_of(("pytest", "tests.tools.cli.program", *commands))
    return Hosted(host, f"tests.tools.cli.program:{target}", arguments, **{"cwd": ROOT} | options)


def run_program(before: str, *arguments: str) -> None:
    """Run the code `before`, then the program; a target for a host."""
    exec(before, {})
    sys.argv = ["commitlog", *arguments]
    cli.main()


def run_encoded(encoding: str | None, *arguments: str) -> None:
    """Run the program with an output encoding, for a minute at most; a target for a host."""
    signal.alarm(60)
    if encoding is not None:
        assert isinstance(sys.stdout, io.TextIOWrapper)
        sys.stdout.reconfigure(encoding=encoding)
    exit_early(cli.run(list(arguments)))


def run_without_streams(*arguments: str) -> None:
    """Run the program without standard input and output; a target for a host."""
    os.close(0)
    os.close(1)
    sys.stdin = sys.stdout = sys.__stdin__ = sys.__stdout__ = None  # type: ignore[misc, assignment]
    run_program("", *arguments)


def run_on_terminal(*arguments: str) -> None:
    """Run the program in a new session, which takes the terminal on its standard error as its own,
    so that Ctrl-C typed there reaches it; a target for a host.
    """
    fcntl.ioctl(2, termios.TIOCSCTTY, 0)
    run_program("", *arguments)


def run(
    *arguments: object, feed: bytes = b"", encoding: str | None = None, forked: bool = False
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, with the given standard input and output encoding.

    The command runs in a process of a host. It is `forked` from this process if it needs this one's
    memory or its user.
    """
    given = list(map(str, arguments))
    with (
        open(os.memfd_create("stdin"), "w+b") as stdin,
        open(os.memfd_create("stdout"), "w+b") as stdout,
        open(os.memfd_create("stderr"), "w+b") as stderr,
    ):
        stdin.write(feed)
        stdin.seek(0)
        streams = (stdin.fileno(), stdout.fileno(), stderr.fileno())
        if forked:
            child = os.fork()
            if child == 0:
                _run_in_child(given, streams, encoding)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        else:
            status = hosted(
                "run_encoded",
                [encoding, *given],
                cwd=Path.cwd(),
                **dict(zip(("stdin", "stdout", "stderr"), streams, strict=True)),
            ).wait(LIMIT_S)
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(given, status, stdout.read(), stderr.read())


def _run_in_child(arguments: list[str], streams: Sequence[int], encoding: str | None) -> None:
    status = 70
    try:
        signal.alarm(60)
        for descriptor, found in enumerate(streams):
            os.dup2(found, descriptor)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False, errors="backslashreplace")  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False, encoding=encoding)  # noqa: SIM115
        status = cli.run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - no exception may reach the forked test
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def shell(script: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run a pipeline in bash, where `c` is the program and "$1" the first argument; the status is
    that of the first command.
    """
    program = f'"{sys.executable}" -m commitlog.tools.cli "$@"'
    line = f'c() {{ {program}; }}; {script}; exit "${{PIPESTATUS[0]}}"'
    return subprocess.run(
        ["bash", "-c", line, "bash", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )


def read_until(descriptor: int, text: bytes) -> bytes:
    """Return the output up to and with that text; fail after a minute, or at the end of the
    output.
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
    """Return the remaining output of a terminal whose program ends."""
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
    """Run a command with three pipes during the block, and end it with the block; its process runs
    the code `before` first.
    """
    process = hosted(
        "run_program",
        [before, *map(str, arguments)],
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
    """Send Ctrl-C; return the status and the remaining output and errors."""
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=LIMIT_S)
    return process.returncode, output, errors


@contextmanager
def on_terminal(
    *arguments: object, feed: int | None = None, output: int | None = None, term: str = "xterm"
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a command on a pseudo-terminal of a type; yield its process and the other end. `feed` and
    `output` replace the terminal.
    """
    master, slave = pty.openpty()
    settings = termios.tcgetattr(slave)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    process = hosted(
        "run_on_terminal",
        [*map(str, arguments)],
        stdin=slave if feed is None else feed,
        stdout=slave if output is None else output,
        stderr=slave,
        start_new_session=True,
        env=os.environ | {"TERM": term, "COLUMNS": "120"},
    )
    os.close(slave)
    try:
        yield process, master
    finally:
        process.kill()
        process.wait()
        os.close(master)

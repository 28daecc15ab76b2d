"""`commitlog pretouch`: beside a writer in another process, and without any."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
import commitlog.cli.group
import commitlog.cli.pretouch  # what the user without permission may not be able to import
from commitlog import TransientStorePool, cli
from commitlog._kernel.segments import HEADER_SIZE
from tests.cli.program import SEGMENT, interrupted, read_until, run, started

NOBODY = 65534
WRITER = {"segment_size": SEGMENT, "tuning": commitlog.Tuning(allocate_ahead=0), "prefault": False}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def segments(log: Path) -> int:
    return len(list(log.glob("*.seg")))


def test_once_says_how_far_it_came_and_changes_no_record(log: Path) -> None:
    with commitlog.open(log, **WRITER) as writer:  # type: ignore[arg-type]
        writer.append(b"x")
        tail = writer.tail_position
        done = run("pretouch", "--once", "--segments", "3", log)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode() == f"{log}: tail {tail}, pages up to {4 * SEGMENT}, segments up to {4 * SEGMENT}\n"
        assert segments(log) == 4
        assert list(writer.tailer().values()) == [b"x"]
        assert writer.tail_position == tail
    assert run("verify", log).returncode == 0


def test_it_goes_on_ahead_of_a_writer_until_ctrl_c(log: Path, until: Callable[..., None]) -> None:
    with commitlog.open(log, **WRITER) as writer:  # type: ignore[arg-type]
        with started("pretouch", log) as process:
            assert process.stdout is not None
            read_until(process.stdout.fileno(), b"segments up to")
            for number in range(1, 6):
                until(lambda number=number: segments(log) == number + 1)
                writer.roll()
                writer.append(b"%d" % number)
            assert interrupted(process)[0] == 130
        assert list(writer.tailer().values()) == [b"%d" % number for number in range(1, 6)]
        writer.append(b"on")
    assert run("verify", log).returncode == 0


def test_it_leaves_a_log_clean_that_nobody_else_has_open(log: Path) -> None:
    commitlog.open(log, **WRITER).close()  # type: ignore[arg-type]
    with started("pretouch", log) as process:
        assert process.stdout is not None
        read_until(process.stdout.fileno(), b"\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130
    assert b"clean" in run("info", log).stdout


def test_it_makes_no_log(log: Path) -> None:
    done = run("pretouch", "--once", log)
    assert done.returncode == 1
    assert b"no log" in done.stderr
    assert not log.exists()


def test_a_pooled_log_is_refused_with_a_clear_line(log: Path) -> None:
    with (
        TransientStorePool(buffers=2, buffer_size=SEGMENT, lock_memory="off") as pool,
        commitlog.open(log, pool=pool) as writer,
    ):
        writer.append(b"x")
        done = run("pretouch", log)
        assert done.returncode == 1
        assert b"the log is pooled: its buffers are in memory already, and there is nothing to pretouch" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--distance", "1"), "--distance must be from 4096 to"),
        (("--distance", "far"), "expected a size"),
        (("--segments", "0"), "0"),
        (("--segments", "9"), "9"),
    ],
)
def test_wrong_options_are_refused_by_name(log: Path, arguments: tuple[str, str], expected: str) -> None:
    commitlog.open(log).close()
    done = run("pretouch", *arguments, log)
    assert done.returncode == 2
    assert expected in done.stderr.decode()


def test_a_position_that_is_said_is_one_of_the_log(log: Path) -> None:
    commitlog.open(log, **WRITER).close()  # type: ignore[arg-type]
    said = run("pretouch", "--once", "--distance", "8KiB", log).stdout.decode()
    assert f"tail {HEADER_SIZE}, pages up to {HEADER_SIZE + 8192}, segments up to {2 * SEGMENT}" in said


def test_without_permission_it_is_refused_with_a_clear_line(in_child: Callable[[Callable[[], Any]], Any]) -> None:
    """As an ordinary user, where this one is root."""
    directory = Path(tempfile.mkdtemp(prefix="commitlog-test-"))
    directory.chmod(0o755)
    commitlog.open(directory / "log", **WRITER).close()  # type: ignore[arg-type]
    for path in (directory / "log").iterdir():
        path.chmod(0o444)
    (directory / "log").chmod(0o555)

    def attempt() -> tuple[int, str]:
        if os.geteuid() == 0:
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            return cli.run(["pretouch", str(directory / "log")]), said.getvalue()

    try:
        status, said = in_child(attempt)
    finally:
        shutil.rmtree(directory)
    assert status == 1
    assert "no permission here" in said

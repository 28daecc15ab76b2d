"""`commitlog bench bus-writer` and `bus-reader`: the pair finds each other whoever starts first, and says what did not come."""

from __future__ import annotations

from pathlib import Path

import pytest

import commitlog
from tests.cli.program import LIMIT_S, run, started

COUNT = 5000


@pytest.mark.parametrize("idle", ["spin", "block"])
def test_a_reader_that_starts_first_reads_every_message_of_the_writer(tmp_path: Path, idle: str) -> None:
    with started("bench", "bus-reader", "-n", COUNT, "--idle", idle, tmp_path / "bus") as reader:
        written = run("bench", "bus-writer", "-n", COUNT, tmp_path / "bus")
        output, errors = reader.communicate(timeout=LIMIT_S)
    assert (written.returncode, reader.returncode, errors) == (0, 0, b"")
    assert written.stdout.startswith(b"appended 5,000 messages of 12 bytes in ")
    assert output.startswith(b"read 5,000 messages of 12 bytes in ")
    with commitlog.open(tmp_path / "bus", "r") as log:
        assert list(log.tailer().values()) == [bytes(range(12))] * COUNT


def test_messages_that_do_not_come_are_counted_and_are_a_failure(tmp_path: Path) -> None:
    assert run("bench", "bus-writer", "-n", 3, "--size", 100, tmp_path / "bus").returncode == 0
    short = run("bench", "bus-reader", "-n", 10, "--timeout", "50ms", tmp_path / "bus")
    assert short.returncode == 1
    assert b"read 3 messages of 100 bytes" in short.stdout
    assert b"7 of 10 messages did not come within 0.05 s" in short.stderr


def test_a_writer_never_adds_to_a_log_that_is_there(tmp_path: Path) -> None:
    assert run("bench", "bus-writer", "-n", 1, tmp_path / "bus").returncode == 0
    again = run("bench", "bus-writer", "-n", 1, tmp_path / "bus")
    assert (again.returncode, again.stdout) == (1, b"")
    assert b"the log exists" in again.stderr


def test_a_reader_without_a_log_says_what_to_start_and_makes_nothing(tmp_path: Path) -> None:
    alone = run("bench", "bus-reader", "--timeout", "50ms", tmp_path / "none")
    assert (alone.returncode, alone.stdout) == (1, b"")
    assert b"start commitlog bench bus-writer" in alone.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["bus-writer"], b"Missing argument 'PATH'"),
        (["bus-reader", "-n", "0", "x"], b"expected a whole number"),
        (["bus-writer", "--size", "-1", "x"], b"expected a whole number"),
        (["bus-reader", "--timeout", "soon", "x"], b"'--timeout': expected a time such as 15 or 500ms"),
        (["bus-reader", "--idle", "sleep", "x"], b"'sleep' is not one of"),
    ],
)
def test_wrong_words_are_refused_with_what_was_expected(tmp_path: Path, arguments: list[str], expected: bytes) -> None:
    refused = run("bench", *arguments)
    assert refused.returncode == 2
    assert expected in refused.stderr

"""`commitlog top`: what it shows of a log from outside, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import commitlog
from commitlog import cli
from commitlog.cli.moving import Rates, as_object
from commitlog.cli.panel import in_bytes, in_numbers
from commitlog.observe.watching import LogWatch
from tests.cli.program import (
    LIMIT_S,
    ROOT,
    SEGMENT,
    on_terminal,
    read_rest,
    read_until,
    run,
    sealed_log,
)

SHORT = ("--interval", "0.1")
WRITER = (
    "import commitlog, sys, time; log = commitlog.open(sys.argv[1]); log.append(b'x'); "
    "print(flush=True); time.sleep(60)"
)


@contextmanager
def writing(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has the log open and has appended one record."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def is_as_it_was(terminal: int) -> bool:
    """Whether it hands over whole lines and echoes nothing, as `on_terminal` has set it."""
    modes: int = termios.tcgetattr(terminal)[3]
    return modes & (termios.ICANON | termios.ISIG | termios.ECHO) == termios.ICANON | termios.ISIG


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of a few records."""
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append_many([b"value"] * 100)
    return tmp_path / "log"


def test_a_terminal_that_does_not_know_its_width_is_shown_something(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert b"committed" in run("top", "--once", *SHORT, path).stdout


def test_one_object_has_watermarks_records_writers_and_room(path: Path) -> None:
    with writing(path) as process:
        done = run("top", "--json", *SHORT, path)
        found = json.loads(done.stdout)
        assert (done.returncode, done.stderr, found["path"], found["mode"]) == (
            0,
            b"",
            str(path),
            "mapped",
        )
        assert [
            (writer["pid"], writer["state"], writer["claims_per_s"]) for writer in found["writers"]
        ] == [(process.pid, "idle", 0)]
    assert (found["first_sequence"], found["next_sequence"], found["records_per_s"]) == (0, 101, 0)
    assert found["tail_position"] == found["committed_position"] == 4096 + 100 * 24 + 24
    assert found["segments"] >= 1
    assert found["disk_bytes"] > 0


def test_a_killed_writer_is_told_of(path: Path) -> None:
    with writing(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT_S)
        (writer,) = json.loads(run("top", "--json", *SHORT, path).stdout)["writers"]
    assert (writer["pid"], writer["state"]) == (process.pid, "dead")


def test_rates_are_what_happened_between_two_looks(path: Path) -> None:
    with commitlog.open(path) as log, LogWatch(path) as watch:
        before = watch.look()
        log.append_many([b"v" * 16] * 50)
        now = watch.look()
    rates = Rates.between(before, now)
    seconds = now.seconds_since(before)
    assert rates.tail_bytes == pytest.approx(50 * 32 / seconds)
    assert rates.records == pytest.approx(50 / seconds)
    assert rates.claims == pytest.approx({0: 1 / seconds})
    assert as_object(now, rates)["writers"][0]["claims_per_s"] == rates.claims[0]


def test_a_log_that_was_made_anew_has_no_rates(path: Path) -> None:
    with LogWatch(path) as watch:
        before = watch.look()
        shutil.rmtree(path)
        commitlog.open(path).close()
        rates = Rates.between(before, watch.look())
    assert (rates.tail_bytes, rates.records, rates.claims) == (None, None, {})


def test_without_a_terminal_it_prints_once_within_eighty_columns(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with commitlog.open(path):
        done = run("top", *SHORT, path)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert max(map(len, lines)) <= 80
    assert {
        "tail",
        "appended",
        "committed",
        "flushed",
        "first",
        "records",
        "segments",
        "free",
        "claims",
        "slot",
        "0",
    } <= {line.split()[0] for line in lines[1:] if line}
    assert (
        run("top", "--once", *SHORT, path).stdout.decode().splitlines()[-1]
        == "no writer has it open"
    )


def test_q_ends_it_and_leaves_the_terminal_as_it_was(path: Path) -> None:
    with on_terminal("top", *SHORT, path) as (process, terminal):
        read_until(terminal, b"no writer has it open")
        assert not is_as_it_was(terminal)
        os.write(terminal, b"xq")
        rest = read_rest(terminal)
        assert process.wait(LIMIT_S) == 0
        assert b"\x1b[?1049l" in rest  # back from the alternate screen
        assert is_as_it_was(terminal)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name
)
def test_whoever_ends_it_finds_the_terminal_as_it_was(path: Path, number: signal.Signals) -> None:
    with on_terminal("top", *SHORT, path) as (process, terminal):
        read_until(terminal, b"no writer has it open")
        process.send_signal(number)
        read_rest(terminal)
        assert process.wait(LIMIT_S) == cli.INTERRUPTED
        assert is_as_it_was(terminal)


def remove_at_once(path: Path) -> None:
    """No look meets a half of it."""
    path.rename(path.with_name("gone"))
    shutil.rmtree(path.with_name("gone"))


def test_it_ends_with_the_log(path: Path) -> None:
    with on_terminal("top", *SHORT, path) as (process, terminal):
        read_until(terminal, b"no writer has it open")
        remove_at_once(path)
        rest = read_rest(terminal)
        assert process.wait(LIMIT_S) == 1
    assert b"commitlog: the log was removed while it was shown" in rest


# --- an archive, a segment's file -----------------------------------------------------------------

LIVE = (
    "appended",
    "committed",
    "flushed",
    "free",
    "claims",
    "writer",
    "behind",
    "moves",
    "/s",
    "not open since",
)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Of five segments, with one record in each."""
    pytest.importorskip("zstandard")
    assert run("archive", sealed_log(tmp_path / "archived"), tmp_path / "place").returncode == 0
    return tmp_path / "place"


def test_an_archive_is_as_large_as_its_files_and_has_nothing_that_lives(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum(file.stat().st_size for file in archive.glob("*.zst"))
    for place in (archive, archive.as_uri()):
        monkeypatch.setenv("COLUMNS", str(len(str(place)) + 20))
        lines = run("top", "--once", *SHORT, place).stdout.decode().splitlines()
        assert lines[0].split() == [str(archive), "an", "archive"]
        assert f"segments  5 of 64.0 KiB, {in_bytes(size)} compressed" in lines
        assert "records   5, sequences 0 to 4" in lines
        assert [line.split()[0] for line in lines if line.strip()][1:] == [
            "position",
            "first",
            "end",
            "records",
            "segments",
        ]
        assert not [word for word in LIVE if word in "\n".join(lines[1:])]


def test_an_archive_as_an_object_has_no_room_and_no_rates(archive: Path) -> None:
    found = json.loads(run("top", "--json", *SHORT, archive).stdout)
    assert (found["kind"], found["segments"]) == ("archive", 5)
    assert found["disk_bytes"] == sum(file.stat().st_size for file in archive.glob("*.zst"))
    assert {name for name, value in found.items() if value is None} == {
        *("mode", "failed", "free_bytes", "device_bytes"),
        *(
            f"{name}_per_s"
            for name in ("tail_bytes", "committed_bytes", "flushed_bytes", "records")
        ),
    }


def test_what_comes_to_an_archive_is_seen_at_the_next_look(archive: Path, tmp_path: Path) -> None:
    with LogWatch(archive) as watch:
        before = watch.look()
        with commitlog.open(tmp_path / "archived") as log:
            log.append(b"more")
            log.roll()
        assert run("archive", tmp_path / "archived", archive).returncode == 0
        now = watch.look()
    assert (before.segments, now.segments) == (5, 6)
    assert now.disk_bytes > before.disk_bytes
    assert Rates.between(before, now).records is None


def test_a_segment_s_file_is_as_large_as_it_is_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = min(sealed_log(tmp_path / "log").glob("*.seg"))
    monkeypatch.setenv("COLUMNS", str(len(str(file)) + 20))
    lines = run("top", "--once", *SHORT, file).stdout.decode().splitlines()
    assert lines[0].split() == [str(file), "a", "segment"]
    assert f"segments  1 of 64.0 KiB, {in_bytes(file.stat().st_blocks * 512)} on disk" in lines
    assert not [word for word in LIVE if word in "\n".join(lines[1:])]


def test_an_archive_that_goes_while_it_is_shown_ends_it(archive: Path) -> None:
    with on_terminal("top", *SHORT, archive.as_uri()) as (process, terminal):
        read_until(terminal, b"compressed")
        remove_at_once(archive)
        rest = read_rest(terminal)
        assert process.wait(LIMIT_S) == 1
    assert b"commitlog: the log was removed while it was shown" in rest


@pytest.mark.parametrize("interval", ["0", "0.01", "soon", "-1s", "400d"])
def test_a_wrong_interval_is_refused(
    path: Path, interval: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["top", "--interval", interval, str(path)]) == 2
    assert "expected" in capfd.readouterr().err


def test_figures_are_short() -> None:
    assert [in_bytes(count) for count in (0, 1023, 1024, 1536, 1 << 20)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "1.0 MiB",
    ]
    assert in_bytes(150 << 30) == "150 GiB"
    assert [in_numbers(count) for count in (0, 999, 1000, 12_345, 2e6)] == [
        "0",
        "999",
        "1.0 k",
        "12.3 k",
        "2.0 M",
    ]

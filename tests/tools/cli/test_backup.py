"""`commitlog backup`, and the progress of long commands on a terminal and as JSON."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

import commitlog
from commitlog.keep import backup
from commitlog.tools.cli import progress
from tests.tools.cli.program import SEGMENT, on_terminal, read_rest, run

pytest.importorskip("zstandard")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with (
        commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log,
        log.tailer("reader") as tailer,
    ):
        for number in range(300):
            log.append(b"%d" % number * 200, producer="till", producer_sequence=number)
        tailer.read()
    return tmp_path / "log"


@pytest.mark.parametrize("name", ["copy", "copy.tar.zst"])
def test_backup_says_what_it_has(log: Path, tmp_path: Path, name: str) -> None:
    done = run("backup", log, tmp_path / name)
    assert (done.returncode, done.stderr) == (0, b"")
    first, second, third = done.stdout.decode().splitlines()
    assert first.startswith(f"{log}: backed up 3 segments, positions 4096 to ")
    assert first.endswith(f", to {tmp_path / name}")
    assert second.endswith(" in 3 segments written and verified")
    assert third == "  with tailer reader, producers"
    assert run("cat", tmp_path / name).stdout == run("cat", log).stdout
    assert run("verify", tmp_path / name).stdout.decode().splitlines()[-1] == "sound"
    assert run("info", tmp_path / name).returncode == 0


def test_increment_is_continued_and_refused(log: Path, tmp_path: Path) -> None:
    assert run("backup", "--incremental", log, tmp_path / "copy").returncode == 1
    assert run("backup", log, tmp_path / "copy").returncode == 0
    refused = run("backup", log, tmp_path / "copy")
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert b"--incremental" in refused.stderr
    assert run("append", log, feed=b"one more\n").returncode == 0
    done = run("backup", "--incremental", "--json", log, tmp_path / "copy")
    found = json.loads(done.stdout)
    assert (found["incremental"], found["written_segments"], found["segments"]) == (True, 1, 3)
    assert run("cat", tmp_path / "copy").stdout.endswith(b"\none more\n")


def test_contents_are_chosen(log: Path, tmp_path: Path) -> None:
    given = ("--without", "tailers", "--without", "producers", "--no-verify")
    done = run("backup", *given, log, tmp_path / "copy")
    assert done.stdout.decode().splitlines()[1].endswith(" segments written")
    assert done.stdout.decode().splitlines()[2] == "  with records only"
    assert run("backup", "--without", "keys", log, tmp_path / "other").returncode == 2


@pytest.mark.parametrize("name", ["copy.tar.zst", "store"])
def test_backup_is_restored(log: Path, tmp_path: Path, name: str) -> None:
    to = f"file://{tmp_path / name}" if name == "store" else tmp_path / name
    assert run("backup", log, to).returncode == 0
    assert run("restore", to, tmp_path / "again").returncode == 0
    assert run("cat", tmp_path / "again").stdout == run("cat", log).stdout


def test_directory_is_copied_back_by_a_backup(log: Path, tmp_path: Path) -> None:
    backup(log, tmp_path / "copy")
    refused = run("restore", tmp_path / "copy", tmp_path / "again")
    assert refused.returncode == 1
    assert b"commitlog backup" in refused.stderr
    assert run("backup", tmp_path / "copy", tmp_path / "again").returncode == 0
    assert run("cat", tmp_path / "again").stdout == run("cat", log).stdout


# --- progress -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["backup", "verify", "repair"])
def test_terminal_shows_progress_and_the_result(log: Path, tmp_path: Path, command: str) -> None:
    given = (log, tmp_path / "copy") if command == "backup" else (log,)
    with on_terminal(command, *given) as (process, terminal):
        shown = read_rest(terminal)
        assert process.wait(60) == 0
    assert command.encode() in shown
    assert re.search(rb"\d+:\d\d:\d\d|-:--:--", shown)  # the time that remains
    assert b"\x1b[?25h" in shown  # the cursor is back


def test_json_lines_come_each_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 10.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)
    with progress.byte_progress("verify", as_json=True) as show:
        assert show is not None
        show(0, 400)
        now_s = 12.0
        show(100, 400)
        show(150, 400)
        now_s = 13.5
        show(300, 400)
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert found == [
        {
            "progress": "verify",
            "done_bytes": 100,
            "total_bytes": 400,
            "bytes_per_s": 50,
            "remaining_s": 6.0,
        },
        {
            "progress": "verify",
            "done_bytes": 300,
            "total_bytes": 400,
            "bytes_per_s": 86,
            "remaining_s": 1.2,
        },
    ]


def test_nothing_is_shown_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.byte_progress("verify") as show:
        assert show is None
    monkeypatch.setattr(sys, "stderr", None)
    for as_json in (False, True):
        with progress.byte_progress("verify", as_json=as_json) as show:
            assert show is None

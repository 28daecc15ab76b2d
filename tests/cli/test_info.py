"""`commitlog info`: what a log is, and who has it open."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from tests.cli.program import LIMIT_S, SEGMENT, run, started
from tests.log_files import HEADER, LogFiles, numbered

Until = Callable[..., None]


def info(path: Path) -> dict[str, Any]:
    done = run("info", "--json", path)
    assert (done.returncode, done.stderr) == (0, b"")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_closed_log_tells_all_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SEGMENT, timestamps="precise") as log:
        log.append_many(numbered(10_000))
        end = log.tail_position
    found = info(path)
    identity = json.loads((path / "log.json").read_bytes())
    numbers = sorted(int(file.stem) for file in path.glob("*.seg"))
    assert (found["path"], found["uuid"], found["format"]) == (str(path), identity["uuid"], "1.0")
    assert (found["segment_size"], found["timestamps"], found["created_ns"]) == (SEGMENT, "precise", identity["created_ns"])
    assert (found["segments"], found["first_segment"], found["last_segment"]) == (len(numbers), numbers[0], numbers[-1])
    assert found["disk_bytes"] == sum(file.stat().st_blocks * 512 for file in path.iterdir())
    assert {found[f"{name}_position"] for name in ("tail", "appended", "committed", "flushed")} == {end}
    assert (found["first_position"], found["checkpoint"], found["tail_segment"]) == (HEADER, end, f"{end // SEGMENT * SEGMENT:020d}.seg")
    assert (found["clean"], found["open_for_writing"], found["holders"], found["problems"]) == (True, False, [], [])
    assert (found["first_sequence"], found["last_sequence"], found["last_position"]) == (0, 9999, end - 32)
    assert f"sequences  0 to 9999; the last record is at {end - 32}".encode() in run("info", path).stdout


def test_an_empty_log_says_so(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log", segment_size=SEGMENT).close()
    assert b"sequences  no record; the first will be 0" in run("info", tmp_path / "log").stdout


@pytest.mark.parametrize("pool", [(), ("--pool", 1)], ids=["mapped", "pooled"])
def test_live_writers_are_named_and_dead_ones_are_not(tmp_path: Path, pool: tuple[object, ...], until: Until) -> None:
    path = tmp_path / "log"
    with started("append", *pool, "--segment-size", SEGMENT, path) as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"one\n")
        until(lambda: (path / "cursors").exists() and _records(path) == 1, LIMIT_S)
        found = info(path)
        assert (found["clean"], found["open_for_writing"]) == (False, True)
        (holder,) = found["holders"]
        assert holder["pid"] == writer.pid
        assert holder["name"].startswith("python")
        assert f"held by    process {writer.pid} (".encode() in run("info", path).stdout
        writer.kill()
        writer.wait()
        found = info(path)
        assert (found["clean"], found["open_for_writing"], found["holders"]) == (False, False, [])
        assert b"not closed; the next open recovers it" in run("info", path).stdout


def _records(path: Path) -> int:
    with commitlog.open(path, "r") as log:
        return len(list(log.tailer()))


def test_writers_who_live_are_named_beside_one_who_was_killed(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT), commitlog.open(tmp_path / "log"):
        killed = os.fork()
        if killed == 0:
            commitlog.open(tmp_path / "log").append(b"one")
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(killed, 0)
        holders = info(tmp_path / "log")["holders"]
    assert [holder["pid"] for holder in holders] == [os.getpid()] * 2
    assert len({holder["slot"] for holder in holders}) == 2


def test_nothing_is_changed(files: LogFiles) -> None:
    files.create(0)
    files.checkpoint(files.records(0, numbered(3)), clean=True)
    before = files.snapshot()
    assert run("info", files.path).returncode == 0
    assert files.snapshot() == before
    assert not (files.path / "cursors").exists()


def test_what_cannot_be_read_is_said_and_the_rest_is_shown(files: LogFiles) -> None:
    files.create(0)
    files.checkpoint(files.records(0, numbered(3)))
    (files.path / "log.json").unlink()
    done = run("info", "--json", files.path)
    found = json.loads(done.stdout)
    assert (done.returncode, found["segments"], found["tail_position"]) == (1, 1, None)
    assert any("log.json" in problem for problem in found["problems"])
    assert b"wrong: log.json is missing" in run("info", files.path).stdout


def test_paths_that_are_no_log_are_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    for name, what in (("absent", b"there is no log here"), ("file", b"this is a file"), ("empty", b"log.json is missing")):
        done = run("info", tmp_path / name)
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.startswith(b"commitlog: " + what)
        assert done.stderr.count(b"\n") == 1

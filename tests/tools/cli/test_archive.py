"""`commitlog archive`, and commands that read an archive like a log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import commitlog
from tests.tools.cli.program import SEGMENT, run, sealed_log

pytest.importorskip("zstandard")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return sealed_log(tmp_path / "log")


def test_log_is_read_with_its_store(log: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    assert run("archive", log, place).returncode == 0
    assert run("cat", "--store", place, log).stdout == b"0\n1\n2\n3\n4\n5\n"
    last = run("tail", "-n", "2", "--format", "lines", "--store", place, log)
    assert last.stdout == b"4\n5\n"
    begun = ["tail", "--follow", "--from-sequence", "2", "--stop-at", "5", "--format", "lines"]
    assert run(*begun, "--store", place, log).stdout == b"2\n3\n4\n5\n"
    assert run("history", "--json", "--store", place, log).returncode == 0
    refused = run("cat", "--store", "nonsense://x", log)
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert b"target must be" in refused.stderr.splitlines()[-1]


def test_archive_moves_segments_and_is_read_like_a_log(log: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    done = run("archive", log, place)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().startswith(f"{log}: archived and deleted 5 segments, ")
    assert run("cat", place).stdout == b"0\n1\n2\n3\n4\n"
    assert run("cat", log).stdout == b"5\n"
    assert json.loads(run("tail", "-n", "1", "--json", place).stdout)["value"] == "4"
    verified = run("verify", place).stdout.decode().splitlines()
    assert (
        verified[0]
        == f"{place}: 5 records in 5 segments, ends at position {5 * SEGMENT}, an archive"
    )
    assert verified[-1] == "sound"
    assert (
        run("archive", log, place)
        .stdout.decode()
        .startswith(f"{log}: archived and deleted 0 segments, ")
    )


def test_keep_leaves_the_log_unchanged(log: Path, tmp_path: Path) -> None:
    before = sorted(path.name for path in log.glob("*.seg"))
    done = run("archive", "--keep", "--json", log, tmp_path / "place")
    said = json.loads(done.stdout)
    assert (len(said["segments"]), said["kept"]) == (6, True)
    assert sorted(path.name for path in log.glob("*.seg")) == before
    assert run("cat", tmp_path / "place").stdout == run("cat", log).stdout


def test_follow_of_an_archive_is_refused(log: Path, tmp_path: Path) -> None:
    run("archive", log, tmp_path / "place")
    done = run("tail", "-f", "--from", "first", tmp_path / "place")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"leave out --follow" in done.stderr


def test_damaged_archive_file_is_named(log: Path, tmp_path: Path) -> None:
    run("archive", log, tmp_path / "place")
    damaged = tmp_path / "place" / f"{2 * SEGMENT:020d}.seg.zst"
    damaged.write_bytes(damaged.read_bytes()[:-4])
    done = run("cat", tmp_path / "place")
    assert (done.returncode, done.stdout) == (1, b"0\n1\n")
    assert damaged.name in done.stderr.decode()
    done = run("verify", tmp_path / "place")
    assert done.returncode == 1
    assert damaged.name in done.stdout.decode()
    assert (
        done.stdout.decode().splitlines()[-1]
        == "NOT sound: restore the named files from another copy of the archive"
    )


@pytest.mark.parametrize(
    "command",
    [("repair",), ("remove", "--yes"), ("prune", "--max-bytes", "0")],
    ids=lambda given: given[0],
)
def test_command_for_logs_only_leaves_an_archive_unchanged(
    log: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    run("archive", log, tmp_path / "place")
    before = sorted(path.name for path in (tmp_path / "place").iterdir())
    done = run(*command, tmp_path / "place")
    assert done.returncode == 1
    assert b"this is an archive, and not a log" in done.stderr
    assert sorted(path.name for path in (tmp_path / "place").iterdir()) == before


def test_append_to_an_archive_is_refused(log: Path, tmp_path: Path) -> None:
    run("archive", log, tmp_path / "place")
    done = run("append", tmp_path / "place", feed=b"more\n")
    assert done.returncode == 1
    assert b"this is an archive" in done.stderr


@pytest.mark.parametrize("target", ["log/sub", "log", "file/below", "other"])
def test_dry_run_refuses_as_the_run_does(log: Path, tmp_path: Path, target: str) -> None:
    place = tmp_path / target if not target.startswith("log") else log / target[4:]
    (tmp_path / "file").touch()
    if target == "other":
        place.mkdir()
        (place / "0.seg.zst").touch()
    before = sorted(tmp_path.rglob("*"))
    dry, wet = run("archive", "--dry-run", log, place), run("archive", log, place)
    assert dry.returncode == wet.returncode == 1
    assert dry.stderr == wet.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_archive_without_a_sealed_segment_says_so(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append(b"one")
    for options in ((), ("--keep",), ("--dry-run",)):
        done = run("archive", *options, tmp_path / "log", tmp_path / "archive")
        assert done.returncode == 0
        assert "it is not sealed yet" in done.stdout.decode()


@pytest.mark.parametrize("options", [(), ("--keep",), ("--dry-run",), ("--older-than", "7d")])
def test_archive_out_of_reach_is_refused_with_nothing_to_do(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append(b"one")
    blocked = tmp_path / "blocked"
    blocked.write_bytes(b"a file where the archive's directory should be")
    done = run("archive", *options, tmp_path / "log", blocked / "archive")
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"{blocked}" in done.stderr.decode()

"""`commitlog info`: what a log is, and who has it open."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.retention.archived_directory import ArchivedDirectory
from commitlog.segment.identity import Identity
from tests.cli.program import LIMIT_S, SEGMENT, run, started
from tests.log_files import HEADER, SIZE, LogFiles, numbered

Until = Callable[..., None]


def info(path: object) -> dict[str, Any]:
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
    assert (found["kind"], found["path"], found["uuid"], found["format"]) == (
        "log",
        str(path),
        identity["uuid"],
        "1.0",
    )
    assert (found["segment_size"], found["timestamps"], found["created_ns"]) == (
        SEGMENT,
        "precise",
        identity["created_ns"],
    )
    assert (found["segments"], found["first_segment"], found["last_segment"]) == (
        len(numbers),
        numbers[0],
        numbers[-1],
    )
    assert found["disk_bytes"] == sum(file.stat().st_blocks * 512 for file in path.iterdir())
    assert {found[f"{name}_position"] for name in ("tail", "appended", "committed", "flushed")} == {
        end
    }
    assert (found["first_position"], found["checkpoint"], found["tail_segment"]) == (
        HEADER,
        end,
        f"{end // SEGMENT * SEGMENT:020d}.seg",
    )
    assert (found["clean"], found["open_for_writing"], found["holders"], found["problems"]) == (
        True,
        False,
        [],
        [],
    )
    assert (found["first_sequence"], found["last_sequence"], found["last_position"]) == (
        0,
        9999,
        end - 32,
    )
    assert (
        f"sequences  0 to 9999; the last record is at {end - 32}".encode()
        in run("info", path).stdout
    )


def test_an_empty_log_says_so(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log", segment_size=SEGMENT).close()
    assert b"sequences  no record; the first will be 0" in run("info", tmp_path / "log").stdout


@pytest.mark.parametrize("pool", [(), ("--pool", 1)], ids=["mapped", "pooled"])
def test_live_writers_are_named_and_dead_ones_are_not(
    tmp_path: Path, pool: tuple[object, ...], until: Until
) -> None:
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


# --- a segment's file, an archive -----------------------------------------------------------------


def rolled(path: Path, **options: Any) -> Path:
    """A closed log of four segments, of which three are sealed."""
    with commitlog.open(path, segment_size=SEGMENT, **options) as log:
        for number in range(4):
            log.append_many([b"%d" % number] * 10, timestamp_ns=1_700_000_000_000_000_000 + number)
            if number < 3:
                log.roll()
    return path


def segment_of(path: Path, number: int) -> Path:
    return path / f"{number * SEGMENT:020d}.seg"


def test_a_sealed_segment_s_file_says_what_its_log_says_of_it(tmp_path: Path) -> None:
    path = rolled(tmp_path / "log", roll_cycle="DAILY")
    copy = Path(shutil.copy(segment_of(path, 2), tmp_path / "x.seg"))
    found, dumped = info(copy), json.loads(run("dump", "--json", copy).stdout.splitlines()[0])
    with commitlog.open(path, "r") as log:
        number = log.cycles()[0].number
    assert (found["kind"], found["path"], found["problems"]) == ("segment", str(copy), [])
    assert found["uuid"] == json.loads((path / "log.json").read_bytes())["uuid"]
    assert (found["base"], found["segment_size"], found["format"]) == (2 * SEGMENT, SEGMENT, "1.0")
    assert {name: found[name] for name in ("id", "opened_ns", "cycle", "seal")} == {
        name: dumped[name] for name in ("id", "opened_ns", "cycle", "seal")
    }
    assert (found["cycle"], found["seal"]["record_count"]) == (number, 10)
    assert (found["records"], found["first_sequence"], found["last_sequence"]) == (10, 20, 29)
    assert (found["first_position"], found["end_position"]) == (
        2 * SEGMENT + HEADER,
        2 * SEGMENT + HEADER + 10 * 24,
    )
    assert found["first_timestamp_ns"] == found["last_timestamp_ns"] == 1_700_000_000_000_000_002
    lines = run("info", copy).stdout.decode().splitlines()
    assert lines[0] == f"{copy}: a segment, sealed"
    assert lines[3].startswith(f"  base       {2 * SEGMENT}, id 0x")
    assert lines[4].endswith(f", cycle {number}")
    assert (
        "  records    10, from 2023-11-14T22:13:20.000000002Z to 2023-11-14T22:13:20.000000002Z"
        in lines
    )
    assert lines[-1] == "  sequences  20 to 29"


def test_of_a_segment_that_is_not_sealed_the_frames_are_counted(tmp_path: Path) -> None:
    path = rolled(tmp_path / "log")
    with commitlog.open(path) as log:
        log.pretouch()  # the segment ahead is made by a thread, in its own time
    found = info(segment_of(path, 3))
    assert (found["seal"], found["records"], found["first_sequence"], found["last_sequence"]) == (
        None,
        10,
        None,
        None,
    )
    assert found["end_position"] == 3 * SEGMENT + HEADER + 10 * 24
    said = run("info", segment_of(path, 3)).stdout.decode()
    assert f"{segment_of(path, 3)}: a segment, not sealed" in said
    assert "  sequences  not known: a segment says them when it is sealed" in said
    ahead = info(segment_of(path, 4))
    assert (ahead["opened_ns"], ahead["cycle"], ahead["records"], ahead["first_timestamp_ns"]) == (
        None,
        None,
        0,
        None,
    )
    assert ahead["end_position"] == 4 * SEGMENT + HEADER
    assert "  opened     not yet" in run("info", segment_of(path, 4)).stdout.decode()


def test_a_sealed_segment_without_records_says_which_sequence_comes_next(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append(b"one")
        log.roll()
        with contextlib.suppress(InterruptedError), log.claim(100):
            raise InterruptedError
        log.roll()
        log.append(b"two")
    found = info(segment_of(tmp_path / "log", 1))
    assert (found["records"], found["first_sequence"], found["last_sequence"]) == (0, 1, None)
    assert (
        "  sequences  no record; the next one has 1"
        in run("info", segment_of(tmp_path / "log", 1)).stdout.decode()
    )


def test_damage_in_a_segment_that_is_not_sealed_is_said_with_its_position(files: LogFiles) -> None:
    files.create(1, opened=True)
    files.records(1, numbered(10))
    files.flip(1, HEADER + 3 * 32 + 20)
    done = run("info", "--json", files.file(1))
    found = json.loads(done.stdout)
    assert (done.returncode, found["records"]) == (1, 3)
    assert f"damage at position {SIZE + HEADER + 3 * 32}" in found["problems"][0]
    assert b"  wrong: damage at position" in run("info", files.file(1)).stdout


def test_what_else_lies_in_a_segment_s_folder_is_not_counted(tmp_path: Path) -> None:
    path = rolled(tmp_path / "log")
    assert info(segment_of(path, 1))["disk_bytes"] == segment_of(path, 1).stat().st_blocks * 512


def archived(path: Path, place: Path) -> Path:
    pytest.importorskip("zstandard")
    assert run("archive", "--keep", path, place).returncode == 0
    return place


def test_an_archive_says_how_much_is_in_it_and_how_large_it_is(tmp_path: Path) -> None:
    path = rolled(tmp_path / "log", roll_cycle="DAILY", timestamps="precise")
    place = archived(path, tmp_path / "place")
    identity = json.loads((path / "log.json").read_bytes())
    for address in (str(place), place.as_uri()):
        found = info(address)
        assert (found["kind"], found["uuid"], found["timestamps"]) == (
            "archive",
            identity["uuid"],
            "precise",
        )
        assert (found["roll_cycle"], found["created_ns"]) == ("DAILY (UTC)", identity["created_ns"])
        assert (found["segments"], found["first_segment"], found["last_segment"]) == (
            3,
            0,
            2 * SEGMENT,
        )
        assert (
            found["compressed_bytes"]
            == sum(file.stat().st_size for file in place.glob("*.zst"))
            < SEGMENT
        )
        assert found["uncompressed_bytes"] == 3 * SEGMENT
        assert (found["first_position"], found["end_position"]) == (HEADER, 3 * SEGMENT)
        assert (found["first_sequence"], found["last_sequence"], found["problems"]) == (0, 29, [])
    lines = run("info", place).stdout.decode().splitlines()
    assert lines[0] == f"{place}: an archive"
    assert f"  segments   3 of {SEGMENT} bytes, from 0 to {2 * SEGMENT}" in lines
    assert (
        f"  size       {found['compressed_bytes']} bytes compressed, {3 * SEGMENT} bytes unpacked"
        in lines
    )
    assert lines[-1] == "  sequences  0 to 29"


def test_nothing_of_an_archive_is_unpacked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = archived(rolled(tmp_path / "log"), tmp_path / "place")
    monkeypatch.setattr(ArchivedDirectory, "fetch", None)
    assert info(place)["last_sequence"] == 29


def test_a_gap_in_an_archive_is_said_and_the_rest_is_shown(tmp_path: Path) -> None:
    place = archived(rolled(tmp_path / "log"), tmp_path / "place")
    (place / f"{SEGMENT:020d}.seg.zst").unlink()
    done = run("info", "--json", place)
    found = json.loads(done.stdout)
    assert (done.returncode, found["segments"], found["last_sequence"]) == (1, 2, 29)
    assert found["problems"] == [f"segments from position {SEGMENT} to {2 * SEGMENT} are missing"]


def test_a_damaged_file_of_an_archive_is_said_and_the_rest_is_shown(tmp_path: Path) -> None:
    place = archived(rolled(tmp_path / "log"), tmp_path / "place")
    damaged = place / f"{2 * SEGMENT:020d}.seg.zst"
    damaged.write_bytes(b"cut")
    done = run("info", "--json", place)
    found = json.loads(done.stdout)
    assert (
        done.returncode,
        found["segments"],
        found["first_sequence"],
        found["last_sequence"],
    ) == (1, 3, None, None)
    assert damaged.name in found["problems"][0]


def test_an_archive_without_a_segment_says_so() -> None:
    pytest.importorskip("zstandard")
    memory = pytest.importorskip("fsspec").filesystem("memory")
    identity = Identity.new(SEGMENT, "coarse")
    try:
        with memory.open("/bucket-of-info/orders/log.json", "wb") as file:
            file.write(identity.to_json().encode())
        found = info("memory://bucket-of-info/orders")
        assert (
            found["segments"],
            found["compressed_bytes"],
            found["end_position"],
            found["first_sequence"],
        ) == (0, 0, None, None)
        done = run("info", "memory://bucket-of-info/orders")
        assert f"  segments   0 of {SEGMENT} bytes\n" in done.stdout.decode()
    finally:
        memory.rm("/bucket-of-info", recursive=True)


def test_paths_that_are_no_log_are_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    for name, what in (
        ("absent", b"there is no log here"),
        ("file", b"this is a file"),
        ("empty", b"log.json is missing"),
    ):
        done = run("info", tmp_path / name)
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.startswith(b"commitlog: " + what)
        assert done.stderr.count(b"\n") == 1

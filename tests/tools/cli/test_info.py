"""`commitlog info`: the identity and state of a log, and the processes that have it open."""

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
from commitlog import replication
from commitlog.segment.identity import Identity
from commitlog.source.source_directory import SourceDirectory
from tests.copies import copy_log
from tests.log_files import HEADER, SIZE, LogFiles, numbered
from tests.tools.cli.program import LIMIT_S, SEGMENT, run, started

Until = Callable[..., None]


def is_in_memory(path: object) -> bool:
    """Return whether only this process and its forks have a path."""
    return str(path).startswith("memory://")


def info(path: object, forked: bool = False) -> dict[str, Any]:
    done = run("info", "--json", path, forked=forked or is_in_memory(path))
    assert (done.returncode, done.stderr) == (0, b"")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_closed_log_reports_identity_and_contents(tmp_path: Path) -> None:
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
    assert found["segments"] == len(numbers)
    assert (found["first_segment_position"], found["last_segment_position"]) == (
        numbers[0],
        numbers[-1],
    )
    assert found["disk_bytes"] == sum(file.stat().st_blocks * 512 for file in path.iterdir())
    assert {found[f"{name}_position"] for name in ("tail", "appended", "committed", "flushed")} == {
        end
    }
    assert (found["first_position"], found["checkpoint_position"]) == (HEADER, end)
    assert (found["state"], found["writers"], found["problems"]) == ("closed", [], [])
    assert (found["first_sequence"], found["last_sequence"], found["last_position"]) == (
        0,
        9999,
        end - 32,
    )
    assert (found["records"], found["first_timestamp_ns"] <= found["last_timestamp_ns"]) == (
        10_000,
        True,
    )


def said_by_info(path: object) -> dict[str, str]:
    """Return the printed values by name; the first line is `path`."""
    first, *rest = run("info", path, forked=is_in_memory(path)).stdout.decode().splitlines()
    return {"path": first} | {line[2:26].strip(): line[26:] for line in rest}


def test_text_output_has_units(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append(b"one", timestamp_ns=1_700_000_000_000_000_002)
    said = said_by_info(tmp_path / "log")
    assert said["path"] == f"{tmp_path / 'log'}: log, closed"
    assert (said["segment size"], said["records"], said["last position"]) == (
        "64.0 KiB",
        "1",
        "4096",
    )
    assert said["last timestamp"] == "2023-11-14T22:13:20.000000002Z"
    assert said["disk"].endswith(" KiB")


def test_empty_log_has_no_last_record(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log", segment_size=SEGMENT).close()
    found = info(tmp_path / "log")
    assert (found["records"], found["first_sequence"], found["last_sequence"]) == (0, 0, None)
    assert (found["last_position"], found["first_timestamp_ns"]) == (None, None)


def test_only_live_writers_are_named(tmp_path: Path, until: Until) -> None:
    path = tmp_path / "log"
    with started("append", "--segment-size", SEGMENT, path) as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"one\n")
        until(lambda: (path / "cursors").exists() and _records(path) == 1, LIMIT_S)
        found = info(path)
        assert found["state"] == "open"
        (holder,) = found["writers"]
        assert holder["pid"] == writer.pid
        assert holder["name"].startswith("python")
        assert f"(pid {writer.pid}), slot 0" in said_by_info(path)["writer"]
        writer.kill()
        writer.wait()
        found = info(path)
        assert (found["state"], found["writers"]) == ("unclean", [])
        assert b"not closed; the next open recovers it" in run("info", path).stdout


def _records(path: Path) -> int:
    with commitlog.open(path, "r") as log:
        return len(list(log.tailer()))


def test_live_writers_are_named_beside_a_killed_one(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT), commitlog.open(tmp_path / "log"):
        killed = os.fork()
        if killed == 0:
            commitlog.open(tmp_path / "log").append(b"one")
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(killed, 0)
        holders = info(tmp_path / "log")["writers"]
    assert [holder["pid"] for holder in holders] == [os.getpid()] * 2
    assert len({holder["slot"] for holder in holders}) == 2


def test_info_changes_no_file(files: LogFiles) -> None:
    files.create(0)
    files.checkpoint(files.records(0, numbered(3)), clean=True)
    before = files.snapshot()
    assert run("info", files.path).returncode == 0
    assert files.snapshot() == before
    assert not (files.path / "cursors").exists()


def test_unreadable_identity_is_reported_and_the_rest_shown(files: LogFiles) -> None:
    files.create(0)
    files.checkpoint(files.records(0, numbered(3)))
    (files.path / "log.json").unlink()
    done = run("info", "--json", files.path)
    found = json.loads(done.stdout)
    assert (done.returncode, found["segments"], found["tail_position"]) == (1, 1, None)
    assert any("log.json" in problem for problem in found["problems"])
    assert b"wrong: log.json is missing" in run("info", files.path).stdout


# --- segment files and archives -------------------------------------------------------------------


def rolled(path: Path, **options: Any) -> Path:
    """Create a closed log of four segments, three of them sealed."""
    with commitlog.open(path, segment_size=SEGMENT, **options) as log:
        for number in range(4):
            log.append_many([b"%d" % number] * 10, timestamp_ns=1_700_000_000_000_000_000 + number)
            if number < 3:
                log.roll()
    return path


def segment_of(path: Path, number: int) -> Path:
    return path / f"{number * SEGMENT:020d}.seg"


def test_sealed_segment_file_reports_its_seal(tmp_path: Path) -> None:
    path = rolled(tmp_path / "log", roll_cycle="DAILY")
    copy = Path(shutil.copy(segment_of(path, 2), tmp_path / "x.seg"))
    found, dumped = info(copy), json.loads(run("dump", "--json", copy).stdout.splitlines()[0])
    with commitlog.open(path, "r") as log:
        number = log.cycles()[0].number
    assert (found["kind"], found["path"], found["problems"]) == ("segment", str(copy), [])
    assert found["uuid"] == json.loads((path / "log.json").read_bytes())["uuid"]
    assert (found["base_position"], found["segment_size"], found["format"]) == (
        2 * SEGMENT,
        SEGMENT,
        "1.0",
    )
    assert {name: found[name] for name in ("segment_id", "opened_ns", "cycle", "seal")} == {
        name: dumped[name] for name in ("segment_id", "opened_ns", "cycle", "seal")
    }
    assert (found["cycle"], found["seal"]["records"]) == (number, 10)
    assert (found["records"], found["first_sequence"], found["last_sequence"]) == (10, 20, 29)
    assert (found["first_position"], found["end_position"]) == (
        2 * SEGMENT + HEADER,
        2 * SEGMENT + HEADER + 10 * 24,
    )
    assert found["first_timestamp_ns"] == found["last_timestamp_ns"] == 1_700_000_000_000_000_002
    said = said_by_info(copy)
    assert (said["path"], said["base position"], said["cycle"]) == (
        f"{copy}: segment",
        str(2 * SEGMENT),
        str(number),
    )


def test_frames_of_an_unsealed_segment_are_counted(tmp_path: Path) -> None:
    path = rolled(tmp_path / "log")
    with commitlog.open(path) as log:
        log.pretouch()  # otherwise a thread would allocate the next segment later
    found = info(segment_of(path, 3))
    assert (found["seal"], found["records"], found["first_sequence"], found["last_sequence"]) == (
        None,
        10,
        None,
        None,
    )
    assert found["end_position"] == 3 * SEGMENT + HEADER + 10 * 24
    ahead = info(segment_of(path, 4))
    assert (ahead["opened_ns"], ahead["cycle"], ahead["records"], ahead["first_timestamp_ns"]) == (
        None,
        None,
        0,
        None,
    )
    assert ahead["end_position"] == 4 * SEGMENT + HEADER
    assert "opened" not in said_by_info(segment_of(path, 4))


def test_sealed_empty_segment_reports_next_sequence(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append(b"one")
        log.roll()
        with contextlib.suppress(InterruptedError), log.claim(100):
            raise InterruptedError
        log.roll()
        log.append(b"two")
    found = info(segment_of(tmp_path / "log", 1))
    assert (found["records"], found["first_sequence"], found["last_sequence"]) == (0, 1, None)


def test_damage_in_unsealed_segment_is_reported_with_position(files: LogFiles) -> None:
    files.create(1, opened=True)
    files.records(1, numbered(10))
    files.flip(1, HEADER + 3 * 32 + 20)
    done = run("info", "--json", files.file(1))
    found = json.loads(done.stdout)
    assert (done.returncode, found["records"]) == (1, 3)
    assert f"damage at position {SIZE + HEADER + 3 * 32}" in found["problems"][0]
    assert b"  wrong: damage at position" in run("info", files.file(1)).stdout


def test_segment_file_counts_its_own_disk_space_only(tmp_path: Path) -> None:
    path = rolled(tmp_path / "log")
    assert info(segment_of(path, 1))["disk_bytes"] == segment_of(path, 1).stat().st_blocks * 512


def archived(path: Path, place: Path) -> Path:
    pytest.importorskip("zstandard")
    assert run("archive", "--keep", path, place).returncode == 0
    return place


def test_archive_reports_its_contents_and_size(tmp_path: Path) -> None:
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
        assert (
            found["segments"],
            found["first_segment_position"],
            found["last_segment_position"],
        ) == (3, 0, 2 * SEGMENT)
        assert (
            found["disk_bytes"]
            == sum(file.stat().st_size for file in place.glob("*.zst"))
            < SEGMENT
        )
        assert found["uncompressed_bytes"] == 3 * SEGMENT
        assert (found["first_position"], found["end_position"]) == (HEADER, 3 * SEGMENT)
        assert (found["first_sequence"], found["last_sequence"], found["problems"]) == (0, 29, [])
    said = said_by_info(place)
    assert (said["path"], said["segments"], said["uncompressed"]) == (
        f"{place}: archive",
        "3",
        "192.0 KiB",
    )


def test_info_of_an_archive_unpacks_no_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = archived(rolled(tmp_path / "log"), tmp_path / "place")
    monkeypatch.setattr(SourceDirectory, "fetch", None)
    assert info(place, forked=True)["last_sequence"] == 29


def test_gap_in_an_archive_is_reported_and_the_rest_shown(tmp_path: Path) -> None:
    place = archived(rolled(tmp_path / "log"), tmp_path / "place")
    (place / f"{SEGMENT:020d}.seg.zst").unlink()
    done = run("info", "--json", place)
    found = json.loads(done.stdout)
    assert (done.returncode, found["segments"], found["last_sequence"]) == (1, 2, 29)
    assert found["problems"] == [f"segments from position {SEGMENT} to {2 * SEGMENT} are missing"]


def test_damaged_archive_file_is_reported_and_rest_is_shown(tmp_path: Path) -> None:
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


def test_archive_without_a_segment_is_reported_as_empty() -> None:
    pytest.importorskip("zstandard")
    memory = pytest.importorskip("fsspec").filesystem("memory")
    identity = Identity.new(SEGMENT, "coarse")
    try:
        with memory.open("/bucket-of-info/orders/log.json", "wb") as file:
            file.write(identity.to_json().encode())
        found = info("memory://bucket-of-info/orders")
        assert (
            found["segments"],
            found["disk_bytes"],
            found["end_position"],
            found["first_sequence"],
        ) == (0, 0, None, None)
        assert said_by_info("memory://bucket-of-info/orders")["segments"] == "0"
    finally:
        memory.rm("/bucket-of-info", recursive=True)


def test_path_without_a_log_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    for name, what in (
        ("absent", b"there is no log here"),
        ("file", b"this file is not a segment of a log"),
        ("empty", b"log.json is missing"),
    ):
        done = run("info", tmp_path / name)
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.startswith(b"commitlog: " + what)
        assert done.stderr.count(b"\n") == 1


def test_copy_reports_what_it_follows_and_its_epoch(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append(b"one")
    assert "epoch" not in info(tmp_path / "log")
    with replication.serve(tmp_path / "log") as server:
        replication.follow(server.url(), tmp_path / "copy").close()
        found = info(tmp_path / "copy")
        assert (found["follows"], found["epoch"], found["lag_bytes"]) == (server.url(), 0, 0)
    copy_log(tmp_path / "copy", tmp_path / "clone")
    assert (found["restored"], info(tmp_path / "clone")["restored"]) == (False, True)
    replication.promote(tmp_path / "copy")
    found = info(tmp_path / "copy")
    assert (found["follows"], found["epoch"], found["copies"]) == (None, 1, 1)
    assert "follows" in run("info", tmp_path / "clone").stdout.decode()

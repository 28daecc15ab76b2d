"""Joins: all staged segments follow the log's records, a refused join adds none, and later appends
follow them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog.base import failpoint
from commitlog.errors import CorruptSegmentError, LogLockedError, UnsupportedVersionError
from commitlog.options import Options
from commitlog.recovery import join_note
from commitlog.recovery.join_note import JoinNote
from commitlog.repair.repair import repair
from commitlog.repair.verification import verify
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity
from commitlog.stage.joining import join
from tests.setups import Logs
from tests.stage.making import SIZE, append, batch_of, numbered, read_all, stage

NEW = Options(segment_size=SIZE)
STATES = ["no log", "empty", "some records", "full to the end", "joined before", "closed early"]


def log_in(state: str, tmp_path: Path) -> list[bytes]:
    """Create a log in one of the states that a join may find; return its records."""
    path, values = tmp_path / "log", numbered(10)
    if state == "no log":
        return []
    if state == "empty":
        append(path, [])
        return []
    if state == "joined before":
        join(path, stage(tmp_path / "before", batch_of(values)), options=NEW)
        return values
    with commitlog.open(path, segment_size=SIZE) as log:
        log.append_many(values)
        if state == "full to the end":
            while SIZE - log.tail_position % SIZE > 8000:
                values.append(b"filling".ljust(7000, b"."))
                log.append(values[-1])
            values.append(bytes(SIZE - log.tail_position % SIZE - 16))
            log.append(values[-1])
        if state == "closed early":
            log.roll()
    return values


@pytest.mark.parametrize("count", [1, 1500])
@pytest.mark.parametrize("state", STATES)
def test_joined_records_follow_old_ones_and_precede_new_ones(
    tmp_path: Path, state: str, count: int
) -> None:
    before, path = log_in(state, tmp_path), tmp_path / "log"
    staged = stage(tmp_path / "staged", batch_of(numbered(count, first=100)))
    joined = join(path, staged, options=NEW)
    assert joined.records == count
    assert not joined.repeated
    assert read_all(path) == before + numbered(count, first=100)
    assert not list((tmp_path / "staged").iterdir()) if (tmp_path / "staged").exists() else True
    with commitlog.open(path) as log:
        assert log.tail_position == joined.end_position
        position = log.append(b"after")
        assert position >= joined.end_position
        values = [record.value for record in log.tailer(start=joined.first_position)]
        assert values == [*numbered(count, first=100), b"after"]
        assert [record.sequence for record in log.tailer()] == list(range(len(before) + count + 1))
    assert verify(path).sound


def test_alternating_joins_and_appends_keep_the_order(tmp_path: Path) -> None:
    path, expected = tmp_path / "log", []
    for turn in range(4):
        values = numbered(700, first=turn * 1000)
        join(path, stage(tmp_path / "staged", batch_of(values)), options=NEW)
        more = numbered(900, first=turn * 1000 + 50000)
        append(path, more)
        expected += values + more
    assert read_all(path) == expected
    report = verify(path)
    assert report.sound
    assert report.records == len(expected)


def test_join_uses_current_cycle_and_next_append_starts_segment(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SIZE, roll_cycle="MINUTELY") as log:
        log.append_many(numbered(5))
        log.roll()
    for turn in range(2):
        join(path, stage(tmp_path / "staged", batch_of(numbered(1500, first=5 + 1500 * turn))))
    with commitlog.open(path) as log:
        assert log.append(b"on") % SIZE == 4096
        cycles = log.cycles()
        assert [found.number for found in cycles] == sorted(found.number for found in cycles)
        assert sum(log.records_in_cycle(found.number) for found in cycles) == 3006
    assert read_all(path) == [*numbered(3005), b"on"]
    assert verify(path).sound


def test_join_recovers_unclosed_log_first(tmp_path: Path, in_child: Callable[..., object]) -> None:
    path = tmp_path / "log"

    def die_open() -> None:
        commitlog.open(path, segment_size=SIZE).append_many(numbered(900))

    in_child(die_open)
    join(path, stage(tmp_path / "staged", batch_of(numbered(5, first=900))))
    assert read_all(path) == numbered(905)


def test_join_of_a_held_log_is_refused_with_the_pid(tmp_path: Path, logs: Logs) -> None:
    log = logs.open()
    log.append(b"x")
    staged = stage(tmp_path / "staged", batch_of([b"y"]))
    with pytest.raises(LogLockedError, match="open in this process"):
        join(tmp_path / "log", staged)
    assert os.path.exists(staged[0])
    log.append(b"z")
    log.close()
    join(tmp_path / "log", staged)
    assert read_all(tmp_path / "log") == [b"x", b"z", b"y"]


@pytest.mark.parametrize(
    "state", ["some records", "full to the end", "joined before", "closed early"]
)
def test_waiting_reader_continues_into_the_joined_records(tmp_path: Path, state: str) -> None:
    before, path = log_in(state, tmp_path), tmp_path / "log"
    with commitlog.open(path, "r") as log:
        tailer, flushed = log.tailer(), log.tailer(visibility="flushed")
        assert list(tailer.values()) == list(flushed.values()) == before
        for turn in range(3):
            values = numbered(1000, first=1000 * turn)
            join(path, stage(tmp_path / "staged", batch_of(values)))
            assert list(tailer.values()) == values
            assert list(flushed.values()) == values


def test_repeated_batch_is_not_joined_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    repeated = []
    for batch in (0, 1, 1, 0, 2):
        staged = stage(tmp_path / "staged", batch_of([b"batch %d" % batch]))
        repeated.append(join(path, staged, query="q", batch=batch, options=NEW).repeated)
    assert repeated == [False, False, True, True, False]
    join(path, stage(tmp_path / "staged", batch_of([b"another query"])), query="r", batch=0)
    assert read_all(path) == [b"batch 0", b"batch 1", b"batch 2", b"another query"]


def test_manifest_keeps_the_latest_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_note, "_QUERIES_KEPT", 3)
    for number in range(5):
        join(
            tmp_path / "log",
            stage(tmp_path / "staged", batch_of([b"x"])),
            query=f"query {number}",
            batch=7,
            options=NEW,
        )
    assert sorted(json.loads((tmp_path / "log" / "joined").read_bytes())["batches"]) == [
        "query 2",
        "query 3",
        "query 4",
    ]


def test_staged_file_of_other_segment_size_fails_the_whole_join(
    tmp_path: Path,
) -> None:
    append(tmp_path / "log", [b"x"])
    good = stage(tmp_path / "staged", batch_of([b"y"]))
    bad = stage(tmp_path / "staged", batch_of([b"z"]), segment_size=2 * SIZE)
    with pytest.raises(CorruptSegmentError, match=f"not a complete staged segment of {SIZE} bytes"):
        join(tmp_path / "log", [*good, *bad])
    assert read_all(tmp_path / "log") == [b"x"]
    append(tmp_path / "log", [b"on"])
    join(tmp_path / "log", good)
    assert read_all(tmp_path / "log") == [b"x", b"on", b"y"]


@pytest.mark.parametrize("offset", [0, 40, 64, 270, 300])
def test_staged_file_with_a_damaged_header_is_refused(tmp_path: Path, offset: int) -> None:
    (staged,) = stage(tmp_path / "staged", batch_of([b"y"]))
    with open(staged, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))
    with pytest.raises(CorruptSegmentError, match="not a complete staged segment"):
        join(tmp_path / "log", [staged], options=NEW)
    assert read_all(tmp_path / "log") == []


def test_missing_staged_file_is_named(tmp_path: Path) -> None:
    (staged,) = stage(tmp_path / "staged", batch_of([b"y"]))
    os.unlink(staged)
    with pytest.raises(CorruptSegmentError, match="is missing"):
        join(tmp_path / "log", [staged], options=NEW)
    append(tmp_path / "log", [b"x"])
    assert read_all(tmp_path / "log") == [b"x"]


# --- a join that was begun ------------------------------------------------------------------------


def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int) -> Path:
    """Create a log of ten records with an incomplete join of 1500: `steps` of its segments are in
    place.
    """
    path = tmp_path / "log"
    append(path, numbered(10))
    staged = stage(tmp_path / "staged", batch_of(numbered(1500, first=10)))
    done: list[str] = []

    def passed(step: str) -> None:
        done.append(step)
        if (step == "segment placed" and done.count(step) == steps) or (
            steps == 0 and step == "note written"
        ):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(failpoint, "hook", passed)
        with pytest.raises(KeyboardInterrupt):
            join(path, staged)
    assert (path / "joining").exists()
    return path


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_next_open_finishes_an_incomplete_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    path = begun(tmp_path, monkeypatch, steps)
    assert read_all(path) == numbered(10)
    report = verify(path)
    assert report.joining
    assert report.sound
    assert report.records == 10
    append(path, [b"on"])
    assert read_all(path) == [*numbered(1510), b"on"]
    assert not (path / "joining").exists()
    report = verify(path)
    assert report.sound
    assert not report.joining


@pytest.mark.parametrize("steps", [0, 2])
def test_repair_finishes_an_incomplete_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    path = begun(tmp_path, monkeypatch, steps)
    assert [action.what for action in repair(path, dry_run=True).actions] == [
        "the join that it records was finished"
    ]
    assert repair(path).sound
    assert read_all(path) == numbered(1510)
    assert repair(path).actions == []


def flip(file: Path, offset: int) -> None:
    content = bytearray(file.read_bytes())
    content[offset] ^= 0x10
    file.write_bytes(content)


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("harm", ["flipped", "cut", "empty", "no object", "source gone"])
def test_damaged_join_note_joins_no_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, harm: str
) -> None:
    path = begun(tmp_path, monkeypatch, steps)
    note = path / "joining"
    content = note.read_bytes()
    if harm == "flipped":
        flip(note, len(content) // 2)
    elif harm == "source gone":
        shutil.rmtree(path / ".staged")
    else:
        note.write_bytes({"cut": content[:-20], "empty": b"", "no object": b"[1]"}[harm])
    before = sorted(os.listdir(path))
    for _ in range(2):
        with pytest.raises(CorruptSegmentError, match="`joining`"):
            commitlog.open(path)
    assert sorted(os.listdir(path)) == before
    assert read_all(path) == numbered(10)
    if harm != "source gone":
        assert not verify(path).sound
    assert repair(path).sound
    assert repair(path).actions == []
    assert read_all(path) == numbered(10)
    append(path, [b"on"])
    assert read_all(path) == [*numbered(10), b"on"]


def test_changed_byte_of_a_join_note_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = begun(tmp_path, monkeypatch, 1)
    note = path / "joining"
    whole = note.read_bytes()
    with LogDirectoryOf(path) as directory:
        for offset in range(0, len(whole) - 1, 7):
            flip(note, offset)
            with pytest.raises((CorruptSegmentError, UnsupportedVersionError)):
                JoinNote.read(directory)
            note.write_bytes(whole)
        assert JoinNote.read(directory) is not None


class LogDirectoryOf:
    """The open directory of a log."""

    def __init__(self, path: Path) -> None:
        identity = Identity.parse((path / "log.json").read_bytes(), str(path))
        self.directory = LogDirectory(str(path), identity)

    def __enter__(self) -> LogDirectory:
        return self.directory

    def __exit__(self, *_: object) -> None:
        self.directory.close()


@pytest.mark.parametrize("way", ["above", "below and above", "absolute", "linked folder"])
def test_join_note_naming_a_file_outside_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    path = begun(tmp_path, monkeypatch, 0)
    with LogDirectoryOf(path) as directory:
        note = JoinNote.read(directory)
        assert note is not None
        names = [os.path.basename(move.source) for move in note.moves]
        (path / ".staged" / "joining").rename(tmp_path / "outside")
        if way == "linked folder":
            (path / ".staged" / "joining").symlink_to(tmp_path / "outside")
        else:
            folder = {
                "above": "../outside",
                "below and above": ".staged/../../outside",
                "absolute": str(tmp_path / "outside"),
            }[way]
            moves = tuple(
                dataclasses.replace(move, source=f"{folder}/{name}")
                for move, name in zip(note.moves, names, strict=True)
            )
            dataclasses.replace(note, moves=moves).write(directory)
    with pytest.raises(CorruptSegmentError, match="`joining`"):
        commitlog.open(path)
    assert sorted(os.listdir(tmp_path / "outside")) == sorted(names)
    assert repair(path).sound
    assert read_all(path) == numbered(10)
    assert sorted(os.listdir(tmp_path / "outside")) == sorted(names)


def test_join_note_of_another_log_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = begun(tmp_path, monkeypatch, 0)
    append(tmp_path / "other", [b"x"])
    shutil.copy(path / "joining", tmp_path / "other" / "joining")
    with pytest.raises(CorruptSegmentError, match="belongs to another log"):
        commitlog.open(tmp_path / "other")


def test_damaged_manifest_refuses_join_until_repair(tmp_path: Path) -> None:
    path = tmp_path / "log"
    join(path, stage(tmp_path / "staged", batch_of([b"x"])), query="q", batch=3, options=NEW)
    flip(path / "joined", 20)
    staged = stage(tmp_path / "staged", batch_of([b"y"]))
    with pytest.raises(CorruptSegmentError, match="`joined`"):
        join(path, staged, query="q", batch=4)
    assert not verify(path).sound
    append(path, [b"on"])
    assert [action.file for action in repair(path).actions] == ["joined"]
    join(path, staged, query="q", batch=4)
    assert read_all(path) == [b"x", b"on", b"y"]


@pytest.mark.wing
def test_remove_deletes_the_log_and_its_staged_files(tmp_path: Path) -> None:
    from tests.tools.cli import program

    path = tmp_path / "log"
    join(path, stage(tmp_path / "staged", batch_of([b"x"])), query="q", batch=3, options=NEW)
    stage(path / ".staged" / "job", batch_of([b"y"]))
    assert b"deleted" in program.run("remove", path, "--yes").stdout
    assert not path.exists()

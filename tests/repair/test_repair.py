"""Repair: damage is marked, headers and identities are rebuilt, every byte is kept in a copy, and a
killed repair can be repeated.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog.base import failpoint
from commitlog.base.roll_cycle import RollCycle
from commitlog.errors import (
    InvalidOptionError,
    IOFailureError,
    LogLockedError,
    LogNotFoundError,
    NotALogError,
    ReadOnlyError,
)
from commitlog.repair import segment_repair as module
from commitlog.repair.repair import RepairReport, repair
from commitlog.repair.segment_repair import mark_skipped
from commitlog.repair.verification import verify
from tests.length import every
from tests.log_files import HEADER, SIZE, UUID, LogFiles, numbered
from tests.oracle import segment_file as oracle
from tests.steps import killed_at

STEP = 32
SEALED = oracle.Seal(HEADER + 100 * STEP, 1000, 100, 7, 7, 7)


def build(files: LogFiles) -> int:
    """Build a cleanly closed log: two full segments, the first sealed, one live, one ahead of need.
    Return the end position.
    """
    files.full(0, numbered(100))
    files.put(
        0,
        0,
        oracle.build_header(
            log_uuid=UUID,
            segment_id=files.segment_id(0),
            base=0,
            size=SIZE,
            created_ns=1,
            seal=SEALED,
        ),
    )
    files.full(1, numbered(100, 100))
    files.create(2, opened=True)
    end = 2 * SIZE + files.records(2, numbered(50, 200))
    files.create(3)
    files.checkpoint(end, clean=True)
    (files.path / "lock").touch()
    return end


def without(values: list[bytes], *lost: int) -> list[bytes]:
    return [value for number, value in enumerate(values) if number not in lost]


def repair_twice(files: LogFiles) -> RepairReport:
    """Repair, check that the log is sound, and that a second repair writes nothing."""
    report = repair(files.path)
    assert report.sound, report
    assert verify(files.path).sound
    after = files.snapshot()
    again = repair(files.path)
    assert (again.actions, again.copies, again.remaining) == ([], [], [])
    assert files.snapshot() == after
    return report


def test_repair_of_a_sound_log_writes_nothing(files: LogFiles) -> None:
    build(files)
    before = files.snapshot()
    times = {path.name: path.stat().st_mtime_ns for path in files.path.iterdir()}
    report = repair(files.path)
    assert (report.sound, report.actions, report.copies) == (True, [], [])
    assert files.snapshot() == before
    assert {path.name: path.stat().st_mtime_ns for path in files.path.iterdir()} == times


def test_damage_is_marked_and_later_records_are_kept(files: LogFiles) -> None:
    build(files)
    files.flip(1, HEADER + 10 * STEP + 20)
    files.put(1, HEADER + 20 * STEP, b"\xff" * 3 * STEP)
    (files.path / f"{SIZE:020d}.idx").write_bytes(b"index of what was")
    broken = files.get(1)
    report = repair_twice(files)
    assert files.values() == without(numbered(250), 110, 120, 121, 122)
    base = SIZE + HEADER
    assert [(action.position, action.resume_position) for action in report.actions] == [
        (base + 10 * STEP, base + 11 * STEP),
        (base + 20 * STEP, base + 23 * STEP),
    ]
    copy = files.path / f"{SIZE:020d}.seg.broken"
    assert report.copies == [str(copy)]
    assert copy.read_bytes() == broken
    assert not (files.path / f"{SIZE:020d}.idx").exists()
    assert not verify(files.path).clean, "the next open looks for the end itself"


def test_damage_at_end_of_full_segment_is_marked_to_the_end(files: LogFiles) -> None:
    build(files)
    files.put(1, HEADER + 90 * STEP, bytes(SIZE - HEADER - 90 * STEP))
    repair_twice(files)
    assert files.values() == without(numbered(250), *range(190, 200))
    last = list(oracle.frames(files.get(1)))[-1]
    assert (last.kind, last.length, last.offset) == (oracle.Kind.SKIP, 0, HEADER + 90 * STEP)


def test_damage_at_end_of_log_is_marked_up_to_the_end_only(files: LogFiles) -> None:
    end = build(files) - 2 * SIZE
    files.flip(2, end - 8)
    repair_twice(files)
    last = list(oracle.frames(files.get(2)))[-1]
    assert (last.kind, last.offset, last.length) == (oracle.Kind.SKIP, end - STEP, STEP)
    assert files.values() == numbered(249)
    assert files.recover(checkpoint=files.checkpoint(2 * SIZE + end, clean=True)).tail == (2, end)


def test_repaired_segment_is_resealed_with_same_first_sequence(files: LogFiles) -> None:
    build(files)
    files.flip(0, HEADER + 99 * STEP + 20)
    repair_twice(files)
    assert oracle.read_header(files.get(0)).seal == oracle.Seal(
        HEADER + 99 * STEP, 1000, 99, 7, 7, 7
    )


@pytest.mark.parametrize("at", [280, 304])
def test_seal_with_a_wrong_crc_is_removed(files: LogFiles, at: int) -> None:
    build(files)
    files.flip(0, at)
    report = repair_twice(files)
    assert [action.what for action in report.actions] == [
        "seal rewritten, because it did not match"
    ]
    assert oracle.read_header(files.get(0)).seal is None
    assert files.values() == numbered(250)


def test_seal_that_contradicts_the_frames_is_corrected(files: LogFiles) -> None:
    build(files)
    wrong = oracle.Seal(HEADER + 100 * STEP, 1000, 77, 7, 7, 7)
    files.put(
        0,
        0,
        oracle.build_header(
            log_uuid=UUID,
            segment_id=files.segment_id(0),
            base=0,
            size=SIZE,
            created_ns=1,
            seal=wrong,
        ),
    )
    repair_twice(files)
    assert oracle.read_header(files.get(0)).seal == SEALED


def test_existing_copy_is_never_overwritten(files: LogFiles) -> None:
    build(files)
    earlier = files.path / f"{SIZE:020d}.seg.broken"
    earlier.write_bytes(b"from long ago")
    files.flip(1, HEADER + 20)
    assert repair(files.path).copies == [f"{earlier}.1"]
    files.flip(1, HEADER + STEP + 20)
    assert repair(files.path).copies == [f"{earlier}.2"]
    assert earlier.read_bytes() == b"from long ago"


# Offsets of magic, major, header size, uuid, base, size, created and CRC.
@pytest.mark.parametrize("at", [0, 8, 12, 20, 41, 50, 57, 65])
def test_damaged_header_is_rebuilt_with_its_segment_id(files: LogFiles, at: int) -> None:
    build(files)
    sound = files.get(0)
    files.flip(0, at)
    report = repair_twice(files)
    assert [action.what for action in report.actions] == ["header rebuilt"]
    assert files.values() == numbered(250)
    header = oracle.read_header(files.get(0))
    assert (header.segment_id, header.base, header.size, header.log_uuid, header.seal) == (
        files.segment_id(0),
        0,
        SIZE,
        UUID,
        SEALED,
    )
    assert files.get(0, 72) == sound[72:]


def test_damaged_header_of_an_empty_segment_is_rebuilt(files: LogFiles) -> None:
    build(files)
    files.flip(3, 45)
    files.flip(3, 66)
    report = repair_twice(files)
    assert [action.what for action in report.actions] == ["header rebuilt"]


def lose_id(files: LogFiles, number: int) -> None:
    """Destroy the id and every CRC from which it could be computed."""
    files.put(number, 0, bytes(HEADER))
    files.put(number, HEADER, b"\xff" * 8)


def test_segment_with_lost_id_is_moved_away_and_skipped(files: LogFiles) -> None:
    build(files)
    lose_id(files, 1)
    content = files.get(1)
    report = repair_twice(files)
    assert (files.path / f"{SIZE:020d}.seg.broken").read_bytes() == content
    assert report.copies == [str(files.path / f"{SIZE:020d}.seg.broken")]
    assert "moved away" in report.actions[0].what
    assert files.values() == without(numbered(250), *range(100, 200))


def test_last_segment_with_lost_id_is_skipped_up_to_the_end(files: LogFiles) -> None:
    end = build(files)
    files.file(3).unlink()
    lose_id(files, 2)
    assert len(repair_twice(files).copies) == 1
    assert files.values() == numbered(200)
    assert files.recover(checkpoint=files.checkpoint(end)).end == end


def test_segment_of_a_newer_format_is_not_changed(files: LogFiles) -> None:
    build(files)
    header = oracle.build_header(
        log_uuid=UUID, segment_id=files.segment_id(1), base=SIZE, size=SIZE, created_ns=1, major=2
    )
    files.put(1, 0, header)
    before = files.snapshot()
    report = repair(files.path)
    assert not report.sound
    assert "newer format" in report.remaining[0]
    assert files.snapshot() == before


def test_segment_of_another_log_is_not_changed(files: LogFiles) -> None:
    build(files)
    files.put(1, 0, oracle.build_header(log_uuid=bytes(16), segment_id=5, base=SIZE, size=SIZE))
    before = files.snapshot()
    assert "another log" in repair(files.path).remaining[0]
    assert files.snapshot() == before


@pytest.mark.parametrize("length", [HEADER + 10 * STEP + 5, HEADER + 10 * STEP, SIZE - 8])
def test_truncated_segment_is_extended_and_its_loss_marked(
    files: LogFiles, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(files)
    os.truncate(files.file(1), length)
    blocks: dict[str, int] = {}
    monkeypatch.setattr(
        failpoint, "hook", lambda step: blocks.setdefault(step, files.file(1).stat().st_blocks)
    )
    report = repair_twice(files)
    left = (length - HEADER) // STEP
    assert files.values() == without(numbered(250), *range(100 + left, 200))
    assert files.file(1).stat().st_size == SIZE
    assert blocks["extended"] * 512 >= SIZE
    assert len(report.copies) == 1
    assert (files.path / f"{SIZE:020d}.seg.broken").stat().st_size == length
    assert report.actions[0].what == f"extended from {length} bytes to {SIZE}"


def test_segment_truncated_inside_its_header_is_replaced(files: LogFiles) -> None:
    build(files)
    os.truncate(files.file(1), 10)
    repair_twice(files)
    assert files.values() == without(numbered(250), *range(100, 200))


def test_missing_segment_is_replaced_by_an_empty_one(files: LogFiles) -> None:
    build(files)
    files.file(1).unlink()
    report = repair_twice(files)
    assert [(action.position, action.resume_position) for action in report.actions] == [
        (SIZE, 2 * SIZE)
    ]
    assert files.values() == without(numbered(250), *range(100, 200))


@pytest.mark.parametrize("content", [None, b"{", b"{}"])
def test_lost_identity_is_rebuilt_from_the_segments(files: LogFiles, content: bytes | None) -> None:
    build(files)
    (files.path / "log.json").unlink()
    if content is not None:
        (files.path / "log.json").write_bytes(content)
    repair_twice(files)
    rebuilt = json.loads((files.path / "log.json").read_bytes())
    assert (rebuilt["uuid"].replace("-", ""), rebuilt["segment_size"], rebuilt["created_ns"]) == (
        UUID.hex(),
        SIZE,
        1,
    )
    assert files.values() == numbered(250)
    if content is not None:
        assert (files.path / "log.json.broken").read_bytes() == content


def test_lost_identity_and_damaged_header_are_both_rebuilt(files: LogFiles) -> None:
    build(files)
    (files.path / "log.json").unlink()
    files.flip(0, 1)
    repair_twice(files)
    assert files.values() == numbered(250)


def test_torn_tail_is_left_to_recovery(files: LogFiles) -> None:
    files.create(0)
    torn = files.records(0, numbered(10))
    files.records(0, numbered(5, 10), torn + 64)
    files.checkpoint(HEADER + 5 * STEP)
    before = files.snapshot()
    report = repair(files.path)
    assert (report.sound, report.actions) == (True, [])
    after = files.snapshot()
    after.pop("lock")
    assert after == before


def test_repair_without_checkpoint_marks_damage_before_a_cut(
    files: LogFiles,
) -> None:
    build(files)
    (files.path / "checkpoint").unlink()
    files.flip(0, HEADER + 20)
    repair_twice(files)
    assert files.recover().cut_range is None
    assert files.values() == numbered(249, 1)


def test_dry_run_writes_nothing(files: LogFiles) -> None:
    build(files)
    files.flip(0, HEADER + 20)
    files.flip(1, 1)
    os.truncate(files.file(2), 30000)
    (files.path / "log.json").unlink()
    (files.path / "lock").unlink()
    before = files.snapshot()
    report = repair(files.path, dry_run=True)
    assert (report.sound, report.copies, report.dry_run) == (False, [], True)
    assert [action.file for action in report.actions] == [
        "log.json",
        files.file(1).name,
        files.file(2).name,
        files.file(0).name,
    ]
    assert files.snapshot() == before


@pytest.mark.parametrize("dry_run", [False, True])
def test_repair_of_an_open_log_is_refused(files: LogFiles, dry_run: bool) -> None:
    build(files)
    files.flip(0, HEADER + 20)
    before = files.snapshot()
    fd = os.open(files.path / "lock", os.O_RDWR)
    try:
        fcntl.fcntl(
            fd, fcntl.F_OFD_SETLK, struct.pack("@hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        )
        with pytest.raises(LogLockedError, match="has the log open"):
            repair(files.path, dry_run=dry_run)
    finally:
        os.close(fd)
    assert files.snapshot() == before
    assert repair(files.path).sound


def test_repair_of_a_path_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError):
        repair(tmp_path / "absent")
    (tmp_path / "directory").mkdir()
    with pytest.raises(NotALogError):
        repair(tmp_path / "directory")
    assert list((tmp_path / "directory").iterdir()) == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.EACCES, ReadOnlyError), (errno.EROFS, ReadOnlyError), (errno.EIO, IOFailureError)],
)
def test_refused_copy_raises_a_commitlog_error(
    files: LogFiles, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    build(files)
    files.flip(0, HEADER + 20)
    before = files.snapshot()

    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(module.os, "sendfile", refuse)
    with pytest.raises(kind):
        repair(files.path)
    assert files.snapshot() == before, "the half-made copy is gone"


def test_range_longer_than_one_skip_takes_several(
    files: LogFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FRAME_LIMIT", 1000)
    build(files)
    files.put(1, HEADER, b"\xff" * 90 * STEP)
    repair_twice(files)
    skips = [
        frame.length for frame in oracle.frames(files.get(1)) if frame.kind is oracle.Kind.SKIP
    ]
    assert skips == [1000, 1000, 880, 0]


def test_skip_to_the_end_of_the_last_segment_has_a_length(files: LogFiles) -> None:
    files.create(0)
    segment = files.directory.open_segment(0, writable=True)
    try:
        mark_skipped(segment, HEADER, SIZE, last=True)
    finally:
        segment.release()
    assert [frame.length for frame in oracle.frames(files.get(0))] == [SIZE - HEADER]


def wreck(files: LogFiles) -> None:
    """Build a log with damage for every step of repair."""
    build(files)
    (files.path / "log.json").write_bytes(b"{")
    files.flip(0, 1)
    files.flip(0, HEADER + 20)
    lose_id(files, 1)
    os.truncate(files.file(2), HEADER + 10 * STEP)
    files.full(5, numbered(10, 300))
    files.checkpoint(6 * SIZE, clean=True)


def wrecked(path: Path) -> Callable[[], RepairReport]:
    """Build such a log; return a function that repairs it."""
    wreck(LogFiles(path))
    return functools.partial(repair, path)


@every(2)
def test_repair_killed_at_any_step_can_be_repeated(tmp_path: Path, every: int) -> None:
    step, done = 1, False
    while not done:
        path = tmp_path / str(step)
        done = not killed_at(step, functools.partial(wrecked, path))
        files = LogFiles(path)
        originals = files.snapshot()
        report = repair(path)
        assert report.sound, (step, report)
        assert verify(path).sound
        assert files.values() == [*numbered(99, 1), *numbered(10, 200), *numbered(10, 300)]
        kept = [content for name, content in files.snapshot().items() if ".broken" in name]
        for name, content in originals.items():
            kept_whole = files.snapshot()[name] == content or content in kept
            assert kept_whole or name.endswith(".tmp") or name == "checkpoint", (
                f"{name} was changed without a copy"
            )
        files.directory.close()
        step += every
    assert step > 12


@pytest.mark.parametrize("name", ["DAILY", "HOURLY"])
def test_named_roll_cycle_is_rebuilt_with_the_identity(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=65536, roll_cycle=name) as log:
        for _ in range(3):
            log.append(b"x")
            log.roll()
    (path / "log.json").unlink()
    repair(path)
    with commitlog.open(path) as log:
        assert str(log.identity.roll_cycle) == f"{name} (UTC)"
        assert log.count() == 3


def test_roll_cycle_given_as_a_period_is_not_guessed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=65536, roll_cycle="90s") as log:
        log.append(b"x")
    (path / "log.json").write_text("{")
    with caplog.at_level("WARNING"):
        repair(path)
    assert "by size alone" in caplog.text
    with commitlog.open(path) as log:
        assert log.identity.roll_cycle is None
        assert log.count() == 1


@pytest.fixture
def cycled(tmp_path: Path) -> Path:
    """A log with a roll cycle given as a period, whose identity is lost."""
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=65536, roll_cycle=RollCycle("90s", epoch=7)) as log:
        log.append(b"x")
    (path / "log.json").unlink()
    return path


def test_given_roll_cycle_is_restored(cycled: Path) -> None:
    cycle = RollCycle("90s", epoch=7)
    repair(cycled, roll_cycle=cycle)
    with commitlog.open(cycled) as log:
        assert log.identity.roll_cycle == cycle
        assert log.count() == 1


def test_roll_cycle_that_contradicts_the_segments_is_refused(cycled: Path) -> None:
    before = sorted(cycled.iterdir())
    with pytest.raises(InvalidOptionError, match="did not roll by DAILY"):
        repair(cycled, roll_cycle=RollCycle("DAILY"))
    assert sorted(cycled.iterdir()) == before


def test_roll_cycle_for_a_valid_identity_is_refused(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log", segment_size=65536).close()
    with pytest.raises(InvalidOptionError, match="is valid and holds the roll cycle"):
        repair(tmp_path / "log", roll_cycle=RollCycle("DAILY"))

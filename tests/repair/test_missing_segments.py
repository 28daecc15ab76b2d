"""Gaps between segments: plausible gaps are filled, and foreign files far ahead are moved away."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import DiskFullError
from commitlog.repair.repair import repair
from commitlog.repair.verification import verify
from tests.log_files import HEADER, SIZE, UUID, LogFiles, numbered
from tests.oracle import segment_file as oracle
from tests.repair.test_repair import build

FAR = 2000


def stray(files: LogFiles, base: int, content: bytes | None = None) -> Path:
    """Create a file of another log, named by a position."""
    foreign = oracle.build_header(log_uuid=bytes(16), segment_id=5, base=base % 2**63, size=SIZE)
    file = files.path / f"{base:020d}.seg"
    file.write_bytes(foreign.ljust(SIZE, b"\0") if content is None else content)
    return file


@pytest.mark.parametrize("content", [None, b"", b"garbage", bytes(SIZE)])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("base", [FAR * SIZE, 2**63, 2**32 * SIZE, 10**20 - SIZE])
def test_foreign_segment_far_ahead_is_moved_away(
    files: LogFiles, base: int, clean: bool, content: bytes | None
) -> None:
    end = build(files)
    files.checkpoint(end, clean=clean)
    file = stray(files, base, content)
    assert not verify(files.path).sound
    planned = repair(files.path, dry_run=True)
    assert [(action.file, action.what[:10]) for action in planned.actions] == [
        (file.name, "moved away")
    ]
    report = repair(files.path)
    assert report.sound, report
    assert [action.file for action in report.actions] == [file.name]
    assert report.copies == [f"{file}.broken"]
    assert files.numbers() == [0, 1, 2, 3]
    assert files.values() == numbered(250)
    assert repair(files.path).actions == []


def test_own_segment_far_ahead_is_moved_away(files: LogFiles) -> None:
    build(files)
    files.full(FAR, numbered(10))
    report = repair(files.path)
    assert report.sound
    assert files.numbers() == [0, 1, 2, 3]
    assert Path(f"{files.file(FAR)}.broken").exists()


def test_gap_before_valid_segments_is_one_action(files: LogFiles) -> None:
    build(files)
    (files.path / "checkpoint").unlink()
    files.full(FAR, numbered(10, 250))
    began_s = time.process_time()
    report = repair(files.path, dry_run=True)
    assert time.process_time() - began_s < 5
    assert (report.actions[0].position, report.actions[0].resume_position) == (4 * SIZE, FAR * SIZE)
    assert len(report.actions) < 4


def test_gap_larger_than_the_disk_is_refused(files: LogFiles) -> None:
    build(files)
    (files.path / "checkpoint").unlink()
    files.full(2**32 - 1, numbered(10, 250))
    before = files.numbers()
    assert len(repair(files.path, dry_run=True).actions) < 4
    with pytest.raises(DiskFullError, match="are missing"):
        repair(files.path)
    assert files.numbers() == before


def test_segments_that_fill_a_gap_are_sparse(files: LogFiles) -> None:
    build(files)
    files.full(8, numbered(10, 250))
    files.checkpoint(9 * SIZE, clean=True)
    assert repair(files.path).sound
    assert all(files.file(number).stat().st_blocks * 512 <= 4 * HEADER for number in range(4, 8))
    assert all(files.file(number).stat().st_size == SIZE for number in range(4, 8))
    assert files.values() == numbered(260)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_missing_segments_up_to_the_end_are_replaced(files: LogFiles, left: int) -> None:
    end = build(files)
    for number in range(left, 4):
        files.file(number).unlink()
    report = repair(files.path)
    assert report.sound, report
    assert verify(files.path).sound
    with commitlog.open(files.path) as log:
        assert log.append(b"new") >= end, "positions never come again"
    assert files.values() == [*numbered(100 * left), b"new"]


@pytest.mark.parametrize("base", [FAR * SIZE, 2**63, 10**20 - SIZE])
@pytest.mark.parametrize("clean", [True, False])
def test_log_with_a_foreign_segment_is_read_and_appended_to(
    files: LogFiles, base: int, clean: bool
) -> None:
    end = build(files)
    files.checkpoint(end, clean=clean)
    stray(files, base)
    with commitlog.open(files.path, mode="r") as log, log.tailer() as tailer:
        assert [bytes(record.value) for record in tailer] == numbered(250)
    with commitlog.open(files.path) as log:
        assert log.append(b"new") == end
        assert log.count() == 251
    with commitlog.open(files.path, mode="r") as log, log.tailer() as tailer:
        assert [bytes(record.value) for record in tailer] == [*numbered(250), b"new"]


def test_empty_segment_far_ahead_is_removed_by_the_next_open(files: LogFiles) -> None:
    end = build(files)
    files.create(FAR)
    with commitlog.open(files.path) as log:
        assert log.append(b"new") == end
    assert FAR not in files.numbers()
    assert verify(files.path).sound


def test_lost_identity_is_rebuilt_beside_a_foreign_segment(files: LogFiles) -> None:
    build(files)
    (files.path / "log.json").unlink()
    stray(files, 10**20 - SIZE)
    assert repair(files.path).sound
    assert UUID.hex() == verify(files.path).uuid

"""A segment file copied away from its log is read like a log."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.errors import (
    CorruptRecordError,
    CorruptSegmentError,
    NotALogError,
    PositionError,
    ReadOnlyError,
    UnsupportedVersionError,
)
from commitlog.log.parts import parts_of
from tests.setups import HEADER, SEGMENT, Logs


@pytest.fixture
def path(logs: Logs) -> Path:
    """A closed log of three segments: two are sealed, the third is live."""
    log = logs.open()
    for number in range(30):
        log.append(b"%02d" % number * 100, key=b"%d" % (number % 3))
        if number % 10 == 9 and number < 29:
            log.roll()
    parts_of(log).writer.allocation.sealed_below()  # type: ignore[union-attr]
    log.close()
    return Path(log.path)


def segment(path: Path, number: int) -> Path:
    return path / f"{number * SEGMENT:020d}.seg"


def values(numbers: range) -> list[bytes]:
    return [b"%02d" % number * 100 for number in numbers]


@pytest.mark.parametrize("name", [None, "x.seg"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_copied_segment_is_read_under_any_name(
    path: Path, tmp_path: Path, number: int, name: str | None
) -> None:
    there = tmp_path / "elsewhere"
    there.mkdir()
    copy = there / (name or segment(path, number).name)
    shutil.copy(segment(path, number), copy)
    expected = values(range(number * 10, number * 10 + 10))
    with commitlog.open(copy, "r") as log:
        assert list(log.tailer().values()) == expected
        assert [record.value for record in log.tailer(direction="backward")] == expected[::-1]
        assert log.first_position == number * SEGMENT + HEADER
        assert log.count() == 10
        assert log.tailer().seek(key=b"1")
        assert log.read(log.last_position or 0).value == expected[-1]
        assert log.identity.segment_size == SEGMENT
        # The seal has the first sequence of its segment; the live segment has no seal.
        assert log.first_sequence == (number * 10 if number < 2 else 0)
        with pytest.raises(PositionError):
            log.tailer(start=7 * SEGMENT)
    assert sorted(item.name for item in there.iterdir()) == [copy.name]


def test_segment_in_its_log_is_read_alone_and_writes_no_file(path: Path) -> None:
    # Keep the set of files constant during the test.
    with commitlog.open(path, tuning=commitlog.Tuning(allocate_ahead=0)) as writer:
        before = sorted(item.name for item in path.iterdir())
        with commitlog.open(segment(path, 1), "r") as log:
            assert list(log.tailer().values()) == values(range(10, 20))
            writer.append(b"later")
            assert list(log.tailer().values()) == values(range(10, 20))
            with pytest.raises(ReadOnlyError, match="without a name"):
                log.tailer("name")
        assert sorted(item.name for item in path.iterdir()) == before


def test_segment_copied_during_a_claim_ends_at_the_claim(logs: Logs, tmp_path: Path) -> None:
    log = logs.open()
    log.append(b"whole")
    with log.claim(100):
        log.append(b"behind the claim")
        shutil.copy(segment(Path(log.path), 0), tmp_path / "x.seg")
    with commitlog.open(tmp_path / "x.seg", "r") as copy:
        assert list(copy.tailer().values()) == [b"whole"]


@pytest.mark.parametrize("number", [1, 2])
def test_damage_in_a_copied_segment_is_raised_or_skipped(
    path: Path, tmp_path: Path, number: int
) -> None:
    copy = tmp_path / "x.seg"
    content = bytearray(segment(path, number).read_bytes())
    content[HEADER + 700] ^= 1
    copy.write_bytes(content)
    with commitlog.open(copy, "r") as log:
        with pytest.raises(CorruptRecordError):
            list(log.tailer())
        assert len(list(log.tailer(on_damage="skip"))) == 9


def damaged(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.parametrize(
    ("change", "expected", "said"),
    [
        (lambda content: b"", NotALogError, "not a segment"),
        (lambda content: b"some text\n", NotALogError, "not a segment"),
        (lambda content: damaged(content, 0), NotALogError, "not a segment"),
        (lambda content: damaged(content, 40), CorruptSegmentError, "header is damaged"),
        (lambda content: content[:100], CorruptSegmentError, "header is damaged|its header says"),
        (lambda content: content[:8192], CorruptSegmentError, "copy it again"),
        (lambda content: content[:8] + b"\x09" + content[9:], UnsupportedVersionError, "newer"),
    ],
    ids=["empty", "text", "magic", "header", "page", "short", "version"],
)
def test_invalid_segment_file_is_refused(
    path: Path, tmp_path: Path, change: Any, expected: type[Exception], said: str
) -> None:
    copy = tmp_path / "x.seg"
    copy.write_bytes(change(segment(path, 1).read_bytes()))
    with pytest.raises(expected, match=said):
        commitlog.open(copy, "r")


@pytest.mark.parametrize("mode", ["a", "x"])
def test_lone_segment_cannot_be_opened_for_writing(path: Path, mode: str) -> None:
    with pytest.raises(NotALogError, match="a file, not a log"):
        commitlog.open(segment(path, 1), mode)

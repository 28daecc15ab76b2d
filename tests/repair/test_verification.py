"""Verification: what it finds and where, and that it changes no file."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
from pathlib import Path

import pytest

import commitlog
from commitlog import Options
from commitlog._kernel.segments import crc32c
from commitlog.errors import (
    CorruptSegmentError,
    LogNotFoundError,
    NotALogError,
    UnsupportedVersionError,
)
from commitlog.log.parts import parts_of
from commitlog.repair import verification
from commitlog.repair.reports import Damage, TornTail, VerifyReport
from commitlog.repair.survey import INDEX_REMEDY, SEAL_BROKEN, SEAL_WRONG
from commitlog.repair.verification import verify
from tests.log_files import HEADER, SIZE, UUID, LogFiles, numbered
from tests.oracle import segment_file as oracle

STEP = 32  # bytes of one record of `numbered`
NOT_A_FRAME = "not a frame, or its CRC does not match"
ZEROS = "zeros where a frame should be"


def verify_unchanged(files: LogFiles) -> VerifyReport:
    """Verify, and check that no file changed."""
    before = files.snapshot()
    report = verify(files.path)
    assert files.snapshot() == before
    return report


def two_segments(files: LogFiles) -> int:
    """Build a cleanly closed log: a full segment, a live one, one ahead of need. Return the end
    position.
    """
    files.full(0, numbered(100))
    files.create(1, opened=True)
    end = SIZE + files.records(1, numbered(50, 100))
    files.create(2)
    files.checkpoint(end, clean=True)
    return end


def hold(files: LogFiles) -> int:
    """Hold the log's lock as a writer does, until the returned descriptor is closed."""
    fd = os.open(files.path / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("@hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    return fd


def test_verification_of_a_sound_log_finds_no_problem(files: LogFiles) -> None:
    end = two_segments(files)
    report = verify_unchanged(files)
    assert (report.sound, report.records, report.end, report.clean, report.live) == (
        True,
        150,
        end,
        True,
        False,
    )
    assert (report.checkpoint, report.torn, report.damage) == (end, None, [])
    assert [(segment.base, segment.records, segment.end) for segment in report.segments] == [
        (0, 100, SIZE),
        (SIZE, 50, end),
        (2 * SIZE, 0, 0),
    ]
    assert report.skipped_bytes == SIZE - HEADER - 100 * STEP


def test_empty_log_is_sound(files: LogFiles) -> None:
    assert verify_unchanged(files).sound


@pytest.mark.parametrize("number", [0, 1])
def test_flipped_bit_is_reported_and_scan_continues(files: LogFiles, number: int) -> None:
    two_segments(files)
    files.flip(number, HEADER + 10 * STEP + 20)
    files.flip(number, HEADER + 30 * STEP)
    report = verify_unchanged(files)
    base = number * SIZE + HEADER
    assert report.damage == [
        Damage(base + 10 * STEP, base + 11 * STEP, NOT_A_FRAME),
        Damage(base + 30 * STEP, base + 31 * STEP, NOT_A_FRAME),
    ]
    assert (report.sound, report.records, report.torn) == (False, 148, None)


def test_damage_at_end_of_closed_log_extends_to_the_end(files: LogFiles) -> None:
    end = two_segments(files)
    files.flip(1, end - SIZE - 8)
    assert verify_unchanged(files).damage == [Damage(end - STEP, end, NOT_A_FRAME)]


def test_zeroed_end_of_a_full_segment_is_damage(files: LogFiles) -> None:
    two_segments(files)
    files.put(0, HEADER + 90 * STEP, bytes(SIZE - HEADER - 90 * STEP))
    report = verify_unchanged(files)
    assert report.damage == [Damage(HEADER + 90 * STEP, SIZE, "zeros where a frame should be")]
    assert report.records == 140


def test_claim_below_the_checkpoint_is_damage(files: LogFiles) -> None:
    two_segments(files)
    files.claim(0, HEADER + 5 * STEP, 24)
    assert verify_unchanged(files).damage == [
        Damage(HEADER + 5 * STEP, HEADER + 6 * STEP, "a claim that was never published")
    ]


def test_torn_tail_is_no_damage(files: LogFiles) -> None:
    files.create(0)
    torn = files.records(0, numbered(10))
    behind = files.records(0, numbered(5, 10), torn + 64)
    files.create(1, opened=True)
    last = files.records(1, numbered(3))
    files.checkpoint(HEADER + 5 * STEP)
    report = verify_unchanged(files)
    assert (report.sound, report.clean, report.records, report.end) == (True, False, 10, torn)
    assert report.torn == TornTail(torn, SIZE + last, 8)
    assert behind < SIZE


def test_unwritten_frame_is_torn_tail_only_above_checkpoint(files: LogFiles) -> None:
    files.create(0)
    files.records(0, numbered(10))
    for number in (2, 8):
        files.put(0, HEADER + number * STEP, bytes(STEP))
    files.checkpoint(HEADER + 5 * STEP)
    report = verify_unchanged(files)
    assert report.damage == [Damage(HEADER + 2 * STEP, HEADER + 3 * STEP, ZEROS)]
    assert report.torn == TornTail(HEADER + 8 * STEP, HEADER + 10 * STEP, 1)


def test_damage_before_whole_frames_is_no_torn_tail(files: LogFiles) -> None:
    files.create(0)
    files.records(0, numbered(10))
    files.flip(0, HEADER + 8 * STEP + 20)
    files.checkpoint(HEADER + 5 * STEP)
    report = verify_unchanged(files)
    assert report.damage == [Damage(HEADER + 8 * STEP, HEADER + 9 * STEP, NOT_A_FRAME)]
    assert (report.torn, report.records) == (None, 9)


def test_damage_across_the_checkpoint_ends_there(files: LogFiles) -> None:
    files.create(0)
    files.records(0, numbered(10))
    files.put(0, HEADER + 4 * STEP, bytes(2 * STEP))
    files.checkpoint(HEADER + 5 * STEP)
    report = verify_unchanged(files)
    assert report.damage == [Damage(HEADER + 4 * STEP, HEADER + 5 * STEP, ZEROS)]
    assert report.torn == TornTail(HEADER + 5 * STEP, HEADER + 10 * STEP, 4)


def test_bytes_after_a_clean_end_are_reported_as_torn_tail(files: LogFiles) -> None:
    end = two_segments(files)
    files.put(1, end - SIZE + 400, b"stray")
    report = verify_unchanged(files)
    assert report.torn == TornTail(end, end + 408, 0)
    assert report.sound


def test_bad_frame_without_checkpoint_is_damage_if_frames_follow(files: LogFiles) -> None:
    two_segments(files)
    (files.path / "checkpoint").unlink()
    files.flip(0, HEADER + 10 * STEP + 20)
    report = verify_unchanged(files)
    assert report.damage == [Damage(HEADER + 10 * STEP, HEADER + 11 * STEP, NOT_A_FRAME)]
    assert (report.torn, report.checkpoint, report.records) == (None, None, 149)


def test_missing_segments_are_holes(files: LogFiles) -> None:
    two_segments(files)
    files.full(4, numbered(3))
    report = verify_unchanged(files)
    assert (report.holes, report.sound) == ([(3 * SIZE, 4 * SIZE)], False)


def test_missing_last_segments_are_a_problem(files: LogFiles) -> None:
    two_segments(files)
    files.file(1).unlink()
    files.file(2).unlink()
    report = verify_unchanged(files)
    assert not report.sound
    assert "the last segments are missing" in report.problems[0]


def test_first_segment_above_zero_is_no_hole(files: LogFiles) -> None:
    two_segments(files)
    files.file(0).unlink()
    report = verify_unchanged(files)
    assert (report.sound, report.records) == (True, 50)


def test_damaged_header_is_reported_and_other_segments_are_read(files: LogFiles) -> None:
    two_segments(files)
    files.flip(0, 35)
    report = verify_unchanged(files)
    assert "header is damaged" in report.segments[0].problems[0]
    assert (report.sound, report.records, report.damage) == (False, 50, [])


def test_truncated_segment_is_reported(files: LogFiles) -> None:
    two_segments(files)
    os.truncate(files.file(0), 20000)
    assert "shorter than its header says" in verify_unchanged(files).segments[0].problems[0]


def test_segment_of_another_log_is_reported(files: LogFiles) -> None:
    two_segments(files)
    header = oracle.build_header(log_uuid=bytes(16), segment_id=1, base=0, size=SIZE)
    files.file(0).write_bytes(header.ljust(SIZE, b"\0"))
    assert "another log" in verify_unchanged(files).segments[0].problems[0]


def test_segment_of_a_newer_format_is_reported(files: LogFiles) -> None:
    two_segments(files)
    header = oracle.build_header(log_uuid=UUID, segment_id=1, base=0, size=SIZE, major=2)
    files.file(0).write_bytes(header.ljust(SIZE, b"\0"))
    assert "newer format" in verify_unchanged(files).segments[0].problems[0]


def test_file_named_by_an_impossible_base_is_reported(files: LogFiles) -> None:
    two_segments(files)
    shutil.copy(files.file(1), files.path / f"{SIZE + 1:020d}.seg")
    assert "no segment" in verify_unchanged(files).problems[0]


def seal(**changed: int) -> oracle.Seal:
    fields = {
        "end": HEADER + 100 * STEP,
        "first_sequence": 0,
        "record_count": 100,
        "first_timestamp_ns": 7,
        "last_timestamp_ns": 7,
        "largest_timestamp_ns": 7,
        "crc_ok": True,
    }
    return oracle.Seal(**{**fields, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (seal(), []),
        (seal(crc_ok=False), [SEAL_BROKEN]),
        (seal(record_count=99), [SEAL_WRONG]),
        (seal(end=HEADER + 99 * STEP), [SEAL_WRONG]),
        (seal(end=HEADER), [SEAL_BROKEN]),
    ],
)
def test_seal_that_contradicts_the_frames_is_reported(
    files: LogFiles, written: oracle.Seal, problem: list[str]
) -> None:
    end = two_segments(files)
    frames = files.get(0, HEADER)
    files.create(0, opened=True, seal=written)
    files.put(0, HEADER, frames)
    report = verify_unchanged(files)
    assert report.segments[0].problems == problem
    assert (report.sound, report.end) == (not problem, end)


def test_bad_frame_but_no_claim_of_a_live_log_is_damage(files: LogFiles) -> None:
    files.create(0)
    claim = files.records(0, numbered(10))
    after = files.records(0, numbered(5, 10), files.claim(0, claim, 40) + 16)
    files.checkpoint(HEADER + 5 * STEP)
    fd = hold(files)
    try:
        report = verify_unchanged(files)
        assert (report.live, report.sound, report.records, report.torn, report.end) == (
            True,
            True,
            15,
            None,
            after,
        )
        files.flip(0, after - 8)
        report = verify_unchanged(files)
        assert report.damage == [Damage(after - STEP, after, NOT_A_FRAME)]
    finally:
        os.close(fd)
    assert verify(files.path).torn is not None


def test_log_opened_during_verify_is_verified_again(
    files: LogFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.create(0)
    files.records(0, numbered(5), files.claim(0, HEADER, 40) + 16)
    files.checkpoint(HEADER)
    answers = [False, True]
    monkeypatch.setattr(verification, "is_live", lambda _fd: answers.pop(0))
    report = verify_unchanged(files)
    assert (report.live, report.torn, report.records, answers) == (True, None, 5, [])


def test_incomplete_seal_of_a_live_log_is_no_problem(files: LogFiles) -> None:
    two_segments(files)
    files.put(0, 304, b"\1\2\3\4\1")
    fd = hold(files)
    try:
        assert verify_unchanged(files).sound
    finally:
        os.close(fd)
    assert not verify_unchanged(files).sound


def test_lost_identity_is_reported_and_read_from_segments(files: LogFiles) -> None:
    end = two_segments(files)
    (files.path / "log.json").write_text("{")
    report = verify_unchanged(files)
    assert (report.sound, report.uuid, report.segment_size, report.end) == (
        False,
        UUID.hex(),
        SIZE,
        end,
    )
    assert "log.json is not JSON" in report.problems[0]
    (files.path / "log.json").unlink()
    assert "log.json is missing" in verify_unchanged(files).problems[0]


def test_verify_of_a_path_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError):
        verify(tmp_path / "absent")
    (tmp_path / "file").write_text("text")
    with pytest.raises(NotALogError, match="file"):
        verify(tmp_path / "file")
    (tmp_path / "directory").mkdir()
    with pytest.raises(NotALogError, match="log.json is missing"):
        verify(tmp_path / "directory")


def test_log_of_a_newer_format_is_refused(files: LogFiles) -> None:
    text = (files.path / "log.json").read_text()
    (files.path / "log.json").write_text(text.replace('"major": 1', '"major": 2'))
    with pytest.raises(UnsupportedVersionError):
        verify_unchanged(files)


def test_log_cut_by_recovery_is_sound(files: LogFiles) -> None:
    files.create(0)
    cut = files.records(0, numbered(10))
    files.records(0, numbered(5, 10), cut + 64)
    files.recover(checkpoint=files.checkpoint(HEADER))
    report = verify_unchanged(files)
    assert (report.sound, report.torn, report.records, report.end) == (True, None, 10, cut)


def test_damage_kept_by_recovery_is_found_with_position(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, numbered(10))
    files.flip(0, HEADER + 3 * STEP + 20)
    files.recover(checkpoint=files.checkpoint(end))
    assert verify_unchanged(files).damage == [
        Damage(HEADER + 3 * STEP, HEADER + 4 * STEP, NOT_A_FRAME)
    ]


# --- a segment apart from its log -----------------------------------------------------------------


def alone(files: LogFiles, number: int, to: Path) -> VerifyReport:
    """Verify a copy of a segment, and check that no file changed or was created."""
    to.mkdir(exist_ok=True)
    shutil.copy(files.file(number), to / "x.seg")
    before = (to / "x.seg").read_bytes()
    report = verify(to / "x.seg")
    assert [(file.name, file.read_bytes()) for file in to.iterdir()] == [("x.seg", before)]
    assert (report.kind, report.path, report.uuid, report.live) == (
        "segment",
        str(to / "x.seg"),
        UUID.hex(),
        False,
    )
    return report


def test_lone_segment_is_reported_as_in_its_log(tmp_path: Path, files: LogFiles) -> None:
    two_segments(files)
    whole = verify(files.path)
    for number in range(3):
        for report in (alone(files, number, tmp_path / "elsewhere"), verify(files.file(number))):
            assert report.segments == [whole.segments[number]]
            assert (report.sound, report.torn, report.holes, report.notes) == (True, None, [], [])
            assert (report.clean, report.checkpoint) == (
                (True, SIZE) if number == 0 else (False, None)
            )


@pytest.mark.parametrize("number", [0, 1])
def test_damage_in_a_lone_segment_is_reported_as_in_its_log(
    tmp_path: Path, files: LogFiles, number: int
) -> None:
    two_segments(files)
    files.flip(number, HEADER + 10 * STEP + 20)
    files.flip(number, HEADER + 30 * STEP)
    report = alone(files, number, tmp_path / "elsewhere")
    assert report.segments == [verify(files.path).segments[number]]
    assert [damage.position for damage in report.damage] == [
        number * SIZE + HEADER + at * STEP for at in (10, 30)
    ]
    assert (report.sound, report.torn) == (False, None)


def test_segment_copied_during_claim_has_torn_tail(tmp_path: Path, files: LogFiles) -> None:
    files.create(1, opened=True)
    claim = files.records(1, numbered(5))
    end = files.records(1, numbered(3), files.claim(1, claim, 40))
    report = alone(files, 1, tmp_path / "elsewhere")
    assert report.torn == TornTail(SIZE + claim, SIZE + end, 3)
    assert (report.sound, report.clean, report.records, report.end, report.checkpoint) == (
        True,
        False,
        5,
        SIZE + claim,
        None,
    )


def test_seal_of_a_lone_segment_is_compared_with_its_frames(
    tmp_path: Path, files: LogFiles
) -> None:
    two_segments(files)
    frames = files.get(0, HEADER)
    for written, problem in (
        (seal(), []),
        (seal(crc_ok=False), [SEAL_BROKEN]),
        (seal(record_count=99), [SEAL_WRONG]),
    ):
        files.create(0, opened=True, seal=written)
        files.put(0, HEADER, frames)
        assert alone(files, 0, tmp_path / "elsewhere").segments[0].problems == problem


def test_verify_of_a_lone_segment_ignores_other_files(files: LogFiles) -> None:
    two_segments(files)
    (files.path / "joining").write_bytes(b"not a note")
    (files.path / f"{SIZE + 1:020d}.seg").write_bytes(b"not a segment")
    files.file(0).unlink()
    assert not verify(files.path).sound
    report = verify(files.file(1))
    assert (report.sound, report.problems, report.joining, report.records) == (True, [], False, 50)


@pytest.mark.parametrize(
    ("length", "expected", "said"),
    [
        (0, NotALogError, "not a segment"),
        (100, CorruptSegmentError, "header is damaged|its header says"),
        (8192, CorruptSegmentError, "again"),
    ],
)
def test_truncated_lone_segment_is_refused(
    tmp_path: Path, files: LogFiles, length: int, expected: type[Exception], said: str
) -> None:
    two_segments(files)
    (tmp_path / "x.seg").write_bytes(files.get(0, 0, length))
    with pytest.raises(expected, match=said):
        verify(tmp_path / "x.seg")


# --- indexes --------------------------------------------------------------------------------------


def indexed(path: Path) -> Path:
    """Build a closed log with a sealed segment; return the path of its index."""
    with commitlog.open(path, "a", Options(segment_size=SIZE)) as log:
        log.append_many(numbered(3000))
        assert parts_of(log).writer.allocation is not None
        parts_of(log).writer.allocation.sealed_below()
    return path / f"{0:020d}.idx"


@pytest.mark.parametrize(("at", "said"), [(None, None), (70, "is damaged"), (34, "is damaged")])
def test_damaged_index_is_noted_and_no_damage(
    tmp_path: Path, at: int | None, said: str | None
) -> None:
    file = indexed(tmp_path / "log")
    content = bytearray(file.read_bytes())
    if at is not None:
        content[at] ^= 1
    file.write_bytes(content)
    report = verify(tmp_path / "log")
    assert report.sound
    assert report.segments[0].notes == (
        [f"its index {file.name} {said}; {INDEX_REMEDY}"] if said else []
    )


def test_index_contradicting_seal_or_frames_is_reported(tmp_path: Path) -> None:
    file = indexed(tmp_path / "log")
    other = indexed(tmp_path / "other")
    sound = file.read_bytes()
    file.write_bytes(other.read_bytes())
    assert "does not match the segment" in verify(tmp_path / "log").segments[0].notes[0]
    body = sound[64:72] + sound[72:80] + struct.pack("<Q", HEADER + 8) + sound[88:]
    header = sound[:56] + struct.pack("<I", crc32c(body))
    file.write_bytes(header + struct.pack("<I", crc32c(header)) + body)
    assert "is damaged" in verify(tmp_path / "log").segments[0].notes[0]

"""Recovery after a system crash or with a dead pool: the log is cut at the first invalid frame, and
no valid frame is lost.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from commitlog._kernel import memory as kernel
from commitlog.errors import CorruptSegmentError, DiskFullError, IOFailureError, ReadOnlyError
from commitlog.recovery import Recovered
from commitlog.recovery import cut as cut_module
from commitlog.segment.blocks import make_solid
from tests.log_files import HEADER, SIZE, LogFiles, numbered
from tests.oracle import segment_file as oracle


def test_unclean_log_without_damage_keeps_every_record(files: LogFiles) -> None:
    files.full(0, numbered(10))
    files.create(1, opened=True)
    end = files.records(1, numbered(10, 10))
    end = files.skip(1, end, 64)
    files.create(2)
    recovered = files.recover(checkpoint=files.checkpoint(HEADER))
    assert recovered == Recovered("cut", (1, end), SIZE + end)
    assert files.numbers() == [0, 1, 2]
    assert files.values() == numbered(20)


def test_recovery_without_checkpoint_starts_at_first_segment(files: LogFiles) -> None:
    files.full(3, numbered(10))
    files.create(4, opened=True)
    end = files.records(4, numbered(5, 10))
    assert files.recover().tail == (4, end)


def test_torn_last_record_is_cut_and_zeroed(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, numbered(20))
    frame = oracle.build_frame(files.segment_id(0), end, b"x" * 500)
    files.put(0, end, frame[:300])
    recovered = files.recover(checkpoint=files.checkpoint(HEADER))
    assert recovered == Recovered("cut", (0, end), end, cut_range=(end, end + 304))
    assert files.get(0, end) == bytes(SIZE - end)
    assert not files.cut_file(0).exists()
    assert files.values() == numbered(20)


def test_cut_that_is_interrupted_leaves_a_prefix(
    files: LogFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the next recovery saves no less than this one has."""
    monkeypatch.setattr(cut_module, "_CHUNK", 4096)
    files.create(0)
    cut = files.records(0, numbered(20))
    files.put(0, cut, b"\xff" * 9000)
    before = files.get(0, cut)

    def stop(step: str) -> None:
        if step == "chunk zeroed":
            raise KeyboardInterrupt

    monkeypatch.setattr(cut_module, "failpoint", stop)
    with pytest.raises(KeyboardInterrupt):
        files.recover(checkpoint=files.checkpoint(HEADER))
    left = files.get(0, cut).rstrip(b"\0")
    assert left
    assert before.startswith(left)
    assert len(left) < 9000


@pytest.mark.parametrize("gap", ["zero", "claimed", "torn"])
def test_cut_saves_valid_frames_then_zeroes_and_removes_the_rest(
    files: LogFiles, gap: str, caplog: pytest.LogCaptureFixture
) -> None:
    files.create(0)
    cut = files.records(0, numbered(20))
    if gap == "claimed":
        files.claim(0, cut, 32)
    elif gap == "torn":
        files.put(0, files.record(0, cut, b"x" * 2000) - 1500, bytes(1000))
    behind = cut + (2016 if gap == "torn" else 32)
    after = files.skip(0, files.records(0, numbered(10, 20), behind), 0)
    assert after == SIZE
    files.create(1, opened=True)
    second_end = files.records(1, numbered(10, 30))
    files.create(2)
    for number in (0, 1):
        (files.path / f"{number * SIZE:020d}.idx").write_bytes(b"index")
    first, second = files.get(0), files.get(1)
    recovered = files.recover(checkpoint=files.checkpoint(HEADER))
    assert recovered == Recovered(
        "cut", (0, cut), cut, cut_range=(cut, 2 * SIZE), saved_as=str(files.cut_file(0))
    )
    assert files.get(0) == first[:cut].ljust(SIZE, b"\0")
    assert files.numbers() == [0]
    assert not list(files.path.glob("*.idx"))
    assert files.values() == numbered(20)
    assert files.cut_file(0).read_bytes() == first[:HEADER] + bytes(cut - HEADER) + first[cut:]
    assert files.cut_file(1).read_bytes() == second[:second_end]
    assert f"{cut} to {2 * SIZE}" in caplog.text


def test_cut_range_keeps_its_blocks(files: LogFiles) -> None:
    files.directory.create_segment(0, opened_ns=1)
    before = files.file(0).stat().st_blocks
    files.put(0, HEADER + 8, b"\xff" * 30000)
    files.recover(checkpoint=files.checkpoint(HEADER))
    assert files.get(0, HEADER) == bytes(SIZE - HEADER)
    assert files.file(0).stat().st_blocks >= before >= SIZE // 512


@pytest.mark.parametrize("clean", [False, True])
def test_holes_of_a_copied_segment_get_blocks(files: LogFiles, clean: bool) -> None:
    files.create(0)
    end = files.records(0, numbered(3))
    os.truncate(files.file(0), end)
    os.truncate(files.file(0), SIZE)
    assert files.file(0).stat().st_blocks < SIZE // 512
    files.recover(checkpoint=files.checkpoint(end, clean=clean))
    assert files.file(0).stat().st_blocks >= SIZE // 512


def test_stale_records_never_reappear_after_new_appends(files: LogFiles) -> None:
    files.create(0)
    cut = files.records(0, numbered(20))
    files.records(0, numbered(20, 100), cut + 32)
    files.recover(checkpoint=files.checkpoint(HEADER))
    # The new record ends where a stale one began.
    files.record(0, cut, b"new value___")
    assert files.recover(checkpoint=files.checkpoint(HEADER)).tail == (0, cut + 32)
    assert files.values() == [*numbered(20), b"new value___"]


def test_frames_after_torn_start_of_a_later_segment_are_cut(files: LogFiles) -> None:
    files.full(0, numbered(10))
    files.create(1, opened=True)
    files.record(1, HEADER + 64, b"orphan")
    recovered = files.recover(checkpoint=files.checkpoint(HEADER))
    assert (recovered.tail, recovered.saved_as) == ((1, HEADER), str(files.cut_file(1)))
    assert files.numbers() == [0, 1]
    assert files.get(1, HEADER) == bytes(SIZE - HEADER)


def test_opened_segment_after_lost_frames_is_removed(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, numbered(4))
    files.create(1, opened=True)
    assert files.recover(checkpoint=files.checkpoint(HEADER)).tail == (0, end)
    assert files.numbers() == [0]


def test_log_with_a_full_last_segment_ends_at_segment_end(files: LogFiles) -> None:
    files.full(0, numbered(10))
    assert files.recover(checkpoint=files.checkpoint(HEADER)) == Recovered("cut", (0, SIZE), SIZE)


def test_seal_of_a_cut_segment_is_removed(files: LogFiles) -> None:
    files.create(0, opened=True, seal=oracle.Seal(9000, 0, 99, 1, 1, 1))
    end = files.records(0, numbered(4))
    files.recover(checkpoint=files.checkpoint(HEADER))
    header = oracle.read_header(files.get(0))
    assert (header.seal, header.opened) == (None, oracle.Opened(5, 0))
    assert files.values() == numbered(4)
    assert end < 9000


def test_damage_below_the_checkpoint_is_left_in_place(
    files: LogFiles, caplog: pytest.LogCaptureFixture
) -> None:
    files.create(0)
    damaged = files.records(0, numbered(5))
    middle = files.records(0, numbered(5, 5), damaged)
    files.flip(0, damaged + 17)
    end = files.records(0, numbered(5, 10), middle)
    before = files.get(0)
    recovered = files.recover(checkpoint=files.checkpoint(middle))
    assert (recovered.tail, recovered.cut_range) == ((0, end), None)
    assert files.get(0) == before
    assert f"damage at position {damaged}" in caplog.text


def test_checkpoint_inside_a_frame_does_not_cut_that_frame(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, [b"a" * 100, b"b" * 100])
    assert files.recover(checkpoint=files.checkpoint(HEADER + 48)).tail == (0, end)
    assert len(files.values()) == 2


def test_flushed_damage_above_checkpoint_is_not_cut_in_same_boot(
    files: LogFiles,
) -> None:
    files.create(0)
    damaged = files.records(0, numbered(5))
    flushed = files.records(0, numbered(5, 5), damaged)
    files.flip(0, damaged + 17)
    end = files.records(0, numbered(5, 10), flushed)
    files.open_cursors(mode=kernel.MODE_POOLED, flushed=flushed)
    before = files.get(0)
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert (recovered.case, recovered.tail, recovered.cut_range) == ("cut", (0, end), None)
    assert files.get(0) == before


def test_damaged_header_at_the_checkpoint_is_refused(files: LogFiles) -> None:
    files.full(0, numbered(5))
    files.flip(0, 33)
    before = files.snapshot()
    with pytest.raises(CorruptSegmentError, match="commitlog repair"):
        files.recover()
    assert files.snapshot() == before


def test_missing_segment_in_the_middle_is_refused(files: LogFiles) -> None:
    files.full(0, numbered(5))
    files.full(2, numbered(5))
    before = files.snapshot()
    with pytest.raises(CorruptSegmentError, match="missing") as refused:
        files.recover()
    assert refused.value.position == SIZE
    assert files.snapshot() == before


def test_unreadable_later_segment_is_saved_as_a_cut_file(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, numbered(5))
    files.full(1, numbered(5))
    files.flip(1, 33)
    content = files.get(1)
    assert files.recover(checkpoint=files.checkpoint(HEADER)).tail == (0, end)
    assert files.cut_file(1).read_bytes() == content
    assert files.numbers() == [0]


def test_existing_cut_file_is_never_overwritten(files: LogFiles) -> None:
    files.create(0)
    files.cut_file(0).write_bytes(b"from long ago")
    files.record(0, HEADER + 64, b"orphan")
    recovered = files.recover()
    assert recovered.saved_as == f"{files.cut_file(0)}.1"
    assert files.cut_file(0).read_bytes() == b"from long ago"


def test_temporary_file_of_a_killed_creation_is_swept(files: LogFiles) -> None:
    left = files.path / f".{0:020d}.seg.0123456789abcdef.tmp"
    left.write_bytes(b"half")
    files.recover()
    assert not left.exists()


def test_recovery_sets_watermarks_and_clears_the_failure(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, numbered(3))
    cursors = files.open_cursors()
    for cell in ("failed", "flusher"):
        cursors[cell] = 5
    files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert [cursors[cell] for cell in ("appended", "committed", "flushed")] == [end, end, end]
    assert [cursors[cell] for cell in ("failed", "flusher")] == [0, 0]
    assert cursors.tail == (0, end)
    assert cursors["state"] == kernel.STATE_RECOVERING


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("elsewhere")])
def test_cut_file_gets_next_name_if_its_name_is_taken(
    files: LogFiles, put: Callable[[Path], object]
) -> None:
    files.create(0)
    cut = files.records(0, numbered(3))
    files.records(0, numbered(3, 3), cut + 32)
    put(files.cut_file(0))
    recovered = files.recover(checkpoint=files.checkpoint(HEADER))
    assert recovered.saved_as == f"{files.cut_file(0)}.1"
    assert files.values() == numbered(3)


@pytest.mark.parametrize(
    ("cause", "error"),
    [("ENOSPC", DiskFullError), ("EROFS", ReadOnlyError), ("EIO", IOFailureError)],
)
def test_refused_allocation_raises_the_error_of_its_cause(
    files: LogFiles, monkeypatch: pytest.MonkeyPatch, cause: str, error: type[Exception]
) -> None:
    """No file system here turns read-only under an open descriptor, so the refusal is simulated."""

    def refuse(*_: object) -> None:
        raise OSError(getattr(errno, cause), os.strerror(getattr(errno, cause)))

    files.create(0)
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(error, match="blocks of the segment in use") as caught:
        make_solid(files.directory, 0)
    assert type(caught.value) is error

"""Recovery: both rules, every state that a kill can leave, and recovery killed itself at each of its steps."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from commitlog._kernel import cursors as kernel
from commitlog._kernel.segment import Segment
from commitlog.errors import CorruptSegmentError, LogLockedError
from commitlog.pool.shm import ShmBuffer, discard, find_buffers
from commitlog.recovery import Recovered, cut, place, recovery, unclean, walk
from tests.log_files import BOOT, HEADER, SIZE, UUID, LogFiles, log_files, numbered
from tests.oracle import segment_file as oracle

MODULES = (recovery, cut, place, unclean, walk)
POOLED = kernel.MODE_POOLED


@pytest.fixture
def files(tmp_path: Path) -> Iterator[LogFiles]:
    yield from log_files(tmp_path / "log")


def watch(hook: Callable[[str], None]) -> None:
    """Have every step of recovery told to `hook`. Only in a child that ends with the test, or under `monkeypatch`."""
    for module in MODULES:
        if hasattr(module, "passed"):
            module.passed = hook  # type: ignore[attr-defined]


# --- empty and clean -------------------------------------------------------------------------------------------------


def test_a_log_without_segments_gets_its_first_one_opened(files: LogFiles) -> None:
    recovered = files.recover()
    assert recovered == Recovered("empty", (0, HEADER), HEADER)
    assert oracle.read_header(files.get(0)).opened is not None
    assert files.values() == []


def test_a_log_that_lost_all_segments_goes_on_behind_them(files: LogFiles, caplog: pytest.LogCaptureFixture) -> None:
    recovered = files.recover(checkpoint=files.checkpoint(2 * SIZE + 5000))
    assert (recovered.case, recovered.tail) == ("empty", (3, HEADER))
    assert "missing" in caplog.text


def test_a_clean_log_opens_at_its_end_and_nothing_changes(files: LogFiles) -> None:
    files.full(0, numbered(10))
    files.create(1, opened=True)
    end = files.records(1, numbered(5, 10))
    files.create(2)
    before = files.snapshot()
    recovered = files.recover(checkpoint=files.checkpoint(SIZE + end, clean=True))
    assert recovered == Recovered("clean", (1, end), SIZE + end)
    after = files.snapshot()
    after.pop("checkpoint")
    assert after == before


@pytest.mark.parametrize("position", [SIZE, SIZE + HEADER])
@pytest.mark.parametrize("ahead", [False, True])
def test_a_clean_log_that_ends_with_its_segment_rests_at_the_segments_end(files: LogFiles, position: int, ahead: bool) -> None:
    files.full(0, numbered(10))
    if ahead:
        files.create(1)
    recovered = files.recover(checkpoint=files.checkpoint(position, clean=True))
    assert (recovered.case, recovered.tail, recovered.end) == ("clean", (0, SIZE), SIZE)


def test_a_clean_log_rests_in_the_segment_that_a_roll_has_opened(files: LogFiles) -> None:
    files.full(0, numbered(10))
    files.create(1, opened=True)
    assert files.recover(checkpoint=files.checkpoint(SIZE, clean=True)).tail == (1, HEADER)


def test_a_clean_log_of_a_thousand_segments_opens_touching_a_handful(files: LogFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1000):
        with files.file(number).open("wb") as file:
            file.truncate(SIZE)
    files.full(998, numbered(3))
    files.create(999, opened=True)
    end = files.records(999, numbered(3))
    touched: list[str] = []
    opens: list[int] = []
    watching = True
    sys.addaudithook(lambda event, args: touched.append(str(args[0])) if watching and event == "open" else None)
    original = Segment.open
    monkeypatch.setattr(
        place.LogDirectory,
        "open_segment",
        lambda self, number, writable: opens.append(number) or original(self.fd, self.path, number, SIZE, UUID, writable),
    )
    recovered = files.recover(checkpoint=files.checkpoint(999 * SIZE + end, clean=True))
    watching = False
    assert (recovered.case, recovered.tail) == ("clean", (999, end))
    assert len([name for name in touched if name.endswith(".seg")]) + len(opens) <= 5, (touched, opens)


def test_a_clean_mark_that_contradicts_the_next_cell_is_not_believed(files: LogFiles) -> None:
    files.create(0)
    middle = files.records(0, numbered(5))
    end = files.records(0, numbered(5, 5), middle)
    recovered = files.recover(checkpoint=files.checkpoint(middle, clean=True))
    assert (recovered.case, recovered.tail, recovered.cut_range) == ("cut", (0, end), None)
    assert files.values() == numbered(10)


def test_a_clean_mark_that_contradicts_a_later_segment_is_not_believed(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, numbered(5))
    files.create(1)
    files.record(1, HEADER, b"stale")
    recovered = files.recover(checkpoint=files.checkpoint(end, clean=True))
    assert (recovered.case, recovered.tail, recovered.cut_range) == ("cut", (0, end), (end, 2 * SIZE))
    assert files.numbers() == [0]


def test_missing_last_segments_leave_what_is_there_untouched(files: LogFiles, caplog: pytest.LogCaptureFixture) -> None:
    files.full(0, numbered(10))
    files.create(1, opened=True)
    end = files.records(1, numbered(5, 10))
    before = files.snapshot()
    recovered = files.recover(checkpoint=files.checkpoint(5 * SIZE + 9000, clean=True))
    assert (recovered.case, recovered.tail) == ("cut", (1, end))
    assert recovered.cut_range is None
    after = files.snapshot()
    after.pop("checkpoint")
    assert after == before
    assert "do not reach it" in caplog.text


def test_missing_last_segments_and_damage_before_them_end_the_log_at_the_segments_end(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, numbered(50))
    files.flip(0, end - 8)
    before = files.get(0)
    assert files.recover(checkpoint=files.checkpoint(3 * SIZE)).tail == (0, SIZE)
    assert files.get(0) == before


# --- cut -------------------------------------------------------------------------------------------------------------


def test_an_unclean_log_that_is_whole_keeps_everything(files: LogFiles) -> None:
    files.full(0, numbered(10))
    files.create(1, opened=True)
    end = files.records(1, numbered(10, 10))
    end = files.skip(1, end, 64)
    files.create(2)
    recovered = files.recover(checkpoint=files.checkpoint(HEADER))
    assert recovered == Recovered("cut", (1, end), SIZE + end)
    assert files.numbers() == [0, 1, 2]
    assert files.values() == numbered(20)


def test_a_log_without_a_checkpoint_is_read_from_its_first_segment(files: LogFiles) -> None:
    files.full(3, numbered(10))
    files.create(4, opened=True)
    end = files.records(4, numbered(5, 10))
    assert files.recover().tail == (4, end)


def test_a_half_written_last_record_is_cut_and_zeroed(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, numbered(20))
    frame = oracle.build_frame(files.segment_id(0), end, b"x" * 500)
    files.put(0, end, frame[:300])
    recovered = files.recover(checkpoint=files.checkpoint(HEADER))
    assert recovered == Recovered("cut", (0, end), end, cut_range=(end, end + 304))
    assert files.get(0, end) == bytes(SIZE - end)
    assert not files.cut_file(0).exists()
    assert files.values() == numbered(20)


@pytest.mark.parametrize("gap", ["zero", "claimed", "damaged"])
def test_a_cut_saves_valid_frames_zeroes_and_removes_what_follows(files: LogFiles, gap: str, caplog: pytest.LogCaptureFixture) -> None:
    files.create(0)
    cut = files.records(0, numbered(20))
    if gap == "claimed":
        files.claim(0, cut, 32)
    elif gap == "damaged":
        files.record(0, cut, b"0123456789")
        files.flip(0, cut + 20)
    after = files.skip(0, files.records(0, numbered(10, 20), cut + 32), 0)
    assert after == SIZE
    files.create(1, opened=True)
    second_end = files.records(1, numbered(10, 30))
    files.create(2)
    for number in (0, 1):
        (files.path / f"{number * SIZE:020d}.idx").write_bytes(b"index")
    first, second = files.get(0), files.get(1)
    recovered = files.recover(checkpoint=files.checkpoint(HEADER))
    assert recovered == Recovered("cut", (0, cut), cut, cut_range=(cut, 2 * SIZE), saved_as=str(files.cut_file(0)))
    assert files.get(0) == first[:cut].ljust(SIZE, b"\0")
    assert files.numbers() == [0]
    assert not list(files.path.glob("*.idx"))
    assert files.values() == numbered(20)
    assert files.cut_file(0).read_bytes() == first[:HEADER] + bytes(cut - HEADER) + first[cut:]
    assert files.cut_file(1).read_bytes() == second[:second_end]
    assert f"{cut} to {2 * SIZE}" in caplog.text


def test_a_cut_range_keeps_its_blocks(files: LogFiles) -> None:
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


def test_stale_bytes_never_come_back_after_new_appends(files: LogFiles) -> None:
    files.create(0)
    cut = files.records(0, numbered(20))
    files.records(0, numbered(20, 100), cut + 32)
    files.recover(checkpoint=files.checkpoint(HEADER))
    # The new record ends where a stale one began.
    files.record(0, cut, b"new value___")
    assert files.recover(checkpoint=files.checkpoint(HEADER)).tail == (0, cut + 32)
    assert files.values() == [*numbered(20), b"new value___"]


def test_frames_above_a_later_segments_torn_start_are_cut_there(files: LogFiles) -> None:
    files.full(0, numbered(10))
    files.create(1, opened=True)
    files.record(1, HEADER + 64, b"orphan")
    recovered = files.recover(checkpoint=files.checkpoint(HEADER))
    assert (recovered.tail, recovered.saved_as) == ((1, HEADER), str(files.cut_file(1)))
    assert files.numbers() == [0, 1]
    assert files.get(1, HEADER) == bytes(SIZE - HEADER)


def test_an_opened_segment_whose_predecessor_lost_its_frames_goes(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, numbered(4))
    files.create(1, opened=True)
    assert files.recover(checkpoint=files.checkpoint(HEADER)).tail == (0, end)
    assert files.numbers() == [0]


def test_a_full_last_segment_is_the_end(files: LogFiles) -> None:
    files.full(0, numbered(10))
    assert files.recover(checkpoint=files.checkpoint(HEADER)) == Recovered("cut", (0, SIZE), SIZE)


def test_a_seal_of_frames_that_were_lost_goes_with_them(files: LogFiles) -> None:
    files.create(0, opened=True, seal=oracle.Seal(9000, 0, 99, 1, 1, 1))
    end = files.records(0, numbered(4))
    files.recover(checkpoint=files.checkpoint(HEADER))
    header = oracle.read_header(files.get(0))
    assert (header.seal, header.opened) == (None, oracle.Opened(5, 0))
    assert files.values() == numbered(4)
    assert end < 9000


def test_a_flipped_bit_below_the_checkpoint_is_left_alone(files: LogFiles, caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_checkpoint_inside_a_frame_does_not_cut_that_frame(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, [b"a" * 100, b"b" * 100])
    assert files.recover(checkpoint=files.checkpoint(HEADER + 48)).tail == (0, end)
    assert len(files.values()) == 2


def test_damage_between_the_checkpoint_and_the_flushed_mark_is_not_cut_in_the_same_boot(files: LogFiles) -> None:
    files.create(0)
    damaged = files.records(0, numbered(5))
    flushed = files.records(0, numbered(5, 5), damaged)
    files.flip(0, damaged + 17)
    end = files.records(0, numbered(5, 10), flushed)
    files.open_cursors(mode=POOLED, flushed=flushed)
    before = files.get(0)
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert (recovered.case, recovered.tail, recovered.cut_range) == ("cut", (0, end), None)
    assert files.get(0) == before


def test_a_damaged_header_where_recovery_has_to_begin_is_refused(files: LogFiles) -> None:
    files.full(0, numbered(5))
    files.flip(0, 33)
    before = files.snapshot()
    with pytest.raises(CorruptSegmentError, match="commitlog repair"):
        files.recover()
    assert files.snapshot() == before


def test_a_missing_segment_in_the_middle_is_refused(files: LogFiles) -> None:
    files.full(0, numbered(5))
    files.full(2, numbered(5))
    before = files.snapshot()
    with pytest.raises(CorruptSegmentError, match="missing") as refused:
        files.recover()
    assert refused.value.position == SIZE
    assert files.snapshot() == before


def test_a_later_segment_that_cannot_be_read_is_put_aside_whole(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, numbered(5))
    files.full(1, numbered(5))
    files.flip(1, 33)
    content = files.get(1)
    assert files.recover(checkpoint=files.checkpoint(HEADER)).tail == (0, end)
    assert files.cut_file(1).read_bytes() == content
    assert files.numbers() == [0]


def test_an_earlier_cut_file_is_never_overwritten(files: LogFiles) -> None:
    files.create(0)
    files.cut_file(0).write_bytes(b"from long ago")
    files.record(0, HEADER + 64, b"orphan")
    recovered = files.recover()
    assert recovered.saved_as == f"{files.cut_file(0)}.1"
    assert files.cut_file(0).read_bytes() == b"from long ago"


def test_what_creations_left_half_done_is_swept(files: LogFiles) -> None:
    left = files.path / f".{0:020d}.seg.0123456789abcdef.tmp"
    left.write_bytes(b"half")
    files.recover()
    assert not left.exists()


def test_the_cursors_get_what_every_handle_starts_from(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, numbered(3))
    cursors = files.open_cursors()
    for cell in ("failed", "flusher", "waiters"):
        cursors[cell] = 5
    files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert [cursors[cell] for cell in ("appended", "committed", "flushed")] == [end, end, end]
    assert [cursors[cell] for cell in ("failed", "flusher", "waiters")] == [0, 0, 0]
    assert cursors["tail"] == end
    assert cursors["state"] == kernel.STATE_RECOVERING


# --- kept ------------------------------------------------------------------------------------------------------------


def test_claims_below_the_tail_become_skips_and_everything_else_is_kept(files: LogFiles) -> None:
    files.create(0)
    claim = files.records(0, numbered(5))
    gap = files.records(0, numbered(5, 5), files.claim(0, claim, 45))
    end = files.records(0, numbered(5, 10), gap + 40)
    tail = end + 24
    before = files.get(0)
    files.open_cursors(tail=(0, tail))
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert recovered == Recovered("kept", (0, tail), tail, rolled_back=3)
    assert files.values() == numbered(15)
    skips = [frame for frame in oracle.frames(files.get(0)) if frame.kind is oracle.Kind.SKIP]
    assert [(frame.offset, frame.length) for frame in skips] == [
        (claim, 48),
        *((gap + at, 8) for at in range(0, 40, 8)),
        *((end + at, 8) for at in range(0, 24, 8)),
    ]
    assert all(frame.crc_ok for frame in skips)
    assert files.get(0, HEADER, claim) == before[HEADER:claim]


@pytest.mark.parametrize("overshoot", [0, 4096])
def test_a_tail_past_the_segments_end_marks_up_to_the_end(files: LogFiles, overshoot: int) -> None:
    files.create(0)
    gap = files.records(0, numbered(5))
    files.create(1)
    files.open_cursors(tail=(0, SIZE + overshoot))
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert recovered == Recovered("kept", (0, SIZE), SIZE, rolled_back=1)
    assert sum(frame.step for frame in oracle.frames(files.get(0)) if frame.kind is oracle.Kind.SKIP) == SIZE - gap


def test_a_full_tail_rests_in_the_segment_that_a_roll_has_opened(files: LogFiles) -> None:
    files.full(0, numbered(5))
    files.create(1, opened=True)
    files.open_cursors(tail=(0, SIZE))
    assert files.recover(usable=True, checkpoint=files.checkpoint(HEADER)) == Recovered("kept", (1, HEADER), SIZE + HEADER)
    assert files.numbers() == [0, 1]


def test_an_empty_segment_behind_a_hole_in_the_numbering_goes(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, numbered(5))
    files.create(2)
    assert files.recover(checkpoint=files.checkpoint(HEADER)).tail == (0, end)
    assert files.numbers() == [0]


def test_claims_are_resolved_in_every_segment_up_to_the_tail(files: LogFiles) -> None:
    files.create(0)
    files.claim(0, files.records(0, numbered(5)), 64)
    files.create(1, opened=True)
    end = files.records(1, numbered(5, 5))
    files.create(2)
    files.open_cursors(tail=(1, end))
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert (recovered.case, recovered.tail, recovered.rolled_back) == ("kept", (1, end), 2)
    assert files.values() == numbered(10)
    assert files.numbers() == [0, 1, 2]


def test_resolved_claims_are_found_again_without_the_cursors(files: LogFiles) -> None:
    files.create(0)
    gap = files.records(0, numbered(5))
    end = files.records(0, numbered(5, 5), gap + 80)
    files.open_cursors(tail=(0, end))
    files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert files.recover(checkpoint=files.checkpoint(HEADER)).tail == (0, end)
    assert files.values() == numbered(10)


def test_a_frame_that_cannot_be_starts_a_cut_in_the_same_boot_too(files: LogFiles) -> None:
    files.create(0)
    damaged = files.records(0, numbered(5))
    end = files.records(0, numbered(5, 5), files.put(0, damaged, b"\xff" * 32))
    files.open_cursors(tail=(0, end))
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert (recovered.case, recovered.tail, recovered.cut_range) == ("cut", (0, damaged), (damaged, end))
    assert files.values() == numbered(5)


def test_a_claim_longer_than_the_tail_allows_starts_a_cut(files: LogFiles) -> None:
    files.create(0)
    claim = files.records(0, numbered(5))
    files.claim(0, claim, 400)
    files.open_cursors(tail=(0, claim + 32))
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert (recovered.case, recovered.tail) == ("cut", (0, claim))


@pytest.mark.parametrize("tail", [(0, 0), (0, HEADER + 4), (7, HEADER), (0, 100), (0, HEADER + 8)])
def test_a_tail_that_cannot_be_is_not_believed(files: LogFiles, tail: tuple[int, int]) -> None:
    files.create(0)
    checkpoint = files.records(0, numbered(5))
    end = files.records(0, numbered(5, 5), checkpoint)
    files.claim(0, end, 64)
    files.open_cursors(tail=tail)
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(checkpoint))
    assert (recovered.case, recovered.tail) == ("cut", (0, end))
    assert files.values() == numbered(10)


def test_watermarks_beyond_the_files_are_not_believed(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, numbered(5))
    files.open_cursors(tail=(0, end), flushed=99 * SIZE)
    assert files.recover(usable=True, checkpoint=files.checkpoint(HEADER)).tail == (0, end)


def test_bytes_behind_the_tail_are_saved_and_zeroed(files: LogFiles) -> None:
    files.create(0)
    tail = files.records(0, numbered(5))
    files.record(0, tail, b"stale")
    files.open_cursors(tail=(0, tail))
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert (recovered.case, recovered.tail, recovered.cut_range) == ("kept", (0, tail), (tail, tail + 24))
    assert files.get(0, tail) == bytes(SIZE - tail)


def test_a_missing_segment_below_the_tail_is_refused(files: LogFiles) -> None:
    files.full(0, numbered(5))
    files.create(2)
    files.open_cursors(tail=(2, HEADER))
    with pytest.raises(CorruptSegmentError, match="missing") as refused:
        files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert refused.value.position == SIZE


class WatchedSegment:
    """A segment that notes what is written again and flushed."""

    def __init__(self, segment: Segment, calls: list[tuple[str, int, int]]) -> None:
        self.segment = segment
        self.calls = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self.segment, name)

    def rewrite(self, start: int, stop: int) -> None:
        self.calls.append(("rewrite", self.segment.base + start, self.segment.base + stop))
        self.segment.rewrite(start, stop)

    def flush(self, start: int, stop: int) -> None:
        self.calls.append(("flush", self.segment.base + start, self.segment.base + stop))
        self.segment.flush(start, stop)


def test_kept_frames_are_written_again_and_flushed_before_anything_is_exposed(files: LogFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    for module in MODULES:
        if hasattr(module, "passed"):
            monkeypatch.setattr(module, "passed", lambda step: calls.append(step) if step == "cursors set" else None)
    original = files.directory.open_segment
    monkeypatch.setattr(
        files.directory, "open_segment", lambda number, *, writable: WatchedSegment(original(number, writable=writable), calls)
    )
    files.full(0, numbered(5))
    files.full(1, numbered(5))
    files.create(2, opened=True)
    end = files.records(2, numbered(3))
    files.open_cursors(tail=(2, end))
    files.recover(usable=True, checkpoint=files.checkpoint(SIZE + HEADER))
    ranges = [(SIZE + HEADER, 2 * SIZE), (2 * SIZE, 2 * SIZE + end)]
    assert calls == [*((call, *span) for span in ranges for call in ("rewrite", "flush")), "cursors set"]


def test_an_anonymous_pool_that_died_leaves_an_exact_prefix(files: LogFiles) -> None:
    files.create(0)
    committed = files.records(0, numbered(10))
    # The last commit was killed before its first cell went in.
    frame = oracle.build_frame(files.segment_id(0), committed, b"z" * 40)
    files.records(0, numbered(3, 50), files.put(0, committed, bytes(8) + frame[8:]))
    files.open_cursors(mode=POOLED)
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert (recovered.case, recovered.tail) == ("cut", (0, committed))
    assert recovered.saved_as == str(files.cut_file(0))
    assert files.values() == numbered(10)
    assert files.get(0, committed) == bytes(SIZE - committed)


# --- shared memory ---------------------------------------------------------------------------------------------------


Content = tuple[int, int, int, bytes]  # number, segment id, offset, bytes


@pytest.fixture
def dead_pool() -> Iterator[Callable[[list[Content]], list[str]]]:
    """Buffers of a pool whose process was killed with SIGKILL, by name."""
    made: list[str] = []

    def die_with(contents: list[Content]) -> list[str]:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            buffers = [(ShmBuffer.allocate(SIZE), content) for content in contents]
            os.write(writer, "\n".join(str(buffer.name) for buffer, _ in buffers).encode())
            for buffer, (number, segment_id, offset, content) in buffers:
                _fill(buffer, number, segment_id, offset, content)
            os.kill(os.getpid(), signal.SIGKILL)
        os.close(writer)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        with os.fdopen(reader, "rb") as stream:
            names = stream.read().decode().split()
        made.extend(names)
        return names

    yield die_with
    for name in made:
        discard(name)


def _fill(buffer: ShmBuffer, number: int, segment_id: int, offset: int, content: bytes) -> None:
    from commitlog.pool.buffer import BufferState

    buffer.state = BufferState.BORROWED
    buffer.bind(UUID, number * SIZE, segment_id)
    memoryview(buffer.memory)[offset : offset + len(content)] = content


def frames(files: LogFiles, number: int, values: list[bytes], offset: int = HEADER, *, full: bool = False) -> bytes:
    """Frames as they stand in a buffer."""
    content = b""
    for value in values:
        content += oracle.build_frame(files.segment_id(number), offset + len(content), value, timestamp_ns=7)
    if full:
        content += oracle.build_skip(files.segment_id(number), offset + len(content), 0)
    return content


def test_shm_buffers_are_recovered_in_base_order_whatever_is_already_committed(
    files: LogFiles, dead_pool: Callable[[list[Content]], list[str]]
) -> None:
    files.create(0)
    committed = files.records(0, numbered(3))
    files.create(1, opened=True)
    files.create(2)
    names = dead_pool(
        [
            (1, files.segment_id(1), HEADER, frames(files, 1, numbered(5, 10))),
            (0, files.segment_id(0), HEADER, frames(files, 0, numbered(10), full=True)),
        ]
    )
    files.open_cursors(mode=POOLED)
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(committed), shm_names=names)
    end = HEADER + len(frames(files, 1, numbered(5, 10)))
    assert (recovered.case, recovered.tail, recovered.lost) == ("kept", (1, end), ())
    assert recovered.from_shm == (names[1], names[0])
    assert files.values() == numbered(15)
    assert find_buffers(names, UUID).missing == tuple(names)


def test_shm_buffers_are_recovered_without_usable_cursors_too(files: LogFiles, dead_pool: Callable[[list[Content]], list[str]]) -> None:
    files.create(0)
    names = dead_pool([(0, files.segment_id(0), HEADER, frames(files, 0, numbered(10)))])
    assert files.recover(shm_names=names).from_shm == tuple(names)
    assert files.values() == numbered(10)


def test_a_buffers_claims_become_skips_and_its_half_written_record_is_left_out(
    files: LogFiles, dead_pool: Callable[[list[Content]], list[str]]
) -> None:
    files.create(0)
    content = frames(files, 0, numbered(2))
    claim = HEADER + len(content)
    content += oracle.build_claim(45, 2, 1) + b"\xaa" * 40
    skip = HEADER + len(content)
    content += oracle.build_skip(files.segment_id(0), skip, 32) + b"\xbb" * 24
    content += frames(files, 0, numbered(2, 2), HEADER + len(content))
    end = HEADER + len(content)
    content += bytes(8) + b"half a record"
    names = dead_pool([(0, files.segment_id(0), HEADER, content)])
    recovered = files.recover(shm_names=names)
    assert (recovered.tail, recovered.rolled_back, recovered.cut_range) == ((0, end), 1, None)
    assert files.values() == numbered(4)
    found = [(frame.offset, frame.length) for frame in oracle.frames(files.get(0)) if frame.kind is oracle.Kind.SKIP]
    assert found == [(claim, 48), (skip, 32)]
    assert files.get(0, skip + 8, skip + 32) == bytes(24)
    assert files.get(0, end) == bytes(SIZE - end)


def test_a_buffers_segment_file_is_created_when_it_is_missing(files: LogFiles, dead_pool: Callable[[list[Content]], list[str]]) -> None:
    files.full(0, numbered(5))
    names = dead_pool([(1, 0xABCD, HEADER, oracle.build_frame(0xABCD, HEADER, b"alone"))])
    recovered = files.recover(shm_names=names)
    assert recovered.tail == (1, HEADER + 24)
    assert files.values() == [*numbered(5), b"alone"]


def test_buffers_alone_bring_a_log_back(files: LogFiles, dead_pool: Callable[[list[Content]], list[str]]) -> None:
    names = dead_pool([(2, 0xABCD, HEADER, oracle.build_frame(0xABCD, HEADER, b"alone"))])
    assert files.recover(shm_names=names).tail == (2, HEADER + 24)
    assert files.values() == [b"alone"]


def test_claims_in_a_segment_that_was_written_without_a_buffer_become_skips(
    files: LogFiles, dead_pool: Callable[[list[Content]], list[str]]
) -> None:
    files.create(0)
    files.create(1, opened=True)
    end = files.records(1, numbered(5, 5), files.claim(1, HEADER, 64))
    names = dead_pool([(0, files.segment_id(0), HEADER, frames(files, 0, numbered(5), full=True))])
    recovered = files.recover(checkpoint=files.checkpoint(HEADER), shm_names=names)
    assert (recovered.tail, recovered.rolled_back, recovered.cut_range) == ((1, end), 1, None)
    assert files.values() == numbered(10)


def test_a_buffer_that_was_committed_whole_and_not_given_back_is_discarded(
    files: LogFiles, dead_pool: Callable[[list[Content]], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    files.full(0, numbered(5))
    files.create(1, opened=True)
    end = files.records(1, numbered(5, 5))
    names = dead_pool([(0, files.segment_id(0), HEADER, frames(files, 0, numbered(5), full=True))])
    recovered = files.recover(checkpoint=files.checkpoint(SIZE + end), shm_names=names)
    assert (recovered.tail, recovered.from_shm) == ((1, end), tuple(names))
    assert find_buffers(names, UUID).missing == tuple(names)
    assert caplog.text == ""


def test_a_partly_copied_commit_is_completed_from_its_buffer(files: LogFiles, dead_pool: Callable[[list[Content]], list[str]]) -> None:
    files.create(0)
    committed = files.records(0, numbered(3))
    content = frames(files, 0, numbered(10))
    names = dead_pool([(0, files.segment_id(0), HEADER, content)])
    files.put(0, committed, bytes(8) + content[committed - HEADER + 8 : 200])
    recovered = files.recover(checkpoint=files.checkpoint(HEADER), shm_names=names)
    assert (recovered.tail, recovered.cut_range) == ((0, HEADER + len(content)), None)
    assert files.values() == numbered(10)


def test_frames_behind_damage_in_a_buffer_are_saved(files: LogFiles, dead_pool: Callable[[list[Content]], list[str]]) -> None:
    files.create(0)
    content = bytearray(frames(files, 0, numbered(10)))
    step = len(content) // 10
    content[3 * step + 20] ^= 1
    names = dead_pool([(0, files.segment_id(0), HEADER, bytes(content))])
    recovered = files.recover(shm_names=names)
    assert (recovered.tail, recovered.saved_as) == ((0, HEADER + 3 * step), str(files.cut_file(0)))
    assert files.values() == numbered(3)
    assert files.cut_file(0).read_bytes()[HEADER + 4 * step :] == content[4 * step :]


def test_records_above_a_missing_buffer_are_saved_and_the_loss_is_reported(
    files: LogFiles, dead_pool: Callable[[list[Content]], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    files.create(0)
    end = files.records(0, numbered(3))
    files.create(1, opened=True)
    names = dead_pool([(1, files.segment_id(1), HEADER, frames(files, 1, numbered(5, 10)))])
    absent = "/commitlog-" + "0" * 32
    recovered = files.recover(checkpoint=files.checkpoint(HEADER), shm_names=[absent, *names])
    assert (recovered.tail, recovered.lost) == ((0, end), (absent,))
    assert recovered.saved_as == str(files.cut_file(1))
    assert files.values() == numbered(3)
    assert absent in caplog.text


def test_a_buffer_of_another_incarnation_of_its_segment_is_left_where_it_is(
    files: LogFiles, dead_pool: Callable[[list[Content]], list[str]]
) -> None:
    files.create(0)
    end = files.records(0, numbered(3))
    names = dead_pool([(0, 0xDEAD, HEADER, oracle.build_frame(0xDEAD, HEADER, b"other"))])
    recovered = files.recover(shm_names=names)
    assert (recovered.tail, recovered.lost, recovered.from_shm) == ((0, end), tuple(names), ())
    assert len(find_buffers(names, UUID).recoverable) == 1


def test_a_live_pool_is_not_robbed(files: LogFiles) -> None:
    files.create(0)
    buffer = ShmBuffer.allocate(SIZE)
    try:
        _fill(buffer, 0, files.segment_id(0), HEADER, frames(files, 0, numbered(3)))
        with pytest.raises(LogLockedError, match="pool that lives"):
            files.recover(shm_names=[str(buffer.name)])
        assert files.values() == []
    finally:
        buffer.destroy()


# --- killed in recovery ----------------------------------------------------------------------------------------------


def kept_log(files: LogFiles) -> None:
    """Claims without an owner in two segments, and stale bytes behind the tail."""
    files.create(0)
    gap = files.records(0, numbered(5), files.claim(0, HEADER, 48))
    files.skip(0, files.records(0, numbered(5, 5), gap + 40), 0)
    files.create(1, opened=True)
    end = files.records(1, numbered(5, 10), files.claim(1, HEADER, 64))
    files.record(1, end + 8, b"stale")
    files.open_cursors(tail=(1, end))


def cut_log(files: LogFiles) -> None:
    """A torn tail over three segments."""
    files.create(0)
    cut = files.records(0, numbered(15))
    files.skip(0, files.records(0, numbered(500, 20), cut + 32), 0)
    files.full(1, numbered(5, 520))
    files.create(2, opened=True)
    files.records(2, numbered(5, 525))
    files.create(3)
    files.open_cursors(mode=POOLED)


def damaged_log(files: LogFiles) -> None:
    """A log of this boot, with a tail, and a frame that cannot be below it."""
    files.create(0)
    damaged = files.records(0, numbered(15))
    files.skip(0, files.records(0, numbered(5, 20), files.put(0, damaged, b"\xff" * 32)), 0)
    files.create(1, opened=True)
    end = files.records(1, numbered(5, 30))
    files.open_cursors(tail=(1, end))


@pytest.mark.parametrize("build", [kept_log, cut_log, damaged_log])
def test_recovery_killed_at_any_step_ends_at_the_same_place(tmp_path: Path, build: Callable[[LogFiles], None]) -> None:
    step, done = 0, False
    while not done:
        path = tmp_path / f"{build.__name__} {step}"
        done = not kill_at(path, build, step)
        files = LogFiles(path)
        files.cursors = reopen_cursors(files)
        assert files.numbers() == list(range(len(files.numbers()))), "a kill left a hole in the numbering"
        recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
        check(files, build, recovered)
        step += 1
        files.directory.close()
    assert step > 6


def kill_at(path: Path, build: Callable[[LogFiles], None], step: int) -> bool:
    """Recover in a child that is killed at its step number `step`; False when it got through before."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            files = LogFiles(path)
            build(files)
            countdown = [step]

            def die(_name: str) -> None:
                if countdown[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                countdown[0] -= 1

            watch(die)
            logging.disable()
            files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
            status = 0
        finally:
            os._exit(status)
    result = os.waitpid(child, 0)[1]
    assert result in (0, signal.SIGKILL), result
    return result != 0


def reopen_cursors(files: LogFiles) -> Any:
    with (files.path / "cursors").open("r+b") as file:
        cursors = kernel.Cursors(file.fileno(), True)
    assert cursors.matches(UUID, BOOT, 1, SIZE)
    return cursors


def check(files: LogFiles, build: Callable[[LogFiles], None], recovered: Recovered) -> None:
    assert files.values() == numbered(15)
    number, offset = recovered.tail
    assert files.get(number, offset) == bytes(SIZE - offset)
    assert not list(files.path.glob(".*.tmp"))
    assert not list(files.path.glob("*.cut.*")), "an interrupted cut is not saved twice"
    if build is damaged_log:
        assert recovered.tail == (0, HEADER + 15 * 32)
    elif build is cut_log:
        assert files.numbers() == [0]
        saved = [oracle.build_frame(files.segment_id(2), HEADER, numbered(1, 525)[0], timestamp_ns=7)]
        assert files.cut_file(2).read_bytes()[HEADER:].startswith(saved[0])
        assert files.cut_file(0).stat().st_size == SIZE
    else:
        assert files.numbers() == [0, 1]


def test_recovery_of_buffers_killed_at_any_step_loses_nothing(tmp_path: Path, dead_pool: Callable[[list[Content]], list[str]]) -> None:
    step, done = 0, False
    while not done:
        path = tmp_path / str(step)
        files = LogFiles(path)
        files.create(0)
        files.records(0, numbered(3))
        files.create(1, opened=True)
        names = dead_pool(
            [
                (0, files.segment_id(0), HEADER, frames(files, 0, numbered(10), full=True)),
                (1, files.segment_id(1), HEADER, frames(files, 1, numbered(5, 10))),
            ]
        )
        done = not kill_with_buffers_at(path, names, step)
        files.open_cursors(mode=POOLED)
        recovered = files.recover(usable=False, checkpoint=files.checkpoint(HEADER), shm_names=names)
        assert files.values() == numbered(15)
        assert recovered.tail[0] == 1
        assert recovered.cut_range is None
        files.directory.close()
        step += 1
    assert step > 6


def kill_with_buffers_at(path: Path, names: list[str], step: int) -> bool:
    def build(files: LogFiles) -> None:
        cursors = files.open_cursors(mode=POOLED)
        original = files.recover
        files.recover = lambda **given: original(**given, shm_names=names, cursors=cursors)  # type: ignore[method-assign]

    return kill_at(path, build, step)

"""Recovery within one boot: everything below the tail is kept, dead claims become SKIP frames, and
all of it is flushed before the log is exposed.
"""

from __future__ import annotations

from typing import Any

import pytest

from commitlog._kernel import memory as kernel
from commitlog._kernel.segments import Segment
from commitlog.base import failpoint
from commitlog.errors import CorruptSegmentError
from commitlog.recovery import Recovered
from tests.log_files import HEADER, SIZE, LogFiles, numbered
from tests.oracle import segment_file as oracle


def test_claims_below_the_tail_become_skips_and_records_stay(files: LogFiles) -> None:
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
def test_tail_past_segment_end_turns_the_rest_into_skips(files: LogFiles, overshoot: int) -> None:
    files.create(0)
    gap = files.records(0, numbered(5))
    files.create(1)
    files.open_cursors(tail=(0, SIZE + overshoot))
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert recovered == Recovered("kept", (0, SIZE), SIZE, rolled_back=1)
    assert (
        sum(frame.step for frame in oracle.frames(files.get(0)) if frame.kind is oracle.Kind.SKIP)
        == SIZE - gap
    )


def test_tail_of_a_finished_roll_is_the_next_segment(files: LogFiles) -> None:
    files.full(0, numbered(5))
    files.create(1, opened=True)
    files.open_cursors(tail=(0, SIZE))
    assert files.recover(usable=True, checkpoint=files.checkpoint(HEADER)) == Recovered(
        "kept", (1, HEADER), SIZE + HEADER
    )
    assert files.numbers() == [0, 1]


def test_empty_segment_behind_a_gap_is_removed(files: LogFiles) -> None:
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


def test_rolled_back_claims_stay_skips_without_the_cursors(files: LogFiles) -> None:
    files.create(0)
    gap = files.records(0, numbered(5))
    end = files.records(0, numbered(5, 5), gap + 80)
    files.open_cursors(tail=(0, end))
    files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert files.recover(checkpoint=files.checkpoint(HEADER)).tail == (0, end)
    assert files.values() == numbered(10)


def test_impossible_frame_starts_a_cut_in_the_same_boot(files: LogFiles) -> None:
    files.create(0)
    damaged = files.records(0, numbered(5))
    end = files.records(0, numbered(5, 5), files.put(0, damaged, b"\xff" * 32 + bytes(512)))
    files.open_cursors(tail=(0, end))
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert (recovered.case, recovered.tail, recovered.cut_range) == (
        "cut",
        (0, damaged),
        (damaged, end),
    )
    assert files.values() == numbered(5)


def test_damage_between_frames_in_the_same_boot_is_kept(files: LogFiles) -> None:
    files.create(0)
    damaged = files.records(0, numbered(5))
    files.claim(0, files.records(0, numbered(5, 5), files.put(0, damaged, b"\xff" * 32)), 32)
    end = files.records(0, numbered(5, 10), damaged + 7 * 32)
    files.open_cursors(tail=(0, end))
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert (recovered.case, recovered.tail, recovered.cut_range) == ("kept", (0, end), None)
    assert recovered.rolled_back == 1
    assert files.get(0, damaged, damaged + 32) == b"\xff" * 32


def test_claim_past_the_tail_starts_a_cut(files: LogFiles) -> None:
    files.create(0)
    claim = files.records(0, numbered(5))
    files.claim(0, claim, 400)
    files.open_cursors(tail=(0, claim + 32))
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert (recovered.case, recovered.tail) == ("cut", (0, claim))


@pytest.mark.parametrize("tail", [(0, 0), (0, HEADER + 4), (7, HEADER), (0, 100), (0, HEADER + 8)])
def test_impossible_tail_is_ignored(files: LogFiles, tail: tuple[int, int]) -> None:
    files.create(0)
    checkpoint = files.records(0, numbered(5))
    end = files.records(0, numbered(5, 5), checkpoint)
    files.claim(0, end, 64)
    files.open_cursors(tail=tail)
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(checkpoint))
    assert (recovered.case, recovered.tail) == ("cut", (0, end))
    assert files.values() == numbered(10)


def test_watermark_beyond_the_files_is_ignored(files: LogFiles) -> None:
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
    assert (recovered.case, recovered.tail, recovered.cut_range) == (
        "kept",
        (0, tail),
        (tail, tail + 24),
    )
    assert files.get(0, tail) == bytes(SIZE - tail)


def test_missing_segment_below_the_tail_is_refused(files: LogFiles) -> None:
    files.full(0, numbered(5))
    files.create(2)
    files.open_cursors(tail=(2, HEADER))
    with pytest.raises(CorruptSegmentError, match="missing") as refused:
        files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert refused.value.position == SIZE


class WatchedSegment:
    """A segment that records its rewrites and flushes."""

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


def test_kept_frames_are_rewritten_and_flushed_before_exposure(
    files: LogFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(
        failpoint, "hook", lambda step: calls.append(step) if step == "cursors set" else None
    )
    original = files.directory.open_segment
    monkeypatch.setattr(
        files.directory,
        "open_segment",
        lambda number, *, writable: WatchedSegment(original(number, writable=writable), calls),
    )
    files.full(0, numbered(5))
    files.full(1, numbered(5))
    files.create(2, opened=True)
    end = files.records(2, numbered(3))
    files.open_cursors(tail=(2, end))
    files.recover(usable=True, checkpoint=files.checkpoint(SIZE + HEADER))
    ranges = [(SIZE + HEADER, 2 * SIZE), (2 * SIZE, 2 * SIZE + end)]
    assert calls == [
        *((call, *span) for span in ranges for call in ("rewrite", "flush")),
        "cursors set",
    ]


def test_dead_anonymous_pool_leaves_the_committed_prefix(files: LogFiles) -> None:
    files.create(0)
    committed = files.records(0, numbered(10))
    # The last commit was killed before it stored its first cell.
    frame = oracle.build_frame(files.segment_id(0), committed, b"z" * 40)
    files.records(0, numbered(3, 50), files.put(0, committed, bytes(8) + frame[8:]))
    files.open_cursors(mode=kernel.MODE_POOLED)
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(HEADER))
    assert (recovered.case, recovered.tail) == ("cut", (0, committed))
    assert recovered.saved_as == str(files.cut_file(0))
    assert files.values() == numbered(10)
    assert files.get(0, committed) == bytes(SIZE - committed)

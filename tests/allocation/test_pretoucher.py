"""Pre-faulting ahead of the tail: distance, pace, and the pages present after `pretouch`."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from commitlog import CommitLog
from commitlog._kernel.segments import start_writeback
from commitlog.allocation import pretoucher
from commitlog.allocation.pretoucher import LEAST_BYTES, MOST_BYTES, SYNC_BYTES, Pretoucher
from commitlog.errors import ClosedError, InvalidOptionError, ReadOnlyError
from commitlog.log.parts import parts_of
from tests.setups import BY_HAND, SEGMENT, Logs

MIB = 1 << 20
PAGE = 4096
FIEMAP, FIEMAP_EXTENTS, FIEMAP_UNWRITTEN = 0xC020660B, 256, 0x800
QUIET = {**BY_HAND, "flush": "none", "prefault": False, "allocate_ahead": 0}


def pages_in_memory(path: Path) -> list[bool]:
    """Return for each page of a file whether the page cache has it."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        count = len(mapped) // PAGE
        found = (ctypes.c_ubyte * count)()
        start = ctypes.c_char.from_buffer(mapped)
        libc = ctypes.CDLL(None, use_errno=True)
        assert (
            libc.mincore(
                ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(mapped)), found
            )
            == 0
        )
        del start
        return [bool(page & 1) for page in found]


def written_bytes(path: Path) -> int:
    """Return how many bytes of a file are in blocks that the file system records as written."""
    asked = struct.pack("=QQLLLL", 0, path.stat().st_size, 0, 0, FIEMAP_EXTENTS, 0)
    found = bytearray(asked + bytes(FIEMAP_EXTENTS * 56))
    with path.open("rb") as file:
        fcntl.ioctl(file, FIEMAP, found)
    extents = struct.unpack_from("=L", found, 20)[0]
    assert extents < FIEMAP_EXTENTS
    return sum(
        length
        for _, _, length, _, flags, _ in struct.iter_unpack(
            "=QQQ16sL12s", found[32 : 32 + extents * 56]
        )
        if not flags & FIEMAP_UNWRITTEN
    )


def segment_of(log: CommitLog, number: int) -> Path:
    return Path(parts_of(log).directory.segment_path(number))


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class Tail:
    """The log as the pretoucher sees it; the test moves its tail."""

    segment_size = 64 * MIB

    def __init__(self) -> None:
        self.tail_position = PAGE


class Nowhere:
    """A queue of deleted segments that records the requested numbers."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def held(self, number: int, who: str) -> contextlib.AbstractContextManager[None]:
        self.asked.append(number)
        return contextlib.nullcontext()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(pretoucher, "time", made)
    return made


def made(logs: Logs, **options: Any) -> tuple[Pretoucher, Tail, Nowhere]:
    options = {**QUIET, **options}
    tail, queue = Tail(), Nowhere()
    return Pretoucher(tail, queue, logs.open(**options).options), tail, queue  # type: ignore[arg-type]


def test_prefault_distance_follows_the_append_rate_in_bounds(logs: Logs, clock: Clock) -> None:
    touching, tail, _ = made(logs)
    assert touching.distance == LEAST_BYTES
    for rate, expected in (
        (10 * MIB, LEAST_BYTES),
        (100 * MIB, 50 * MIB),
        (400 * MIB, 200 * MIB),
        (4000 * MIB, MOST_BYTES),
    ):
        clock.now_s += 1
        tail.tail_position += rate
        touching.measure()
        assert touching.distance == pytest.approx(expected, abs=4)


def test_distance_after_a_burst_halves_every_five_seconds(logs: Logs, clock: Clock) -> None:
    touching, tail, _ = made(logs)
    clock.now_s += 1
    tail.tail_position += 400 * MIB
    touching.measure()
    for expected in (100 * MIB, 50 * MIB, 25 * MIB, LEAST_BYTES, LEAST_BYTES):
        clock.now_s += 5
        touching.measure()
        assert touching.distance == pytest.approx(expected, abs=4)


def test_measurement_over_a_short_interval_is_ignored(logs: Logs, clock: Clock) -> None:
    touching, tail, _ = made(logs)
    clock.now_s += 0.001
    tail.tail_position += 4 * MIB
    touching.measure()
    assert touching.distance == LEAST_BYTES


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"prefault_distance": "3MiB"}, 3 * MIB), ({"flush": "sync"}, SYNC_BYTES)],
)
def test_fixed_or_sync_log_distance_ignores_the_append_rate(
    logs: Logs, clock: Clock, options: dict[str, Any], expected: int
) -> None:
    touching, tail, _ = made(logs, **options)
    clock.now_s += 1
    tail.tail_position += 400 * MIB
    touching.measure()
    assert touching.distance == expected


def test_prefault_stays_in_blocks_and_reaches_next_segment(logs: Logs, clock: Clock) -> None:
    touching, tail, queue = made(logs, prefault_distance="1GiB")
    while touching.step(64 * MIB):
        pass
    assert touching.touched_position == 64 * MIB
    assert set(queue.asked) == {0}
    touching, tail, queue = made(logs)
    while touching.step(128 * MIB):
        pass
    assert touching.touched_position == PAGE + LEAST_BYTES
    assert queue.asked[-1] == 1
    # After an early roll the tail is in the next segment, and so is the pretoucher.
    tail.tail_position = 64 * MIB + PAGE
    while touching.step(128 * MIB):
        pass
    assert touching.touched_position == 64 * MIB + PAGE + LEAST_BYTES


def test_pretoucher_pauses_less_at_higher_append_rates(logs: Logs, clock: Clock) -> None:
    touching, tail, _ = made(logs)
    rests = []
    for rate in (1 * MIB, 100 * MIB, 4000 * MIB):
        clock.now_s += 1
        tail.tail_position += rate
        while touching.step(1 << 40):
            pass
        rests.append(touching.rest_s)
    assert rests == sorted(rests, reverse=True)
    assert 0 < rests[-1] < rests[0] <= 0.1


def test_rolls_need_no_wake_up_while_pauses_are_short(logs: Logs, clock: Clock) -> None:
    touching, tail, _ = made(logs)
    for rate, expected in ((10 * MIB, True), (200 * MIB, True), (600 * MIB, False)):
        clock.now_s += 1
        tail.tail_position += rate
        while touching.step(1 << 40):
            pass
        assert touching.sees_rolls is expected


# --- a real log -----------------------------------------------------------------------------------


def test_pretouch_creates_segments_and_loads_their_pages(logs: Logs) -> None:
    log = logs.open(
        **{**QUIET, "segment_size": 16 * MIB, "allocate_ahead": 2, "prefault_distance": "2MiB"}
    )
    log.append(b"x")
    assert log.pretouch() == log.tail_position + 2 * MIB
    assert parts_of(log).queue.numbers() == [0, 1, 2]
    in_memory = pages_in_memory(segment_of(log, 0))
    assert all(in_memory[: 2 * MIB // PAGE])
    assert not in_memory[-1]
    following = pages_in_memory(segment_of(log, 1))
    assert all(following[: MIB // PAGE])
    assert not following[-1]
    assert log.pretouch() == log.tail_position + 2 * MIB


def test_prefault_service_loads_the_pages_of_new_segments(logs: Logs, until: Any) -> None:
    log = logs.open(**{**QUIET, "segment_size": 2 * MIB, "allocate_ahead": 1, "prefault": True})
    until(
        lambda: (
            parts_of(log).queue.numbers() == [0, 1]
            and all(pages_in_memory(segment_of(log, 0)))
            and all(pages_in_memory(segment_of(log, 1)))
        )
    )
    log.roll()
    log.append(b"x")
    until(
        lambda: (
            parts_of(log).queue.numbers() == [0, 1, 2] and all(pages_in_memory(segment_of(log, 2)))
        )
    )


@pytest.mark.parametrize(("flush", "ahead"), [("sync", SYNC_BYTES), ("async", 0)])
def test_only_sync_log_has_its_pages_written_ahead(
    logs: Logs, until: Any, flush: str, ahead: int
) -> None:
    log = logs.open(**{**QUIET, "segment_size": 2 * MIB, "flush": flush})
    log.append(b"x")
    segment = segment_of(log, 0)
    with segment.open("r+b") as file:
        if not start_writeback(file.fileno(), 0, PAGE):
            pytest.skip("the temporary folder is neither on ext4 nor on XFS")
    log.pretouch()
    until(lambda: written_bytes(segment) >= ahead, 10)
    if not ahead:
        assert written_bytes(segment) <= 2 * PAGE
    log.append(b"y" * PAGE, sync=True)
    assert [bytes(value) for value in log.tailer().values()] == [b"x", b"y" * PAGE]


def test_writing_ahead_in_a_memory_file_system_does_nothing() -> None:
    with os.fdopen(os.memfd_create("pages"), "wb") as file:
        file.truncate(PAGE)
        assert not start_writeback(file.fileno(), 0, PAGE)


def test_pretouch_without_free_descriptor_still_loads_pages(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logs.open(**{**QUIET, "segment_size": 2 * MIB, "flush": "sync"})
    log.append(b"x", sync=False)
    log.pretouch()
    writer = parts_of(log).writer
    assert writer is not None
    touching = writer.allocation._pretoucher
    touching.touched_position = 0

    def none_free(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("commitlog.segment.directory.opened_regular", none_free)
    assert touching.step(2 * MIB)
    assert touching.touched_position >= SYNC_BYTES


def test_records_are_intact_when_pages_are_pretouched(logs: Logs) -> None:
    log = logs.open(**QUIET)
    for number in range(300):
        log.append(b"%d" % number + bytes(1000))
        if number % 7 == 0:
            log.pretouch()
    assert [value.rstrip(b"\0") for value in log.tailer().values()] == [
        b"%d" % number for number in range(300)
    ]
    assert log.stats().rolls == log.tail_position // SEGMENT > 3


@pytest.mark.parametrize("backing", ["anonymous", "shm"])
def test_pretouch_of_a_pooled_log_is_refused(logs: Logs, backing: str) -> None:
    log = logs.open(pool=logs.pool(backing))
    with pytest.raises(InvalidOptionError, match="appends go to its buffers"):
        log.pretouch()


def test_pretouch_of_read_only_or_closed_log_is_refused(logs: Logs) -> None:
    log = logs.open()
    with pytest.raises(ReadOnlyError):
        logs.open(mode="r").pretouch()
    log.close()
    with pytest.raises(ClosedError):
        log.pretouch()

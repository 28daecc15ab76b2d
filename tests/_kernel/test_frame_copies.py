"""Copies of frames for other machines, and who runs while they are made."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog._kernel.segments import HEADER_SIZE, Segment, copy_frames, crc32c
from commitlog.errors import ClosedError
from commitlog.log.parts import parts_of

LIMIT_S = 30.0
SIZE = 4 << 20


@pytest.fixture
def log(tmp_path: Path) -> Iterator[commitlog.CommitLog]:
    with commitlog.open(tmp_path, segment_size=SIZE) as log:
        while log.committed_position < SIZE // 2:
            log.append(bytes(range(200)) * 5)
        log.flush()
        yield log


@pytest.fixture
def segment(log: commitlog.CommitLog) -> Iterator[Segment]:
    with parts_of(log).queue.held(0, "test") as segment:
        assert segment is not None
        yield segment


def lets_others_run(act: Callable[[], object], limit_s: float) -> bool:
    """Whether a waiting thread runs while this one repeats an act and is never interrupted."""
    lock, ran = threading.Lock(), threading.Event()

    def wait() -> None:
        with lock:
            ran.set()

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    thread = threading.Thread(target=wait)
    try:
        with lock:
            thread.start()  # until the thread waits for the lock
        until = time.monotonic() + limit_s
        while not ran.is_set() and time.monotonic() < until:
            act()
        return ran.is_set()
    finally:
        sys.setswitchinterval(interval_s)
        thread.join()


@pytest.mark.parametrize("length", [0, 8, 1048, 5000, 200_000])
def test_copy_has_the_whole_frames_of_the_range(segment: Segment, length: int) -> None:
    stop = HEADER_SIZE + length
    frames, crc, code = copy_frames(segment, HEADER_SIZE, stop)
    assert frames == segment.read(HEADER_SIZE, len(frames))
    assert crc == crc32c(frames)
    assert segment.scan(HEADER_SIZE, HEADER_SIZE + len(frames))[:2] == (
        HEADER_SIZE + len(frames),
        0,
    )
    assert (code == 0) == (HEADER_SIZE + len(frames) >= stop)


def test_long_first_frame_is_copied_whole(log: commitlog.CommitLog, segment: Segment) -> None:
    position = log.append(bytes(300_000), sync=True)
    frames, _, code = copy_frames(segment, position, position + 1024)
    assert position + len(frames) == log.flushed_position
    assert code == 0


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (HEADER_SIZE + 8, HEADER_SIZE),
        (HEADER_SIZE + 4, SIZE),
        (HEADER_SIZE, SIZE - 4),
        (0, SIZE),
        (HEADER_SIZE, SIZE + 8),
        (SIZE + 8, SIZE + 8),
        (HEADER_SIZE, 2**64 - 8),
    ],
)
def test_range_that_has_no_frames_is_refused(segment: Segment, start: int, stop: int) -> None:
    with pytest.raises(ValueError, match="not"):
        copy_frames(segment, start, stop)


def test_released_segment_is_refused_between_copies(segment: Segment) -> None:
    shared = segment.share()
    errors = []

    def copy() -> None:
        try:
            while True:
                copy_frames(shared, HEADER_SIZE, SIZE // 2)
        except ClosedError as error:
            errors.append(error)

    threads = [threading.Thread(target=copy) for _ in range(2)]
    for thread in threads:
        thread.start()
    shared.release()
    for thread in threads:
        thread.join(LIMIT_S)
    assert len(errors) == 2


def test_long_copy_lets_other_threads_run(segment: Segment) -> None:
    assert lets_others_run(lambda: copy_frames(segment, HEADER_SIZE, SIZE // 2), LIMIT_S)


def test_crc_of_many_bytes_lets_other_threads_run() -> None:
    assert lets_others_run(lambda: crc32c(bytes(1 << 20)), LIMIT_S)


def test_short_copy_keeps_the_interpreters_lock(segment: Segment) -> None:
    assert not lets_others_run(lambda: copy_frames(segment, HEADER_SIZE, 8192), 0.1)
    assert not lets_others_run(lambda: crc32c(bytes(8192)), 0.1)

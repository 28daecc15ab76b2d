"""SegmentCache: segments of another place, brought ahead of a reader."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from commitlog.errors import ClosedError, CommitLogError, ForkedError
from commitlog.segment.directory import segment_name
from commitlog.segment.segment_cache import SegmentCache

SIZE = 4096
COUNT = 8
LIMIT_S = 30.0


class Place:
    """Where segments come from; each write waits until it is let go."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.free = {number: threading.Event() for number in range(COUNT)}

    def write(self, number: int, fd: int) -> None:
        self.begun.append(number)
        assert self.free[number].wait(LIMIT_S)
        os.write(fd, bytes([number]) * SIZE)

    def cache(self, kept: int) -> SegmentCache:
        return SegmentCache(
            SIZE,
            kept * SIZE,
            write=self.write,
            has=lambda number: number < COUNT,
            path_of=str,
        )


@pytest.mark.parametrize(("kept", "ahead"), [(0, 1), (3, 1), (4, 2), (100, 2)])
def test_forward_reader_prefetches_the_next_segments(
    kept: int, ahead: int, until: Callable[..., None]
) -> None:
    place = Place()
    with contextlib.closing(place.cache(kept)) as cache:
        place.free[0].set()
        cache.fetch(0)
        until(lambda: sorted(place.begun) == list(range(ahead + 1)))
        cache.fetch(0)  # begins nothing: what is ahead is on its way
        for free in place.free.values():
            free.set()
        for number in range(1, COUNT):
            cache.fetch(number)
            content = Path(cache.folder, segment_name(number * SIZE)).read_bytes()
            assert content == bytes([number]) * SIZE
            assert len(os.listdir(cache.folder)) <= max(3, kept) + ahead
    assert sorted(place.begun) == list(range(COUNT))


def test_seeking_reader_fetches_only_what_it_reads() -> None:
    place = Place()
    with contextlib.closing(place.cache(100)) as cache:
        for number in (5, 2, 7, 3):
            place.free[number].set()
            cache.fetch(number)
    assert place.begun == [5, 2, 7, 3]


def test_fetch_during_a_close_raises_closed_error(until: Callable[..., None]) -> None:
    place, raised = Place(), list[CommitLogError]()
    cache = place.cache(3)

    def fetch() -> None:
        try:
            cache.fetch(5)
        except CommitLogError as error:
            raised.append(error)

    fetching = threading.Thread(target=fetch)
    fetching.start()
    until(lambda: place.begun == [5])
    cache.close()
    place.free[5].set()
    fetching.join(LIMIT_S)
    assert [type(each) for each in raised] == [ClosedError]
    with pytest.raises(ClosedError, match="the log is closed"):
        cache.fetch(6)


def test_child_raises_forked_error_after_the_parent_closed() -> None:
    place = Place()
    cache = place.cache(3)
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.read(reads, 1)
            cache.forked()
            cache.fetch(5)
        except ForkedError:
            code = 0
        finally:
            os._exit(code)
    cache.close()
    os.write(writes, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(reads)
    os.close(writes)

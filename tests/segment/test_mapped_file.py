"""Holders of a segment: counted, named, awaited, and never left with unmapped memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from commitlog import CommitLog
from commitlog.errors import SegmentHeldError
from commitlog.log.parts import parts_of
from commitlog.segment import mapped_file_queue
from commitlog.segment.mapped_file_queue import MappedFile
from tests.setups import BY_HAND, HEADER, SEGMENT, Logs

pytestmark = pytest.mark.usefixtures("no_other_holders")


@pytest.fixture
def log(logs: Logs) -> CommitLog:
    log = logs.open(**BY_HAND)
    for _ in range(3):
        log.append_array(np.full((100, 16), 7, dtype=np.uint8))
        log.roll()
    return log


@pytest.fixture
def file(log: CommitLog) -> Iterator[MappedFile]:
    return parts_of(log).queue.get(1)


def test_holders_are_counted_and_named_with_the_time(file: MappedFile) -> None:
    before = time.time()
    first, second = file.hold("a reader"), file.hold("a view")
    assert None not in (first, second)
    assert first != second
    assert file.staying == ["a reader", "a view"]  # not those of the log's own threads
    assert all(
        before - 1 < since < time.time() + 1 for who, since in file.holders if who in file.staying
    )
    file.release(first)  # type: ignore[arg-type]
    file.release(first)  # type: ignore[arg-type]
    assert file.staying == ["a view"]


def test_holder_beyond_force_after_is_named_and_keeps_bytes(file: MappedFile) -> None:
    token = file.hold("the hung one")
    view = file.segment.view(HEADER, 32)
    with pytest.raises(SegmentHeldError, match="by the hung one for") as caught:
        file.drain(force_after=0.01)
    assert caught.value.path == file.path
    assert caught.value.position == SEGMENT
    assert [who for who, _ in caught.value.holders] == ["the hung one"]
    assert bytes(view)[16:] == b"\7" * 16
    assert file.hold("another") is not None
    assert token is not None


def test_brief_holder_is_awaited_even_with_force_after_zero(
    file: MappedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_file_queue, "_MOMENT_S", 60)
    token = file.hold("a moment", briefly=True)
    assert token is not None
    assert "a moment" in [who for who, _ in file.holders]
    assert "a moment" not in file.staying
    leaving = threading.Timer(0.01, file.release, [token])
    leaving.start()
    file.drain(force_after=0)
    leaving.join()
    assert file.hold("too late") is None


def test_drain_refuses_new_holders_and_awaits_the_last(
    file: MappedFile, until: Callable[..., None]
) -> None:
    token = file.hold("a reader")
    assert token is not None
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(file.drain, 30)
        until(lambda: file.hold("too late") is None)
        assert not going.done()
        file.release(token)
        going.result(timeout=60)
    file.unmap()
    with pytest.raises(ValueError, match="released"):
        file.segment.view(HEADER, 8)


def test_drain_during_concurrent_holds_completes(file: MappedFile) -> None:
    stopped = threading.Event()

    def use() -> int:
        held = 0
        while not stopped.is_set():
            token = file.hold("a thread")
            if token is None:
                break
            assert file.segment.read(HEADER + 16, 16) == b"\7" * 16
            file.release(token)
            held += 1
        return held

    with ThreadPoolExecutor(4) as pool:
        using = [pool.submit(use) for _ in range(4)]
        while not file.holders:
            pass
        file.drain(force_after=30)
        stopped.set()
        assert sum(thread.result() for thread in using) > 0
    assert file.holders == []

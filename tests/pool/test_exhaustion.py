"""Borrowing from an exhausted pool, under each policy."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from commitlog.errors import ClosedError, InvalidOptionError, PoolExhaustedError, PoolMemoryError
from commitlog.pool import TransientStorePool, allocation, waiting_line
from commitlog.pool.buffer import PoolBuffer
from commitlog.pool.transient_store_pool import buffers_of

Until = Callable[[Callable[[], bool]], None]


def small_pool(**options: Any) -> TransientStorePool:
    return TransientStorePool(
        **{"buffers": 1, "buffer_size": 64 << 10, "wait_timeout": "30s", **options}
    )


def drain(pool: TransientStorePool, owner: str = "orders") -> list[PoolBuffer]:
    lent = [buffers_of(pool).try_borrow(owner) for _ in range(pool.available)]
    return [buffer for buffer in lent if buffer is not None]


def give_back(pool: TransientStorePool, buffers: list[PoolBuffer]) -> None:
    for buffer in buffers:
        buffers_of(pool).return_buffer(buffer)


def test_waiting_borrower_gets_the_returned_buffer(until: Until) -> None:
    with small_pool() as pool:
        (buffer,) = drain(pool)
        got: list[PoolBuffer | None] = []
        waiter = threading.Thread(target=lambda: got.append(buffers_of(pool).borrow("waiter")))
        waiter.start()
        until(lambda: pool.stats().waits == 1)
        buffers_of(pool).return_buffer(buffer)
        waiter.join()
        assert got == [buffer]
        assert (buffer.owner, bytes(buffer.memory)) == ("waiter", bytes(buffer.size))
        stats = pool.stats()
        assert (stats.exhausted, stats.waits, stats.borrows, stats.available) == (1, 1, 2, 0)
        assert 0 < stats.wait_seconds < 30
        buffers_of(pool).return_buffer(buffer)


def test_waiting_borrowers_are_served_in_fifo_order(
    until: Until,
) -> None:
    with small_pool() as pool:
        (buffer,) = drain(pool)
        served: list[str] = []

        def borrow(name: str) -> None:
            lent = buffers_of(pool).borrow(name)
            assert lent is not None
            served.append(name)
            # A borrower that does not wait must not overtake the waiting ones.
            assert buffers_of(pool).try_borrow("pushing in") is None
            buffers_of(pool).return_buffer(lent)

        threads = []
        for number in range(5):
            threads.append(threading.Thread(target=borrow, args=(f"waiter {number}",)))
            threads[-1].start()
            until(lambda number=number: pool.stats().waits == number + 1)  # type: ignore[misc]
        buffers_of(pool).return_buffer(buffer)
        for thread in threads:
            thread.join()
        assert served == [f"waiter {number}" for number in range(5)]
        assert pool.available == 1


@pytest.mark.parametrize(
    "options",
    [
        {"wait_timeout": "50ms"},
        {"wait_timeout": "30s", "timeout": 0.05},
        {"wait_timeout": "30s", "timeout": 0},
    ],
)
def test_borrow_timeout_names_the_borrowers_and_remedies(options: dict[str, Any]) -> None:
    timeout = options.pop("timeout", None)
    with small_pool(buffers=2, **options) as pool:
        lent = drain(pool, "orders")
        started = time.monotonic()
        with pytest.raises(
            PoolExhaustedError,
            match=r"buffer 0 by 'orders' for .*buffer 1 by 'orders' for .*more buffers.*'grow' "
            r"or 'mapped'",
        ):
            buffers_of(pool).borrow("late", timeout)
        assert time.monotonic() - started < 30
        give_back(pool, lent)
        # A borrower that timed out is no longer in the queue.
        assert pool.available == 2


def test_policy_raise_raises_without_waiting() -> None:
    with small_pool(on_exhausted="raise") as pool:
        lent = drain(pool)
        with pytest.raises(
            PoolExhaustedError, match="no buffer is free; borrowed buffers: buffer 0 by 'orders'"
        ):
            buffers_of(pool).borrow("late")
        assert (pool.stats().exhausted, pool.stats().waits) == (1, 0)
        give_back(pool, lent)


def test_policy_mapped_returns_none() -> None:
    with small_pool(on_exhausted="mapped") as pool:
        lent = drain(pool)
        assert buffers_of(pool).borrow("late") is None
        assert (pool.stats().exhausted, pool.stats().waits) == (1, 0)
        give_back(pool, lent)
        buffer = buffers_of(pool).borrow("in time")
        assert buffer is not None
        buffers_of(pool).return_buffer(buffer)


@pytest.mark.parametrize("backing", ["anonymous", "shm"])
def test_grow_adds_buffers_up_to_the_bound_and_then_waits(backing: str) -> None:
    with small_pool(on_exhausted="grow", max_buffers=3, wait_timeout=0.05, backing=backing) as pool:
        recorded: list[str] = []
        unsubscribe = buffers_of(pool).on_grow(recorded.append)
        lent = drain(pool)
        for total in (2, 3):
            buffer = buffers_of(pool).borrow("grown")
            assert buffer is not None
            assert (pool.buffers, buffer.index, bytes(buffer.memory)) == (
                total,
                total - 1,
                bytes(buffer.size),
            )
            lent.append(buffer)
        with pytest.raises(PoolExhaustedError, match="within 0.05 s"):
            buffers_of(pool).borrow("late")
        stats = pool.stats()
        assert (stats.grown, stats.exhausted, stats.waits, stats.borrows) == (2, 3, 1, 3)
        assert recorded == ([buffer.name for buffer in lent[1:]] if backing == "shm" else [])
        assert buffers_of(pool).shm_names == tuple(
            buffer.name for buffer in lent if buffer.name is not None
        )
        unsubscribe()
        unsubscribe()
        give_back(pool, lent)
        assert pool.available == 3


def test_concurrent_grow_respects_max_buffers() -> None:
    with small_pool(on_exhausted="grow", max_buffers=4) as pool:
        barrier = threading.Barrier(12)

        def work() -> None:
            barrier.wait()
            for _ in range(20):
                buffer = buffers_of(pool).borrow("worker")
                assert buffer is not None
                assert buffer.memory.size == pool.buffer_size
                buffers_of(pool).return_buffer(buffer)

        threads = [threading.Thread(target=work) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert pool.available == pool.buffers <= 4
        assert pool.stats().borrows == 240


def test_grow_doubles_by_default() -> None:
    with small_pool(buffers=2, on_exhausted="grow", wait_timeout=0.01) as pool:
        lent = drain(pool)
        for _ in range(2):
            buffer = buffers_of(pool).borrow("grown")
            assert buffer is not None
            lent.append(buffer)
        with pytest.raises(PoolExhaustedError):
            buffers_of(pool).borrow("late")
        give_back(pool, lent)


def test_grow_without_memory_warns_and_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with small_pool(
        on_exhausted="grow", max_buffers=2, wait_timeout=0.01, lock_memory="off", low_water=0
    ) as pool:
        lent = drain(pool)

        def refuse(*_: object, **__: object) -> None:
            raise PoolMemoryError("it needs 2 bytes, but only 1 is free")

        monkeypatch.setattr(allocation, "require_free_memory", refuse)
        with (
            caplog.at_level(logging.WARNING, "commitlog.pool"),
            pytest.raises(PoolExhaustedError, match="within"),
        ):
            buffers_of(pool).borrow("late")
        buffers_of(pool).report()
        assert caplog.messages == [
            (
                "the pool cannot grow beyond 1 buffers, so the borrower waits: it needs 2 bytes, "
                "but only 1 is free"
            )
        ]
        assert pool.buffers == 1
        give_back(pool, lent)


def test_failing_grow_listener_discards_the_new_buffer() -> None:
    with small_pool(on_exhausted="grow", backing="shm") as pool:
        lent = drain(pool)
        seen: list[str] = []

        def fail(name: str) -> None:
            seen.append(name)
            raise OSError("the log's lock file cannot be written")

        buffers_of(pool).on_grow(fail)
        with pytest.raises(OSError, match="lock file"):
            buffers_of(pool).borrow("late")
        assert (pool.buffers, pool.stats().grown, len(seen)) == (1, 0, 1)
        assert seen[0] not in buffers_of(pool).shm_names
        give_back(pool, lent)


def test_forced_close_ends_every_wait_with_an_error(until: Until) -> None:
    pool = small_pool()
    (buffer,) = drain(pool)
    caught: list[Exception] = []

    def wait() -> None:
        try:
            buffers_of(pool).borrow("waiter")
        except ClosedError as error:
            caught.append(error)

    waiters = [threading.Thread(target=wait) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    until(lambda: pool.stats().waits == 3)
    pool.close(force=True)
    for waiter in waiters:
        waiter.join()
    assert len(caught) == 3
    buffers_of(pool).return_buffer(buffer)


def test_interrupted_wait_leaves_the_queue_and_no_buffer(until: Until) -> None:
    class StopWaitingError(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise StopWaitingError

    with small_pool() as pool:
        lent = drain(pool)

        def signal_when_waiting() -> None:
            until(lambda: pool.stats().waits == 1)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

        previous = signal.signal(signal.SIGUSR1, interrupt)
        sender = threading.Thread(target=signal_when_waiting)
        try:
            sender.start()
            with pytest.raises(StopWaitingError):
                buffers_of(pool).borrow("interrupted")
        finally:
            sender.join()
            signal.signal(signal.SIGUSR1, previous)
        give_back(pool, lent)
        assert (pool.available, pool.buffers - pool.available) == (1, 0)


def test_buffer_handed_over_during_an_interrupt_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupting(SimpleQueue[PoolBuffer | None]):
        """Hands a buffer over, then raises, like Ctrl-C between the two."""

        def get(self, block: bool = True, timeout: float | None = None) -> PoolBuffer | None:
            if self.empty():
                buffers_of(pool).return_buffer(buffer)
                raise KeyboardInterrupt
            return super().get(block, timeout)

    with small_pool() as pool:
        (buffer,) = drain(pool)
        monkeypatch.setattr(waiting_line, "SimpleQueue", Interrupting)
        with pytest.raises(KeyboardInterrupt):
            buffers_of(pool).borrow("interrupted")
        stats = pool.stats()
        assert (stats.available, stats.borrows, stats.returns) == (1, 1, 1)


def test_contradictory_max_buffers_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="max_buffers needs on_exhausted='grow'"):
        small_pool(max_buffers=2)
    with pytest.raises(InvalidOptionError, match=r"max_buffers must be at least buffers \(3\)"):
        small_pool(buffers=3, on_exhausted="grow", max_buffers=2)

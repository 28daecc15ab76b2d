from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from commitlog.errors import ClosedError, ForkedError, PoolBufferError, PoolMemoryError
from commitlog.pool import TransientStorePool, allocation
from commitlog.pool.buffer import BufferState, PoolBuffer
from commitlog.pool.transient_store_pool import buffers_of

BUFFER_SIZE = 64 << 10
BACKINGS = ["anonymous", "shm"]


@pytest.fixture(params=BACKINGS)
def backing(request: pytest.FixtureRequest) -> Any:
    return request.param


def small_pool(**options: Any) -> TransientStorePool:
    return TransientStorePool(**{"buffers": 2, "buffer_size": BUFFER_SIZE, **options})


def borrow(pool: TransientStorePool, owner: str = "a test") -> PoolBuffer:
    buffer = buffers_of(pool).borrow(owner)
    assert buffer is not None
    return buffer


def fill(buffer: PoolBuffer, byte: bytes = b"\xff") -> None:
    with memoryview(buffer.memory) as view:
        view[:] = byte * buffer.size


def contents(buffer: PoolBuffer) -> bytes:
    return bytes(buffer.memory)


def test_pool_defaults_are_five_anonymous_64_mib_buffers() -> None:
    with TransientStorePool(lock_memory="off") as pool:
        assert (pool.buffers, pool.available, pool.buffers - pool.available) == (5, 5, 0)
        assert (pool.buffer_size, pool.backing, pool.stats().locked) == (64 << 20, "anonymous", 0)


def test_borrowed_buffer_is_zero_writable_and_sized_as_asked(backing: Any) -> None:
    with small_pool(backing=backing, buffer_size="68KiB") as pool:
        buffer = borrow(pool, "orders")
        assert (buffer.size, buffer.memory.size, buffer.backing, buffer.owner) == (
            68 << 10,
            68 << 10,
            backing,
            "orders",
        )
        assert buffer.state is BufferState.BORROWED
        assert contents(buffer) == bytes(68 << 10)
        fill(buffer)
        assert (pool.available, pool.buffers - pool.available) == (1, 1)
        buffers_of(pool).return_buffer(buffer)
        assert (pool.available, pool.buffers - pool.available) == (2, 0)


def test_returned_buffer_is_zeroed_and_reused_first(backing: Any) -> None:
    with small_pool(buffers=3, backing=backing) as pool:
        first, second = borrow(pool), borrow(pool)
        assert [first.index, second.index] == [0, 1]
        fill(first)
        fill(second)
        buffers_of(pool).return_buffer(second)
        buffers_of(pool).return_buffer(first)
        again = borrow(pool)
        assert again is first
        assert contents(again) == bytes(BUFFER_SIZE)
        buffers_of(pool).return_buffer(again)


def test_return_clears_the_binding_before_zeroing() -> None:
    """Otherwise recovery after a kill in between would take half-zeroed records for a torn tail."""

    class Watched:
        holds = 0

        def zero(self, start: int, stop: int) -> None:
            seen.append((buffer.bound, buffer.state, pool.available, start, stop))
            memory.zero(start, stop)

    seen: list[tuple[object, ...]] = []
    with small_pool(backing="shm") as pool:
        buffer = borrow(pool)
        buffer.bind(b"u" * 16, 0, 1)
        assert buffer.bound
        memory = buffer.memory
        buffer.memory = Watched()  # type: ignore[assignment]
        buffers_of(pool).return_buffer(buffer)
        buffer.memory = memory
    assert seen == [(False, BufferState.RETURNING, 1, 0, BUFFER_SIZE)]


def test_second_return_of_a_buffer_is_refused(backing: Any) -> None:
    with small_pool(backing=backing) as pool:
        buffer = borrow(pool)
        buffers_of(pool).return_buffer(buffer)
        with pytest.raises(PoolBufferError, match=r"buffer 0 is not borrowed \(free\)"):
            buffers_of(pool).return_buffer(buffer)
        assert (pool.available, pool.stats().returns) == (2, 1)


def test_return_to_another_pool_is_refused(backing: Any) -> None:
    with small_pool(backing=backing) as pool, small_pool(backing=backing) as other:
        mine, foreign = borrow(pool), borrow(other)
        fill(foreign)
        with pytest.raises(PoolBufferError, match="belongs to another pool"):
            buffers_of(pool).return_buffer(foreign)
        assert contents(foreign) == b"\xff" * BUFFER_SIZE
        with pytest.raises(PoolBufferError, match="not bytes"):
            buffers_of(pool).return_buffer(b"buffer")  # type: ignore[arg-type]
        buffers_of(pool).return_buffer(mine)
        buffers_of(other).return_buffer(foreign)


def test_return_with_an_open_view_is_refused_and_keeps_bytes() -> None:
    with small_pool() as pool:
        buffer = borrow(pool)
        fill(buffer)
        with memoryview(buffer.memory), pytest.raises(PoolBufferError, match="1 views or users"):
            buffers_of(pool).return_buffer(buffer)
        assert contents(buffer) == b"\xff" * BUFFER_SIZE
        buffers_of(pool).return_buffer(buffer)


@pytest.mark.parametrize("buffers", [1, 2, 5])
def test_pool_under_load_lends_each_buffer_to_one_thread(buffers: int, backing: Any) -> None:
    threads, rounds = 6, 60
    faults: list[str] = []
    inside = [0] * buffers

    def work(number: int) -> None:
        mark = bytes([number + 1])
        for _ in range(rounds):
            buffer = borrow(pool, f"thread {number}")
            inside[buffer.index] += 1
            if contents(buffer).strip(b"\0") or inside[buffer.index] != 1:
                faults.append(f"buffer {buffer.index} was not zero or not alone")
            fill(buffer, mark)
            if contents(buffer) != mark * BUFFER_SIZE:
                faults.append(f"buffer {buffer.index} was written by another thread")
            inside[buffer.index] -= 1
            buffers_of(pool).return_buffer(buffer)

    with small_pool(buffers=buffers, backing=backing, wait_timeout="60s", low_water=0) as pool:
        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        stats = pool.stats()
    assert faults == []
    assert (stats.available, stats.borrows, stats.returns) == (
        buffers,
        threads * rounds,
        threads * rounds,
    )


def test_try_borrow_never_waits_and_counts_no_exhaustion() -> None:
    with small_pool(buffers=1, wait_timeout="60s") as pool:
        buffer = buffers_of(pool).try_borrow("ahead of need")
        assert buffer is not None
        assert buffers_of(pool).try_borrow("ahead of need") is None
        assert (pool.stats().exhausted, pool.stats().waits, pool.stats().borrows) == (0, 0, 1)
        buffers_of(pool).return_buffer(buffer)


@pytest.mark.parametrize(
    ("share", "total", "steps", "warned"),
    [
        (0.4, 5, "bbbbb", [0, 0, 0, 1, 1]),
        (0.4, 5, "bbbbrbrb", [0, 0, 0, 1, 2, 3]),
        (0.4, 5, "bbbbbrb", [0, 0, 0, 1, 1, 1]),
        (0.4, 2, "bb", [0, 1]),
        (0.0, 2, "bb", [0, 0]),
        (0.4, 1, "brbrb", [0, 0, 0]),  # the first loan empties it
        (0.9, 5, "bbbbb", [0, 0, 0, 0, 0]),
    ],
)
def test_low_water_warns_on_fall_and_again_only_after_rise(
    share: float, total: int, steps: str, warned: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """Plays borrows (b) and returns (r), and counts the warnings after each borrow."""
    with small_pool(buffers=total, lock_memory="off", low_water=share) as pool:
        lent, counts = [], []
        for step in steps:
            if step == "b":
                lent.append(borrow(pool))
                counts.append(pool.stats().low_water_warnings)
            else:
                buffers_of(pool).return_buffer(lent.pop())
        assert counts == warned
        buffers_of(pool).report()
        assert len(caplog.messages) == warned[-1]
        if (total, warned[-1]) == (5, 1):
            assert "1 of 5 buffers are free" in caplog.messages[0]
        for buffer in lent:
            buffers_of(pool).return_buffer(buffer)


def test_stats_are_a_snapshot() -> None:
    with small_pool() as pool:
        before = pool.stats()
        buffers_of(pool).return_buffer(borrow(pool))
        assert (before.borrows, before.returns) == (0, 0)
        assert (pool.stats().borrows, pool.stats().returns) == (1, 1)


def test_close_with_lent_buffers_is_refused_then_is_idempotent(backing: Any) -> None:
    pool = small_pool(backing=backing)
    buffer = borrow(pool, "orders")
    with pytest.raises(PoolBufferError, match=r"buffer 0 by 'orders' for \d"):
        pool.close()
    buffers_of(pool).return_buffer(buffer)
    pool.close()
    pool.close()
    assert (pool.closed, pool.available, buffers_of(pool).shm_names) == (True, 0, ())
    for call in (
        lambda: buffers_of(pool).borrow("x"),
        lambda: buffers_of(pool).try_borrow("x"),
        lambda: buffers_of(pool).return_buffer(buffer),
    ):
        with pytest.raises(ClosedError, match="create another"):
            call()


def test_forced_close_leaves_lent_buffers_until_their_return(
    backing: Any,
) -> None:
    pool = small_pool(backing=backing)
    buffer = borrow(pool)
    pool.close(force=True)
    fill(buffer)
    assert contents(buffer) == b"\xff" * BUFFER_SIZE
    buffers_of(pool).return_buffer(buffer)
    assert (buffer.state, buffer.memory.closed) == (BufferState.GONE, True)
    with pytest.raises(ClosedError):
        buffers_of(pool).return_buffer(buffer)


def test_dropped_pool_warns_and_releases_memory_and_names(backing: Any) -> None:
    pools = [small_pool(backing=backing)]
    memory, names = pools[0]._set.all[0].memory, buffers_of(pools[0]).shm_names
    with pytest.warns(ResourceWarning, match="was not closed"):
        pools.clear()
    assert memory.closed
    assert not any(os.path.exists(f"/dev/shm{name}") for name in names)


def test_forked_child_cannot_use_the_pool(
    in_child: Callable[[Callable[[], Any]], Any], backing: Any
) -> None:
    with small_pool(backing=backing) as pool:
        buffer = borrow(pool)
        fill(buffer)

        def misuse() -> int:
            calls: list[Callable[[], Any]] = [
                lambda: buffers_of(pool).borrow("child"),
                lambda: buffers_of(pool).try_borrow("child"),
                lambda: buffers_of(pool).return_buffer(buffer),
                pool.stats,
            ]
            refused = 0
            for call in calls:
                with pytest.raises(ForkedError, match="belongs to the parent process"):
                    call()
                refused += 1
            pool.close(force=True)
            return refused

        assert in_child(misuse) == 4
        assert contents(buffer) == b"\xff" * BUFFER_SIZE
        buffers_of(pool).return_buffer(buffer)
        assert pool.available == 2


def test_fork_with_the_lock_held_refuses_child_without_deadlock(
    in_child: Callable[[Callable[[], Any]], Any],
) -> None:
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with buffers_of(pool)._turn.taken():
            held.set()
            release.wait(30)

    def misuse() -> bool:
        with pytest.raises(ForkedError):
            buffers_of(pool).borrow("child")
        pool.close()
        return True

    with small_pool() as pool:
        holder = threading.Thread(target=hold)
        holder.start()
        assert held.wait(30)
        assert in_child(misuse)
        release.set()
        holder.join()


def test_closed_pools_leak_no_descriptor(backing: Any) -> None:
    gc.collect()  # garbage of other tests must not be freed between the counts
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        small_pool(backing=backing).close()
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_pool_that_fails_halfway_releases_its_buffers(
    backing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[PoolBuffer] = []

    def populate_two(buffer: PoolBuffer) -> None:
        made.append(buffer)
        if len(made) == 2:
            raise PoolMemoryError("no more")

    monkeypatch.setattr(allocation, "_populate", populate_two)
    gc.collect()  # garbage of other tests must not be freed between the counts
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(PoolMemoryError, match="no more"):
        small_pool(buffers=3, backing=backing)
    assert [buffer.memory.closed for buffer in made] == [True, True]
    assert not any(os.path.exists(f"/dev/shm{buffer.name}") for buffer in made)
    assert sorted(os.listdir("/proc/self/fd")) == before

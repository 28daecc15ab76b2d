"""Buffers that are lent ahead of need, and given back to a borrower that needs one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from commitlog.errors import PoolExhaustedError
from commitlog.pool import TransientStorePool
from commitlog.pool.buffer import PoolBuffer
from commitlog.pool.transient_store_pool import buffers_of

Until = Callable[[Callable[[], bool]], None]


def small_pool(**options: Any) -> TransientStorePool:
    return TransientStorePool(
        **{"buffers": 1, "buffer_size": 64 << 10, "lock_memory": "off", **options}
    )


def borrow_ahead(pool: TransientStorePool) -> PoolBuffer:
    buffer = buffers_of(pool).try_borrow("ahead", ahead=True)
    assert buffer is not None
    return buffer


@pytest.mark.parametrize("policy", ["raise", "wait", "grow", "mapped"])
def test_shortage_brings_back_a_buffer_lent_ahead(policy: Any) -> None:
    with small_pool(on_exhausted=policy) as pool:
        lent = [borrow_ahead(pool)]

        def give_back() -> bool:
            if lent:
                buffers_of(pool).return_buffer(lent.pop(), written=False)
                return True
            return False

        unsubscribe = buffers_of(pool).on_shortage(give_back)
        buffer = buffers_of(pool).borrow("in need")
        assert buffer is not None
        assert (pool.buffers, pool.stats().exhausted, buffer.ahead) == (1, 0, False)
        buffers_of(pool).return_buffer(buffer)
        lent.append(borrow_ahead(pool))
        unsubscribe()
        unsubscribe()
        if policy == "raise":
            with pytest.raises(PoolExhaustedError):
                buffers_of(pool).borrow("in need")
        give_back()


def test_first_listener_that_returns_a_buffer_ends_the_search() -> None:
    with small_pool(on_exhausted="raise") as pool:
        lent = borrow_ahead(pool)
        asked = []

        def has_none() -> bool:
            asked.append("none")
            return False

        def has_one() -> bool:
            asked.append("one")
            buffers_of(pool).return_buffer(lent, written=False)
            return True

        for listener in (has_none, has_one, has_none):
            buffers_of(pool).on_shortage(listener)
        buffer = buffers_of(pool).borrow("in need")
        assert asked == ["none", "one"]
        assert buffer is lent
        buffers_of(pool).return_buffer(lent)


def test_no_buffer_is_lent_ahead_while_a_borrower_is_short(until: Until) -> None:
    with small_pool(wait_timeout=60) as pool:
        lent = borrow_ahead(pool)
        found: list[PoolBuffer | None] = []

        def give_back_and_take_again() -> bool:
            buffers_of(pool).return_buffer(lent, written=False)
            found.append(buffers_of(pool).try_borrow("ahead", ahead=True))
            return True

        buffers_of(pool).on_shortage(give_back_and_take_again)
        borrower = threading.Thread(target=lambda: found.append(buffers_of(pool).borrow("in need")))
        borrower.start()
        borrower.join(60)
        assert found == [None, lent]
        buffers_of(pool).return_buffer(lent)
        assert borrow_ahead(pool) is lent
        buffers_of(pool).return_buffer(lent)


def test_buffer_lent_ahead_counts_for_low_water_once_settled() -> None:
    with small_pool(buffers=2, low_water=0.5) as pool:
        first = buffers_of(pool).borrow("a log")
        ahead = borrow_ahead(pool)
        assert first is not None
        assert pool.stats().low_water_warnings == 0
        buffers_of(pool).settle(ahead)
        assert pool.stats().low_water_warnings == 1
        buffers_of(pool).settle(ahead)
        assert pool.stats().low_water_warnings == 1
        buffers_of(pool).return_buffer(first)
        buffers_of(pool).return_buffer(ahead)


def test_buffer_returned_unwritten_keeps_its_bytes() -> None:
    """It is zero as it was lent; a byte shows that the pool did not zero it again."""
    with small_pool() as pool:
        buffer = borrow_ahead(pool)
        with memoryview(buffer.memory) as view:
            view[5] = 7
        buffers_of(pool).return_buffer(buffer, written=False)
        assert bytes(buffer.memory)[5] == 7
        assert pool.stats().returns == 1

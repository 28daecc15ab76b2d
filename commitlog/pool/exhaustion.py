"""Exhaustion: what a borrow does when a pool has no free buffer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from commitlog.errors import PoolExhaustedError, PoolMemoryError
from commitlog.pool.allocation import allocate_buffers, destroy_buffers
from commitlog.pool.buffer import PoolBuffer, describe_lent
from commitlog.pool.buffer_set import BufferSet
from commitlog.pool.pool_options import PoolOptions

_logger = logging.getLogger("commitlog.pool")
_Listener = TypeVar("_Listener", bound=Callable[..., object])


class Exhaustion:
    """Ask for buffers that are lent ahead of need; then raise, grow or wait, as the options say."""

    def __init__(self, options: PoolOptions, buffers: BufferSet) -> None:
        self.grow_listeners: list[Callable[[str], None]] = []
        self.shortage_listeners: list[Callable[[], bool]] = []
        self._options = options
        self._buffers = buffers
        self._growing = 0

    def subscribe(self, listeners: list[_Listener], listener: _Listener) -> Callable[[], None]:
        """Add a listener; return what removes it."""
        lock = self._buffers.lock
        with lock:
            listeners.append(listener)

        def unsubscribe() -> None:
            with lock:
                if listener in listeners:
                    listeners.remove(listener)

        return unsubscribe

    def borrow(self, owner: str, seconds: float) -> PoolBuffer | None:
        """Lend a buffer though none is free; None if the policy is to use no buffer."""
        buffers = self._buffers
        with buffers.lock:
            buffers.short += 1
        try:
            return self._borrow(owner, seconds)
        finally:
            with buffers.lock:
                buffers.short -= 1

    def _borrow(self, owner: str, seconds: float) -> PoolBuffer | None:
        buffer = self._reclaim(owner)
        if buffer is not None:
            return buffer
        with self._buffers.lock:
            self._buffers.counters.exhausted += 1
        if self._options.on_exhausted == "mapped":
            return None
        if self._options.on_exhausted == "raise":
            raise PoolExhaustedError(self._message("no buffer is free"))
        if self._options.on_exhausted == "grow":
            buffer = self._grow(owner)
        if buffer is None:
            buffer = self._buffers.wait(owner, seconds)
        if buffer is None:
            raise PoolExhaustedError(self._message(f"no buffer became free within {seconds:g} s"))
        return buffer

    def _reclaim(self, owner: str) -> PoolBuffer | None:
        with self._buffers.lock:
            listeners = list(self.shortage_listeners)
        for listener in listeners:
            if listener():
                buffer = self._buffers.borrow_free(owner)
                if buffer is not None:
                    return buffer
        return None

    def _grow(self, owner: str) -> PoolBuffer | None:
        """Add a buffer and lend it; None if `max_buffers` or the memory does not allow it."""
        buffers = self._buffers
        with buffers.lock:
            buffers.check_open()
            if len(buffers.all) + self._growing >= self._options.most_buffers:
                return None
            self._growing += 1
            listeners = list(self.grow_listeners)
        made: list[PoolBuffer] = []
        try:
            made = allocate_buffers(self._options, 1)
            if made[0].name is not None:
                for listener in listeners:
                    listener(made[0].name)
            with buffers.lock:
                buffers.check_open()
                return buffers.adopt(made.pop(), owner)
        except PoolMemoryError as error:
            _logger.warning(
                "the pool cannot grow beyond %d buffers, so the borrower waits: %s",
                len(buffers.all),
                error,
            )
            return None
        finally:
            with buffers.lock:
                self._growing -= 1
            destroy_buffers(made)

    def _message(self, what: str) -> str:
        return (
            f"{what}; borrowed buffers: {describe_lent(self._buffers.out())}. Commit faster, give "
            "the pool more buffers or a longer wait_timeout, or choose on_exhausted='grow' or "
            "'mapped'"
        )

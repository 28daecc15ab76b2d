"""The options of a pool, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from commitlog.base.option import chosen, counted, sized
from commitlog.base.units import parse_duration
from commitlog.errors import InvalidOptionError
from commitlog.options import PAGE_SIZE, SEGMENT_SIZE_LARGEST, SEGMENT_SIZE_SMALLEST

Backing = Literal["anonymous", "shm"]
LockMemory = Literal["try", "require", "off"]
OnExhausted = Literal["wait", "raise", "grow", "mapped"]

MOST_BUFFERS = 65536
_count = counted(MOST_BUFFERS, smallest=1)
_buffer_size = sized(SEGMENT_SIZE_SMALLEST, SEGMENT_SIZE_LARGEST, multiple=PAGE_SIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """Options of a `TransientStorePool` in bytes and seconds."""

    buffers: int
    buffer_size: int
    backing: Backing
    lock_memory: LockMemory
    on_exhausted: OnExhausted
    max_buffers: int
    wait_timeout: float
    low_water: float


def check_pool_options(
    *,
    buffers: int,
    buffer_size: int | str,
    backing: Backing,
    lock_memory: LockMemory,
    on_exhausted: OnExhausted,
    max_buffers: int | None,
    wait_timeout: float | str,
    low_water: float,
) -> PoolOptions:
    """Check every option and convert it to bytes or seconds.

    Raises
    ------
    InvalidOptionError
        An option has a wrong type, is out of its range, or contradicts another.
    """
    count = _count(buffers, "buffers")
    return PoolOptions(
        buffers=count,
        buffer_size=_buffer_size(buffer_size, "buffer_size"),
        backing=chosen(get_args(Backing))(backing, "backing"),
        lock_memory=chosen(get_args(LockMemory))(lock_memory, "lock_memory"),
        on_exhausted=chosen(get_args(OnExhausted))(on_exhausted, "on_exhausted"),
        max_buffers=_check_max_buffers(max_buffers, count, on_exhausted),
        wait_timeout=parse_duration(wait_timeout, "wait_timeout"),
        low_water=_check_low_water(low_water),
    )


def _check_max_buffers(value: int | None, buffers: int, on_exhausted: OnExhausted) -> int:
    if on_exhausted != "grow":
        if value is not None:
            raise InvalidOptionError(
                f"max_buffers needs on_exhausted='grow', not {on_exhausted!r}: leave it out"
            )
        return buffers
    if value is None:
        return 2 * buffers
    most = _count(value, "max_buffers")
    if most < buffers:
        raise InvalidOptionError(f"max_buffers must be at least buffers ({buffers}), not {most}")
    return most


def _check_low_water(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise InvalidOptionError(
            "low_water must be a share of the buffers from 0 (never warn) up to but not "
            f"including 1, not {value!r}"
        )
    return float(value)

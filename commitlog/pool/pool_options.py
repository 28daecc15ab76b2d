"""The knobs of a pool, checked once."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Literal, SupportsIndex, get_args

from commitlog.base.units import parse_duration, parse_size
from commitlog.errors import InvalidOptionError

Backing = Literal["anonymous", "shm"]
LockMemory = Literal["try", "require", "off"]
OnExhausted = Literal["wait", "raise", "grow", "mapped"]

SMALLEST_BUFFER = 64 << 10
LARGEST_BUFFER = 1 << 30
BUFFER_STEP = 4096
MOST_BUFFERS = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """Options of a `TransientStorePool` in the pool's own units: bytes and seconds."""

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
    """Check every option and bring it into the pool's units.

    Raises
    ------
    InvalidOptionError
        One is of the wrong type, out of its range, or contradicts another; the message names it.
    """
    _check_choice("backing", backing, get_args(Backing))
    _check_choice("lock_memory", lock_memory, get_args(LockMemory))
    _check_choice("on_exhausted", on_exhausted, get_args(OnExhausted))
    count = _check_count("buffers", buffers)
    return PoolOptions(
        buffers=count,
        buffer_size=_check_buffer_size(buffer_size),
        backing=backing,
        lock_memory=lock_memory,
        on_exhausted=on_exhausted,
        max_buffers=_check_max_buffers(max_buffers, count, on_exhausted),
        wait_timeout=parse_duration(wait_timeout, "wait_timeout"),
        low_water=_check_low_water(low_water),
    )


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidOptionError(
            f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}"
        )


def _check_count(name: str, value: SupportsIndex) -> int:
    count = -1
    if not isinstance(value, bool):
        try:
            count = operator.index(value)
        except TypeError:
            count = -1
    if not 1 <= count <= MOST_BUFFERS:
        raise InvalidOptionError(
            f"{name} must be a whole number from 1 to {MOST_BUFFERS}, not {value!r}"
        )
    return count


def _check_buffer_size(value: int | str) -> int:
    size = parse_size(value, "buffer_size")
    if not SMALLEST_BUFFER <= size <= LARGEST_BUFFER or size % BUFFER_STEP:
        raise InvalidOptionError(
            f"buffer_size must be a multiple of 4 KiB from 64 KiB to 1 GiB, not {value!r}"
        )
    return size


def _check_max_buffers(value: int | None, buffers: int, on_exhausted: OnExhausted) -> int:
    if on_exhausted != "grow":
        if value is not None:
            raise InvalidOptionError(
                "max_buffers means something with on_exhausted='grow' only, not with "
                f"{on_exhausted!r}; leave it out"
            )
        return buffers
    if value is None:
        return 2 * buffers
    most = _check_count("max_buffers", value)
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

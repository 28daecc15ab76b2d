"""The options of a pool, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from commitlog.base.option import Option, chosen, counted, optional, sized
from commitlog.base.units import Duration, Size, parse_duration
from commitlog.errors import InvalidOptionError
from commitlog.options import PAGE_SIZE, SEGMENT_SIZE_LARGEST, SEGMENT_SIZE_SMALLEST

Backing = Literal["anonymous", "shm"]
LockMemory = Literal["try", "require", "off"]
OnExhausted = Literal["wait", "raise", "grow", "mapped"]

MOST_BUFFERS = 65536
_count = counted(MOST_BUFFERS, smallest=1)
_buffer_size = sized(SEGMENT_SIZE_SMALLEST, SEGMENT_SIZE_LARGEST, multiple=PAGE_SIZE)


def _low_water(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise InvalidOptionError(
            f"{name} must be a share of the buffers from 0 (never warn) up to but not "
            f"including 1, not {value!r}"
        )
    return float(value)


@dataclass(frozen=True, kw_only=True)
class PoolOptions:
    """Options of a `TransientStorePool`, which documents them."""

    buffers: Option[int, int] = Option(5, _count)
    buffer_size: Option[int, Size] = Option("64MiB", _buffer_size)
    backing: Option[Backing, Backing] = Option("anonymous", chosen(get_args(Backing)))
    lock_memory: Option[LockMemory, LockMemory] = Option("try", chosen(get_args(LockMemory)))
    on_exhausted: Option[OnExhausted, OnExhausted] = Option("wait", chosen(get_args(OnExhausted)))
    max_buffers: Option[int | None, int | None] = Option(None, optional(_count))
    wait_timeout: Option[float, Duration] = Option(5.0, parse_duration)
    low_water: Option[float, float] = Option(0.4, _low_water)

    def __post_init__(self) -> None:
        if self.max_buffers is None:
            return
        if self.on_exhausted != "grow":
            raise InvalidOptionError(
                f"max_buffers needs on_exhausted='grow', not {self.on_exhausted!r}: leave it out"
            )
        if self.max_buffers < self.buffers:
            raise InvalidOptionError(
                f"max_buffers must be at least buffers ({self.buffers}), not {self.max_buffers}"
            )

    @property
    def most_buffers(self) -> int:
        """Return how many buffers the pool may grow to."""
        if self.max_buffers is not None:
            return self.max_buffers
        return 2 * self.buffers if self.on_exhausted == "grow" else self.buffers

"""What a pool has done so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class PoolStats:
    """Hold a snapshot of a `TransientStorePool`'s counters.

    Attributes
    ----------
    buffers : int
        All buffers, including lent ones.
    available : int
        Free buffers.
    locked : int
        Buffers that are locked into RAM.
    borrows, returns : int
        Buffers lent and taken back.
    waits : int
        Borrows that had to wait, whether or not they got a buffer.
    wait_seconds : float
        Time spent in those waits.
    exhausted : int
        Borrows that found no free buffer, under any policy; `try_borrow` does not count.
    grown : int
        Buffers added under ``on_exhausted="grow"``.
    low_water_warnings : int
        Times that a borrow left too few buffers.
    """

    buffers: int = 0
    available: int = 0
    locked: int = 0
    borrows: int = 0
    returns: int = 0
    waits: int = 0
    wait_seconds: float = 0.0
    exhausted: int = 0
    grown: int = 0
    low_water_warnings: int = 0

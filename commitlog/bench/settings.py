"""The sizes and durations of a run."""

from __future__ import annotations

from dataclasses import dataclass

from commitlog.base.units import GIB, MIB


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes in bytes, times in seconds, all for one turn of one case; the results keep them."""

    # How often each case is measured; the two long workloads have numbers of their own.
    turns: int = 5
    paced_turns: int = 3
    sustained_turns: int = 2
    # Bursts: the bytes without a rest and in all, and the rest, in which the log pre-faults.
    burst_bytes: int = 32 * MIB
    append_bytes: int = 64 * MIB
    rest_s: float = 0.01
    settle_s: float = 10.0  # the longest wait for the disk to finish earlier writes
    sync_s: float = 0.5
    paced_s: float = 15.0
    rate: int = 200_000_000  # bytes of values a second
    sustained_bytes: int = 8 * GIB
    segment_size: int = 64 * MIB  # and of a pool's buffer
    buffers: int = 5
    quick: bool = False  # the sizes are too small for the figures to mean anything


QUICK = Settings(
    turns=1,
    burst_bytes=MIB // 2,
    append_bytes=MIB // 2,
    rest_s=0.001,
    settle_s=0.0,
    sync_s=0.005,
    paced_s=0.1,
    paced_turns=1,
    rate=20_000_000,
    sustained_bytes=8 * MIB,
    sustained_turns=1,
    segment_size=MIB,
    buffers=4,
    quick=True,
)

"""What a run measures: its cases, their setups, and the sizes and durations of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from commitlog.base.units import GIB, MIB
from commitlog.options import Flush


@dataclass(frozen=True)
class Setup:
    """The memory that appends write to: a pool's, or the mapped log's if `backing` is None."""

    name: str
    title: str
    backing: Literal["anonymous", "shm"] | None = None
    prefault: bool = True


SETUPS = {
    setup.name: setup
    for setup in (
        Setup("mapped-cold", "no pool, no pre-faulting", prefault=False),
        Setup("mapped", "no pool"),
        Setup("pooled", "pool", backing="anonymous"),
        Setup("pooled-shm", "pool in shared memory", backing="shm"),
    )
}


@dataclass(frozen=True)
class Case:
    workload: str
    setup: str  # a name from `SETUPS`, or the baseline's name
    flush: Flush | None = None
    value_size: int = 0
    form: str = ""  # how records are appended, if there are several ways
    threads: int = 1

    @property
    def baseline(self) -> bool:
        return self.setup not in SETUPS

    @property
    def name(self) -> str:
        """Return the unique name of the case, its parts separated by slashes."""
        size = f"{self.value_size}B" if self.value_size else ""
        threads = f"{self.threads}-threads" if self.threads > 1 else ""
        parts = (self.workload, self.form, size, self.flush, threads, self.setup)
        return "/".join(filter(None, parts))


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

"""A case: one combination of workload, setup, flush option, size, form and threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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

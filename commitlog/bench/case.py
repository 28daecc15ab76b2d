"""A case: one combination of workload, setup, flush option, size, form and threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from commitlog.options import Flush


@dataclass(frozen=True)
class Setup:
    """The memory that appends write to.

    Attributes
    ----------
    name, title : str
        The name in that of a case, and the heading.
    backing : str or None
        The memory of the pool; None for a mapped log.
    prefault : bool
        Whether a mapped log pre-faults pages ahead of its tail.
    """

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
    """A case, measured once in each turn.

    Attributes
    ----------
    workload : str
        The name of the workload.
    setup : str
        A name from `SETUPS`, or the baseline's name.
    flush : str or None
        Flush option; None if it does not matter.
    value_size : int
        Bytes of each value.
    form : str
        How records are appended; empty if there is one way.
    threads : int
        The number of appending threads.
    """

    workload: str
    setup: str
    flush: Flush | None = None
    value_size: int = 0
    form: str = ""
    threads: int = 1

    @property
    def baseline(self) -> bool:
        """Return whether the case measures the machine without commitlog."""
        return self.setup not in SETUPS

    @property
    def name(self) -> str:
        """Return the unique name of the case, its parts separated by slashes."""
        size = f"{self.value_size}B" if self.value_size else ""
        threads = f"{self.threads}-threads" if self.threads > 1 else ""
        parts = (self.workload, self.form, size, self.flush, threads, self.setup)
        return "/".join(filter(None, parts))

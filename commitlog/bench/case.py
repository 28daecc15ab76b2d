"""A case: one cell of the table of measurements, and what its name is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from commitlog.options import Flush

Backing = Literal["anonymous", "shm"]


@dataclass(frozen=True)
class Setup:
    """Where a log's bytes live before they are committed.

    Attributes
    ----------
    name, title : str
        As in the name of a case, and for people.
    backing : str or None
        The pool's, for a pooled log.
    prefault : bool
        Whether a mapped log brings pages in ahead of the appends.
    """

    name: str
    title: str
    backing: Backing | None = None
    prefault: bool = True


SETUPS = {
    setup.name: setup
    for setup in (
        Setup("mapped-cold", "mapped, not pre-faulted", prefault=False),
        Setup("mapped", "mapped, pre-faulted"),
        Setup("pooled", "pooled, anonymous", backing="anonymous"),
        Setup("pooled-shm", "pooled, shared memory", backing="shm"),
    )
}


@dataclass(frozen=True)
class Case:
    """One thing that is measured, several times.

    Attributes
    ----------
    workload : str
        Its line in the table of workloads.
    setup : str
        A name from `SETUPS`, or the baseline's own name.
    flush : str or None
        The flush option; None where the log plays no part.
    value_size : int
        Bytes of each value.
    form : str
        How records are appended or read; empty where there is one way only.
    threads : int
        How many append.
    """

    workload: str
    setup: str
    flush: Flush | None = None
    value_size: int = 0
    form: str = ""
    threads: int = 1

    @property
    def baseline(self) -> bool:
        """Whether it measures something else than commitlog, to compare with."""
        return self.setup not in SETUPS

    @property
    def name(self) -> str:
        """All that tells it from others, parted by slashes."""
        size = f"{self.value_size}B" if self.value_size else ""
        threads = f"{self.threads}-threads" if self.threads > 1 else ""
        return "/".join(
            part
            for part in (self.workload, self.form, size, self.flush or "", threads, self.setup)
            if part
        )

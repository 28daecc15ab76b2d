"""The rows of the tuning table: the defaults, and each knob turned by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from commitlog import Tuning

MAPPED, POOLED, POOLED_SHM = "mapped", "pooled", "pooled-shm"


@dataclass(frozen=True)
class Knob:
    """A row: a setup of `commitlog bench`, and what is not as it is by default.

    `cycle_s` is the longest time between two rounds of its services: a kill comes up to two of them
    after the first append.
    """

    setup: str
    options: dict[str, Any] = field(default_factory=dict)
    tuning: dict[str, Any] = field(default_factory=dict)
    pool: dict[str, Any] = field(default_factory=dict)
    threads: int = 1
    cycle_s: float = 0.6

    @property
    def name(self) -> str:
        """As a program would write it."""
        tuning = f"tuning=Tuning({_said(self.tuning)})" if self.tuning else ""
        pool = {**({"backing": "shm"} if self.setup == POOLED_SHM else {}), **self.pool}
        said = ", ".join(filter(None, (_said(self.options), tuning, _said(pool)))) or "the defaults"
        return said if self.threads == 1 else f"{said}, {self.threads} threads"

    @property
    def log_options(self) -> dict[str, Any]:
        """What the log is opened with."""
        return self.options | ({"tuning": Tuning(**self.tuning)} if self.tuning else {})

    @property
    def flush(self) -> str:
        """The flush option in force."""
        flush: str = self.options.get("flush", "async")
        return flush


def _said(given: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}".replace("'", '"') for name, value in given.items())


KNOBS = (
    Knob(MAPPED),
    Knob(MAPPED, {"flush": "none"}),
    Knob(MAPPED, {"flush": "sync"}),
    Knob(MAPPED, {"flush": "sync"}, threads=16),
    Knob(MAPPED, {"flush_interval": "50ms"}),
    Knob(MAPPED, {"flush_interval": "2s"}, cycle_s=2.2),
    Knob(MAPPED, tuning={"flush_least_pages": 1024}, cycle_s=4.0),
    Knob(MAPPED, tuning={"flush_least_pages": 1024, "flush_thorough_interval": "1s"}, cycle_s=1.6),
    Knob(MAPPED, {"timestamps": "precise"}),
    Knob(MAPPED, {"prefault": False}),
    Knob(MAPPED, tuning={"prefault_distance": "4MiB"}),
    Knob(POOLED),
    Knob(POOLED, {"flush": "none"}),
    Knob(POOLED, {"flush": "sync"}),
    Knob(POOLED, {"flush": "sync"}, threads=16),
    Knob(POOLED, {"commit_interval": "20ms"}),
    Knob(POOLED, {"commit_interval": "1s"}, cycle_s=1.2),
    Knob(POOLED, tuning={"commit_least_pages": 1024}),
    Knob(
        POOLED, tuning={"commit_least_pages": 1024, "commit_thorough_interval": "1s"}, cycle_s=1.4
    ),
    Knob(POOLED, pool={"buffers": 2}),
    Knob(POOLED, pool={"buffers": 10}),
    Knob(POOLED, pool={"buffer_size": "8MiB"}),
    Knob(POOLED, pool={"buffer_size": "256MiB"}),
    Knob(POOLED, pool={"lock_memory": "off"}),
    Knob(POOLED_SHM),
    Knob(POOLED_SHM, {"flush": "none"}),
)

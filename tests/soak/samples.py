"""Samples of what processes and disks hold, and a test of whether a figure grows."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

_SETTLING = 0.25  # the share of the run in which caches and pools may still fill


class Bound(NamedTuple):
    """How much a figure may grow over the whole run: so much, or this share of its median."""

    least: float
    share: float


MIB = 1 << 20
# By the last word of a figure's name.
BOUNDS = {
    "rss_bytes": Bound(8 * MIB, 0.08),
    "descriptors": Bound(3, 0.05),
    "mappings": Bound(8, 0.05),
    "threads": Bound(2, 0.05),
    "shm_entries": Bound(2, 0.1),
    "disk_bytes": Bound(8 * MIB, 0.1),
    "store_objects": Bound(8, 0.1),
}


class Growth(NamedTuple):
    """The verdict on a figure: its median, how much it grows over the run, and how much it may."""

    median: float
    grows: float
    may: float

    @property
    def is_flat(self) -> bool:
        return self.grows <= self.may


def of_process(pid: int) -> dict[str, float]:
    """Return the figures of a process."""
    place = Path(f"/proc/{pid}")
    status = dict(
        line.split(":", 1) for line in (place / "status").read_text().splitlines() if ":" in line
    )
    # Shared pages are those of the logs' files, which the system may keep or not.
    private = int(status["RssAnon"].split()[0]) << 10
    return {
        "rss_bytes": private,
        "descriptors": len(os.listdir(place / "fd")),
        "mappings": len((place / "maps").read_text().splitlines()),
        "threads": int(status["Threads"]),
    }


def of_folder(folder: Path) -> int:
    """Return how many bytes of disk the files below a folder take; files may vanish meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def growth_of(name: str, times_s: Sequence[float], values: Sequence[float]) -> Growth:
    """Return how much a figure grows over a run, by the median of the slopes between all pairs of
    its samples (Theil and Sen), which a few outliers do not move.
    """
    begin = times_s[0] + _SETTLING * (times_s[-1] - times_s[0])
    settled = [pair for pair in zip(times_s, values, strict=True) if pair[0] >= begin]
    slopes = [(b - a) / (s - t) for (t, a), (s, b) in combinations(settled, 2)]
    median = statistics.median(value for _, value in settled)
    bound = BOUNDS[name.rpartition(" ")[2]]
    grows = statistics.median(slopes) * (times_s[-1] - times_s[0]) if slopes else 0.0
    return Growth(median, grows, max(bound.least, bound.share * median))

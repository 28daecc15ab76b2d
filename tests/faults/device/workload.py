"""A workload: processes that write to the device, and the check of what a cut left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.faults.device.diary import Diary, Story


class Place(NamedTuple):
    """Where a workload writes.

    Attributes
    ----------
    disk : Path
        On the device.
    beside : Path
        On another machine's disk, so to speak: no cut changes it.
    """

    disk: Path
    beside: Path


Write = Callable[[Diary, Place, int], None]


def _prepare_nothing(place: Place) -> None:
    """Do nothing before the record begins."""


@dataclass(frozen=True)
class Workload:
    """Processes that write, and the check of what a cut left of it.

    Attributes
    ----------
    name : str
        What the figures call it.
    writes : tuple of callables
        One a process, with the number of the process; each notes what its calls return.
    check : callable
        Raises if an acknowledged thing is missing, or something is there that was not written.
        Returns how many acknowledged records it found.
    prepare : callable
        Makes what has to be there before the record begins.
    """

    name: str
    writes: tuple[Write, ...]
    check: Callable[[Place, Story], int]
    prepare: Callable[[Place], None] = _prepare_nothing

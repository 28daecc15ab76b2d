"""Scene and case of a failing call: a log, what was acknowledged, and the calls that fail."""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from commitlog import CommitLog
from commitlog.errors import CommitLogError, IOFailureError
from tests.faults import shim
from tests.faults.writers import SEGMENT_SIZE

OPTIONS: dict[str, Any] = {
    "flush": "none",
    "checkpoint_interval": 60,
    "allocate_ahead": 0,
    "prefault": False,
    "commit_interval": 60,
    "commit_thorough_interval": 60,
}
VALUE = b"v" * 1000
TO_ROLL = SEGMENT_SIZE // len(VALUE) + 2  # records that do not fit one segment
GROWING = 8 << 20  # a segment that begins with fewer blocks
LIMIT_S = 20.0


class Fault(NamedTuple):
    """A failing call; see `Shim.fail`."""

    call: str
    name: str = ""
    cause: int = errno.EIO
    after: int = 0


class Scene:
    """A log, its acknowledged positions, and the shim of this process."""

    def __init__(self, path: Path, state: mmap.mmap) -> None:
        self.path = path
        self.acknowledged: list[int] = []
        self._state = state
        self._armed: list[tuple[Fault, int]] = []

    def arm(self, *faults: Fault) -> None:
        for fault in faults:
            self._armed.append((fault, shim.failures(self._state, fault.call)))
            shim.fail(self._state, fault.call, fault.cause, name=fault.name, after=fault.after)

    def heal(self) -> list[Fault]:
        """Let all calls succeed again; return the faults that were armed."""
        faults = [fault for fault, _ in self._armed]
        for fault in faults:
            shim.fail(self._state, fault.call, 0)
        return faults

    def check_met(self) -> None:
        """Check that each fault has occurred."""
        for fault, before in self._armed:
            assert shim.failures(self._state, fault.call) > before, (
                f"{fault.call} was not called on {fault.name!r}"
            )

    def append(self, log: CommitLog, count: int = 1) -> None:
        self.acknowledged += log.append_many([VALUE] * count, sync=True).tolist()


# The effect of a failure.
FAILS, RAISES, IGNORED = "fails the log", "raises", "nothing"

# An act provokes the calls. `log` is open in the cases of an open log, and closed otherwise.
Act = Callable[[Scene, CommitLog], object]


class Case(NamedTuple):
    """A row of the table.

    Attributes
    ----------
    call, where : str
        The first two cells of the row.
    effect : str
        The effect of a failure.
    faults : tuple of Fault
        The calls that fail.
    act : callable
        Provokes the calls.
    before : callable, optional
        Runs before the calls fail.
    closed : bool
        Whether `act` starts with the log closed, cleanly or not, as `before` left it.
    error : type
        The error that `act` raises.
    """

    call: str
    where: str
    effect: str
    faults: tuple[Fault, ...]
    act: Act
    before: Act | None = None
    closed: bool = False
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    pool: dict[str, Any] | None = None
    error: type[CommitLogError] = IOFailureError

    @property
    def name(self) -> str:
        return f"{self.call}, {self.where}, {errno.errorcode[self.faults[0].cause]}"

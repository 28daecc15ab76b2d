"""The setups whose difference no caller may see: every flush service with every backing for
uncommitted bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import commitlog
from commitlog import CommitLog, Options, TransientStorePool, Tuning
from commitlog.options import Flush

SEGMENT = 64 << 10
HEADER = 4096
LARGEST_VALUE = SEGMENT // 8 - 16
# Limits that no test reaches because the machine is busy; a test of a limit sets its own.
PATIENT: dict[str, Any] = dict.fromkeys(("wait_for_log", "sync_timeout", "claim_timeout"), 60)
# The log's threads do nothing by themselves: a test that commits or flushes sees the effect of its
# own call only.
BY_HAND: dict[str, Any] = {
    **dict.fromkeys(
        (
            "commit_interval",
            "commit_thorough_interval",
            "flush_interval",
            "flush_thorough_interval",
        ),
        60,
    ),
    **dict.fromkeys(("commit_least_pages", "flush_least_pages"), 262144),
}


_TUNING = frozenset(field.name for field in dataclasses.fields(Tuning))


def tuned(options: dict[str, Any]) -> dict[str, Any]:
    """Convert options to keywords of `commitlog.open`, with the fields of `Tuning` gathered in
    `tuning`.
    """
    tuning = {name: value for name, value in options.items() if name in _TUNING}
    return {
        **{name: value for name, value in options.items() if name not in _TUNING},
        "tuning": Tuning(**tuning),
    }


@dataclass(frozen=True)
class Setup:
    """One flush service with one backing."""

    flush: Flush
    backing: Literal["mapped", "anonymous", "shm"]

    def __str__(self) -> str:
        return f"{self.flush}-{self.backing}"

    @property
    def pooled(self) -> bool:
        return self.backing != "mapped"


Open = Callable[..., CommitLog]
SETUPS = [
    Setup(flush, backing)
    for flush in ("sync", "async", "none")
    for backing in ("mapped", "anonymous", "shm")
]


class Logs:
    """Opens logs and creates pools for one test, and closes what the test left open: the logs
    first, in the order of opening.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._logs: list[CommitLog] = []
        self._pools: dict[str, TransientStorePool] = {}

    def pool(
        self, backing: str = "anonymous", buffers: int = 3, **options: Any
    ) -> TransientStorePool:
        """Return a pool of 64 KiB buffers; the same arguments return the same pool."""
        name = repr((backing, buffers, sorted(options.items())))
        if name not in self._pools:
            filled = {
                "buffer_size": SEGMENT,
                "lock_memory": "off",
                "low_water": 0,
                "wait_timeout": 60,
                **options,
            }
            self._pools[name] = TransientStorePool(buffers=buffers, backing=backing, **filled)
        return self._pools[name]

    def open(self, name: str = "log", mode: str = "a", **options: Any) -> CommitLog:
        """Open a log of 64 KiB segments."""
        if mode != "r" and options.get("pool") is None:
            options.setdefault("segment_size", SEGMENT)
        log = commitlog.open(
            self.path / name, mode, Options.of(None, **tuned({**PATIENT, **options}))
        )
        self._logs.append(log)
        return log

    def open_as(
        self, setup: Setup, name: str = "log", mode: str = "a", **options: Any
    ) -> CommitLog:
        """Open a log with the flush service and the backing of `setup`."""
        if setup.pooled:
            options.setdefault("pool", self.pool(setup.backing))
        return self.open(name, mode, flush=setup.flush, **options)

    def close(self) -> None:
        for log in self._logs:
            log.close()
        for pool in self._pools.values():
            pool.close()


def values(log: CommitLog, **options: Any) -> list[bytes]:
    """The values that a new tailer with these options reads."""
    return list(log.tailer(**options).values())


def all_appended(log: CommitLog) -> list[bytes]:
    """The appended values, committed or not."""
    return values(log, visibility="appended")

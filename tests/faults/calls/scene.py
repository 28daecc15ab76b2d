"""Scene: the folder of a case, what its program got, and what broke a rule meanwhile."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import commitlog
from commitlog import CommitLog, TransientStorePool
from commitlog.errors import CommitLogError, LogFailedError
from tests.faults.calls.preload import Preload
from tests.faults.writers import open_log

T = TypeVar("T")
_URL = re.compile(r"\b(?:tcp|tls)://")
SIZE = 900
QUIET: dict[str, Any] = {
    "flush": "none",
    "checkpoint_interval": 60,
    "allocate_ahead": 0,
    "prefault": False,
    "commit_interval": 60,
    "commit_thorough_interval": 60,
    "sync_timeout": 3,
    "wait_for_log": 2,
    "claim_timeout": 1,
    "close_timeout": 5,
}


def value_of(number: int) -> bytes:
    """Return the record of a number."""
    return b"%08d " % number * (SIZE // 9)


def number_of(value: object) -> int:
    """Return the number of a record; fail if `value_of` did not make it."""
    found = bytes(value)  # type: ignore[call-overload]
    number = int(found[:8])
    assert found == value_of(number), f"not a record of ours: {found[:40]!r}"
    return number


class Scene:
    """What a program does in a case, and what its calls return and raise.

    Attributes
    ----------
    kept, durable : dict
        The acknowledged records by position: those that survive a kill, and those that survive a
        power cut as well.
    broken : list of str
        The rules that were broken.
    raised : list of str
        The errors that the program got.
    """

    def __init__(self, folder: Path, preload: Preload) -> None:
        self.folder = folder
        self.path = folder / "log"
        self.store = folder / "store"
        self.kept: dict[int, int] = {}
        self.durable: dict[int, int] = {}
        self.broken: list[str] = []
        self.raised: list[str] = []
        self.disowned_below = 0
        self._buffered: dict[int, int] = {}
        self._next = 0
        self._failed = False
        self._pool: TransientStorePool | None = None
        self._preload = preload

    # --- faults -----------------------------------------------------------------------------------

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Let the call of the case fail in the block."""
        self._preload.arm(self.folder)
        try:
            yield
        finally:
            self._preload.disarm()

    def attempt(self, call: Callable[[], T], *, acknowledges: bool = False) -> T | None:
        """Return what a call returns, or None if it raises; note what breaks a rule.

        Parameters
        ----------
        acknowledges : bool
            Whether the call must raise if the log has failed before.
        """
        try:
            result = call()
        except LogFailedError as error:
            self._failed = True
            self._note(error)
        except CommitLogError as error:
            self._note(error)
        except Exception:  # noqa: BLE001 - what is not the project's own breaks a rule
            self.broken.append(f"a bare error: {traceback.format_exc()[-1500:]}")
        else:
            if acknowledges and self._failed:
                self.broken.append(f"{call} succeeded after the log had failed")
            return result
        return None

    def _note(self, error: CommitLogError) -> None:
        kind = type(error)
        self.raised.append(f"{kind.__name__}: {error.message}")
        if kind.__subclasses__():
            self.broken.append(f"not a leaf: {error!r}")
        if len(error.message.split()) < 5:
            self.broken.append(f"a message without advice: {error!r}")
        # What another machine refuses has its URL instead.
        if error.path is None and not _URL.search(error.message):
            self.broken.append(f"an error without a path: {error!r}")

    # --- a log ------------------------------------------------------------------------------------

    def open(self, pool: dict[str, Any] | None = None, **options: Any) -> CommitLog | None:
        """Open the log of the case; None if it cannot be opened."""
        opened = self.attempt(lambda: open_log(str(self.path), pool, QUIET | options))
        if opened is None:
            return None
        self._failed = False
        log, self._pool = opened
        return log

    def close(self, log: CommitLog) -> None:
        """Close the log; what was appended is durable if that succeeds."""
        raised = len(self.raised)
        self.attempt(log.close)
        if len(self.raised) == raised:
            self.commit_noted()
            self.durable |= self.kept
        if not log.closed:
            self.broken.append("close() left the log open")
        if self._pool is not None:
            self.attempt(self._pool.close)
            self._pool = None

    def append(self, log: CommitLog, count: int = 1, *, sync: bool = False) -> None:
        """Append records, one a call, and note those that are acknowledged."""
        for _ in range(count):
            number, self._next = self._next, self._next + 1
            position = self.attempt(
                lambda number=number: log.append(value_of(number), sync=sync),  # type: ignore[misc]
                acknowledges=True,
            )
            if position is not None:
                (self._buffered if self._pool is not None and not sync else self.kept)[position] = (
                    number
                )
                if sync:
                    self.commit_noted()
                    self.kept[position] = number
                    self.flush_noted(position + 1)

    def commit(self, log: CommitLog) -> None:
        if self.attempt(log.commit, acknowledges=True) is not None:
            self.commit_noted()

    def flush(self, log: CommitLog) -> None:
        end = self.attempt(log.flush, acknowledges=True)
        if end is not None:
            self.commit_noted()
            self.flush_noted(end)

    def commit_noted(self) -> None:
        """What was in buffers survives a kill from here on."""
        self.kept |= self._buffered
        self._buffered.clear()

    def flush_noted(self, end: int) -> None:
        """What begins below `end` survives a power cut from here on."""
        self.durable |= {at: number for at, number in self.kept.items() if at < end}

    def disown(self, below: int) -> None:
        """What begins below may be deleted."""
        self.disowned_below = below

    def numbers_in(self, path: Path) -> list[int]:
        """Return the numbers of a log's records in order; empty if it cannot be read."""

        def read() -> list[int]:
            with commitlog.open(path, "r") as log, log.tailer() as tailer:
                return [number_of(record.value) for record in iter(tailer.read, None)]

        return self.attempt(read) or []

    # --- what was before --------------------------------------------------------------------------

    def fill(self, segments: int = 3) -> None:
        """Leave a closed log of some segments, all of them durable."""
        log = self.open()
        assert log is not None, self.raised
        for _ in range(segments):
            self.append(log, 3, sync=True)
            log.roll()
        self.append(log, 2, sync=True)
        self.close(log)
        assert not self.raised, self.raised

    def leave(self) -> None:
        """Let no call of this process, a fork, count."""
        self._preload.leave()

    def in_child(self, do: Callable[[], None]) -> None:
        """Run in a fork that is killed behind it, as a process that leaves what it had open."""
        pid = os.fork()
        if pid == 0:
            try:
                do()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)

"""Readers: programs that read a log while it is written, copied, cut and promoted."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import commitlog
from commitlog.errors import CommitLogError
from tests.simulation.machines import Machine, Machines, Process
from tests.simulation.oracle import Oracle, ViolationError, tag_of

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_S, _AGAIN_S = 0.15, 1.0


class Readers:
    """Readers of logs on their machine, and of servers from another one.

    Parameters
    ----------
    violate : callable
        Ends the run with an error.
    """

    def __init__(
        self, machines: Machines, oracle: Oracle, violate: Callable[[ViolationError], None]
    ) -> None:
        self._machines = machines
        self._oracle = oracle
        self._violate = violate
        self._far = Machine("reader", "10.0.0.98", machines.folder / "reader")
        self._local: dict[str, list[Process]] = {}  # by machine
        self._away: list[Process] = []
        self.records = 0

    def begin(self, machine: Machine, url: str | None) -> None:
        """Begin to read the log of a machine there, or its URL from another machine."""
        where = machine.path if url is None else url
        on = machine if url is None else self._far
        process = self._machines.start(on, "reader", lambda: self._read_without_end(where))
        here = self._local.setdefault(machine.name, []) if url is None else self._away
        here.append(process)

    def end(self, machine: Machine) -> None:
        """End the readers on a machine: its power was cut, or its directory is another one."""
        for each in self._local.pop(machine.name, []):
            self._machines.kill(each)

    def processes(self) -> list[Process]:
        return [*self._away, *(each for some in self._local.values() for each in some)]

    def _read_without_end(self, where: str) -> None:
        try:
            while True:
                with (
                    contextlib.suppress(CommitLogError, OSError),
                    commitlog.open(where, "r", wait_for_log=0) as log,
                ):
                    self._read(where, log)
                self._machines.world.sleep(_AGAIN_S)
        except ViolationError as error:
            self._violate(error)

    def _read(self, where: str, log: Any) -> None:
        """Read what a handle shows until it fails: one history, in order, without a gap."""
        seen: list[bytes] = []
        checked, position, sequence = 0, -1, -1
        with log.tailer() as tailer:
            while True:
                record = tailer.read()
                if record is None:
                    if len(seen) > checked:
                        self._oracle.check_history(f"a reader of {where}", seen)
                        checked = len(seen)
                    self._machines.world.sleep(_LOOK_S)
                    continue
                if record.position <= position or sequence not in (-1, record.sequence - 1):
                    raise ViolationError(
                        "a reader sees a history in order",
                        f"a reader of {where} gets {tag_of(record.value)} at {record.position} "
                        f"with sequence {record.sequence}, after {position} with {sequence}",
                    )
                position, sequence = record.position, record.sequence
                seen.append(record.value)
                self.records += 1

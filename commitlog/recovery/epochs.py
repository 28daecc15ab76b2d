"""Epochs: the epochs of one log, in its file `epoch`."""

from __future__ import annotations

from collections.abc import Callable

from commitlog.recovery import lineage
from commitlog.recovery.admission import is_restored
from commitlog.recovery.epoch_change import change
from commitlog.recovery.lineage import Lineage
from commitlog.segment.directory import LogDirectory


class Epochs:
    """Read and change under which epochs a log was written, and which log it follows."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory

    def read(self) -> Lineage:
        """Return what the file says; a log without the file is a primary in epoch 0."""
        return lineage.read(self._directory)

    def version(self) -> tuple[int, int]:
        """Return what differs once the file was replaced."""
        return lineage.version(self._directory)

    def change(self, of: Callable[[Lineage], Lineage]) -> Lineage:
        """Replace the file by what a function returns for its content, one process at a time."""
        return change(self._directory, of)

    def write(self, new: Lineage) -> Lineage:
        """Replace the file durably; return what was written. The caller owns the log."""
        return lineage.write(self._directory, new)

    def copy_id(self) -> str:
        """Return the id of this copy of the log; empty before the file is written."""
        return lineage.copy_id(self._directory)

    def is_restored(self) -> bool:
        """Return whether the directory was restored from a backup, cloned, or moved."""
        return is_restored(self._directory)

"""Who has a log open for writing."""

from __future__ import annotations

import os
from dataclasses import dataclass

from commitlog._kernel.cursors import slot_alive
from commitlog.errors import CommitLogError
from commitlog.segment.directory import LogDirectory
from commitlog.shared import cursors_file
from commitlog.shared.cursors_file import boot_id
from commitlog.shared.identity import Identity
from commitlog.shared.lock_file import LockFile, process_name


@dataclass(frozen=True)
class Writer:
    """A live writable handle.

    Attributes
    ----------
    pid : int
        As it called itself: in another container it may be another's here.
    name : str
        Of that process, as far as it can be known.
    slot : int
        Its line in `cursors`.
    since_ns : int
        When it took that, in nanoseconds since 1970.
    """

    pid: int
    name: str
    slot: int
    since_ns: int

    def __str__(self) -> str:
        return f"process {self.pid} ({self.name})"


def writers(directory: LogDirectory, identity: Identity) -> list[Writer]:
    """The owners of slots who live, by their locks and not by their pids."""
    found = cursors_file.open_for_reading(directory.fd, identity)
    if not found.usable:
        return []
    fd = os.open(cursors_file.NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=directory.fd)
    try:
        return [
            Writer(pid, process_name(pid), slot, attached_ns) for slot, pid, attached_ns, _ in found.cells.slots() if slot_alive(fd, slot)
        ]
    finally:
        os.close(fd)


def describe_holders(directory: LogDirectory, identity: Identity, lock_file: LockFile) -> str:
    """Who holds the lock that could not be had, for a message."""
    try:
        listed = sorted({str(writer) for writer in writers(directory, identity)})
    except (CommitLogError, OSError):
        listed = []
    if listed:
        return ", ".join(listed)
    holder = lock_file.read()
    if holder.boot_id == boot_id().hex() and process_name(holder.pid) == holder.name:
        return holder.describe()
    return "another process, which is opening, recovering or repairing it"

"""Who has a log open for writing."""

from __future__ import annotations

from dataclasses import dataclass

from commitlog.errors import CommitLogError
from commitlog.segment import cursors_file
from commitlog.segment.cursors_file import boot_id
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity
from commitlog.segment.lock_file import LockFile, describe_process, is_foreign, process_name


@dataclass(frozen=True)
class Writer:
    """A live writable handle.

    Attributes
    ----------
    pid : int
        As it called itself: in another pid namespace it may be another's here.
    name : str
        Of that process, as far as it can be known; of one in another pid namespace, that it is
        there.
    slot : int
        Its line in `cursors`.
    since_ns : int
        When it took that, in nanoseconds since 1970.
    pid_namespace : int
        Where its pid means something; 0 where that is not known.
    """

    pid: int
    name: str
    slot: int
    since_ns: int
    pid_namespace: int

    def __str__(self) -> str:
        return describe_process(self.pid, self.pid_namespace)


def writers(directory: LogDirectory, identity: Identity) -> list[Writer]:
    """The owners of slots who live, by their locks and not by their pids."""
    return [
        Writer(
            pid=writer.pid,
            name="in another pid namespace"
            if is_foreign(writer.pid_namespace)
            else process_name(writer.pid),
            slot=writer.slot,
            since_ns=writer.since_ns,
            pid_namespace=writer.pid_namespace,
        )
        for writer in cursors_file.live_writers(directory.fd, identity)
    ]


def describe_holders(directory: LogDirectory, identity: Identity, lock_file: LockFile) -> str:
    """Who holds the lock that could not be had, for a message."""
    try:
        listed = sorted({str(writer) for writer in writers(directory, identity)})
    except (CommitLogError, OSError):
        listed = []
    if listed:
        return ", ".join(listed)
    holder = lock_file.read()
    if (
        holder.boot_id == boot_id().hex()
        and not is_foreign(holder.pid_namespace)
        and process_name(holder.pid) == holder.name
    ):
        return holder.describe()
    return "another process, which is opening, recovering or repairing it"

"""The `cursors` file: found, checked, mapped."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from functools import partial

from commitlog._kernel import memory as kernel
from commitlog._kernel.memory import Cursors
from commitlog.base.boot import boot_id
from commitlog.base.life_lock import WHOLE, LifeLock, Span, is_held
from commitlog.base.process import describe_process, is_foreign, process_name
from commitlog.base.regular_file import open_regular, opened_regular, read_range, write_whole
from commitlog.base.temporary_file import temporary_file
from commitlog.errors import IOFailureError
from commitlog.segment import lock_file
from commitlog.segment.identity import Identity

NAME = "cursors"
_SLOT_LOCKS: Span = (kernel.SLOT_LOCK_AT, kernel.SLOTS)


@dataclass(frozen=True)
class CursorsFile:
    """A mapped `cursors` file and whether it can be used.

    `cells` is a private stand-in if a reader cannot use the file. `usable`: it belongs to this log,
    this boot and this inode. `ready`: besides, no recovery is running or was killed.
    """

    cells: Cursors
    usable: bool
    inode: int

    @property
    def ready(self) -> bool:
        return self.usable and self.cells["state"] == kernel.STATE_READY


def _check(cells: Cursors, identity: Identity, inode: int) -> bool:
    return bool(cells.matches(identity.uuid, boot_id(), inode, identity.segment_size))


def open_writable(dir_fd: int, identity: Identity) -> CursorsFile:
    """Map the file for writing; create or extend it. Requires the exclusive lock."""
    with opened_regular(NAME, os.O_RDWR | os.O_CREAT, dir_fd=dir_fd) as fd:
        # A file of the right size may have holes, in which a full disk would turn a store into
        # SIGBUS.
        os.posix_fallocate(fd, 0, kernel.CURSORS_SIZE)
        inode = os.fstat(fd).st_ino
        cells = Cursors(fd, True)
    return CursorsFile(cells=cells, usable=_check(cells, identity, inode), inode=inode)


def is_cut(dir_fd: int, identity: Identity) -> bool:
    """Return whether the log was cut at a fork, and still has the file of before."""
    found = find(dir_fd, identity)
    return found is not None and found.usable and found.cells["cut"] != 0


def replace(dir_fd: int) -> None:
    """Put a copy of the file in its place: handles that have it open stay behind."""
    with opened_regular(NAME, dir_fd=dir_fd) as fd:
        content = read_range(fd, kernel.CURSORS_SIZE, 0)
    with temporary_file(dir_fd, NAME) as (fd, temporary):
        write_whole(fd, content, 0)
        os.rename(temporary, NAME, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)


def open_for_reading(dir_fd: int, identity: Identity) -> CursorsFile:
    """Map the file for a reader, writable if permitted. An unusable file gives a stand-in, which
    knows the number of cuts at forks: another one means that the reader has other segments.
    """
    found = find(dir_fd, identity)
    if found is not None and found.ready:
        return found
    cells = Cursors(-1, True)
    if found is not None and found.usable:
        cells["cuts"] = found.cells["cuts"]
    return CursorsFile(cells=cells, usable=False, inode=0)


def find(dir_fd: int, identity: Identity) -> CursorsFile | None:
    """Map the file if it exists and is long enough, for writing if permitted. Changes nothing."""
    for flags, writable in ((os.O_RDWR, True), (os.O_RDONLY, False)):
        try:
            with opened_regular(NAME, flags, dir_fd=dir_fd) as fd:
                inode = os.fstat(fd).st_ino
                cells = Cursors(fd, writable)
        except (ValueError, OSError):
            continue
        return CursorsFile(cells=cells, usable=_check(cells, identity, inode), inode=inode)
    return None


@dataclass(frozen=True)
class Writer:
    """A writable handle that was not closed, as its slot says.

    It recorded its pid, and the inode of the namespace where that means something (0: unknown),
    when it took the slot. Other handles turned `rolled_back` of its claims into SKIP. `counter`
    rises by two with each claim of any owner of the slot, and is odd during a claim; a pooled log's
    appends do not change it. `alive`: it holds the lock on its slot. A dead writer stays in the
    table until another takes the slot.
    """

    pid: int
    pid_namespace: int
    slot: int
    since_ns: int
    rolled_back: int
    counter: int
    alive: bool

    @property
    def foreign(self) -> bool:
        """Whether its pid is not valid in this process's namespace."""
        return is_foreign(self.pid_namespace)

    @property
    def name(self) -> str:
        """The name of its process, if that is known here."""
        return "in another pid namespace" if self.foreign else process_name(self.pid)


def writers(dir_fd: int, cells: Cursors) -> list[Writer]:
    """Return the owners of slots, also dead ones; none if the cells are a stand-in."""
    if not cells.shared:
        return []
    # A new open file description, which holds no lock: it can probe this process's own slots, too.
    try:
        fd = open_regular(NAME, dir_fd=dir_fd)
    except FileNotFoundError:
        return []  # another process removed it while it is mapped
    lock_fd = -1
    try:
        lock_fd = lock_file.open_to_ask(dir_fd)
        return [
            Writer(
                pid,
                namespace,
                slot,
                attached_ns,
                rolled_back,
                counter,
                kernel.slot_alive(lock_fd, fd, slot),
            )
            for slot, pid, attached_ns, rolled_back, namespace, counter in cells.slots()
        ]
    finally:
        os.close(fd)
        if lock_fd >= 0:
            os.close(lock_fd)


def live_writers(dir_fd: int, identity: Identity) -> list[Writer]:
    """Return the owners of slots that live, by their locks; none if the file is unusable."""
    found = open_for_reading(dir_fd, identity)
    return [writer for writer in writers(dir_fd, found.cells) if writer.alive]


def describe(writers: list[Writer]) -> str:
    names = [describe_process(writer.pid, writer.pid_namespace) for writer in writers]
    return ", ".join(names) or "another process"


def is_live(dir_fd: int) -> bool:
    """Return whether a process has the log in a directory open for writing. If this user cannot
    open `lock`, only slots are checked.
    """
    live = lock_file.is_locked(dir_fd, WHOLE)
    if live is not None:
        return live
    with (
        contextlib.suppress(FileNotFoundError, PermissionError),
        opened_regular(NAME, dir_fd=dir_fd) as fd,
    ):
        return is_held(fd, span=_SLOT_LOCKS)
    return False


class SlotLock:
    """Descriptions of `lock` and of `cursors` for slot locks alone. They are never mapped: forked
    children would keep the locks alive.

    If it is not `writable`, it can only probe which owners live. If this user cannot open `lock`,
    the descriptor of `lock` is -1.
    """

    def __init__(self, dir_fd: int, *, writable: bool) -> None:
        flags = os.O_RDWR if writable else os.O_RDONLY
        self._cursors = LifeLock(partial(open_regular, NAME, flags, dir_fd=dir_fd), kind=None)
        self._lock: LifeLock | None = None
        try:
            self._lock = (
                lock_file.LockFile(dir_fd)
                if writable
                else LifeLock(partial(open_regular, lock_file.NAME, dir_fd=dir_fd), kind=None)
            )
        except BaseException as error:
            refused = isinstance(error, FileNotFoundError | PermissionError | IOFailureError)
            if writable or not refused:
                self._cursors.close()
                raise

    @property
    def descriptors(self) -> tuple[int, int]:
        return -1 if self._lock is None else self._lock.descriptor, self._cursors.descriptor

    def close(self) -> None:
        self._cursors.close()
        if self._lock is not None:
            self._lock.close()

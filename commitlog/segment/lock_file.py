"""The `lock` file. Every writable handle locks it from open to close: mapped ones shared, a pooled
one exclusively.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass, field
from functools import partial

from commitlog.base.life_lock import Kind, LifeLock, Span, byte, is_held, open_lock_file
from commitlog.base.path import path_behind, translate_errors
from commitlog.base.polling import attempts
from commitlog.base.process import describe_process, pid_namespace, process_name
from commitlog.base.regular_file import open_regular, read_at_most

NAME = "lock"
# Bytes. Larger than the names of all buffers of the largest pool; each name may occur twice, in the
# pool's list and in the list of lent buffers.
SIZE_LIMIT = 8 << 20
_PID_MOST = (1 << 31) - 1
_ROOM_STEP = 4096
# Further byte locks in the file, besides its beginning and the slots. Only users who may write to
# the log can open it.
TERMS: Span = byte(1 << 33)
EPOCH: Span = byte((1 << 33) + 1)
STORING: Span = byte((1 << 33) + 2)
_TAILERS_AT = 1 << 62


def tailer_span(inode: int) -> Span:
    """Return the lock byte of the tailer whose file has that inode."""
    return byte(_TAILERS_AT + inode % _TAILERS_AT)


@dataclass(frozen=True)
class Holder:
    """The description of itself that the last pooled handle wrote into the file."""

    pid: int = 0
    name: str = ""
    boot_id: str = ""
    inode: int = 0
    pool_names: tuple[str, ...] = field(default=())
    lent_names: tuple[str, ...] = field(default=())
    pid_namespace: int = 0

    def describe(self) -> str:
        return describe_process(self.pid, self.pid_namespace, self.name)


def is_locked(dir_fd: int, span: Span) -> bool | None:
    """Return whether a range of the file is locked; None if it is missing, or out of reach."""
    fd = open_to_ask(dir_fd)
    if fd < 0:
        return None
    try:
        return is_held(fd, span=span)
    finally:
        os.close(fd)


def open_to_ask(dir_fd: int) -> int:
    """Open the file to probe its locks; -1 if it is missing or this user may not read it."""
    try:
        return open_regular(NAME, dir_fd=dir_fd)
    except (FileNotFoundError, PermissionError):
        return -1


class LockFile(LifeLock):
    """The `lock` file, open and not locked yet."""

    __slots__ = ()

    def __init__(self, dir_fd: int) -> None:
        super().__init__(partial(open_lock_file, NAME, dir_fd), kind=None)

    def acquire(self, kind: Kind, timeout_s: float = 0.0) -> bool:
        """Take the lock or change its kind, polling for at most `timeout_s` seconds."""
        return any(LifeLock.acquire(self, kind) for _ in attempts(timeout_s, "the lock of a log"))

    def is_exclusive(self) -> bool:
        """Whether another handle holds it exclusively, so that this one could not even share it."""
        return is_held(self.descriptor, against="shared")

    def read(self) -> Holder:
        """Read the holder from the file; return an empty `Holder` if it cannot be parsed."""
        try:
            text = read_at_most(self.descriptor, SIZE_LIMIT).rstrip(b"\0")
            content = json.loads(text.decode())
            holder = Holder(
                pid=int(content["pid"]),
                name=str(content["name"]),
                boot_id=str(content["boot_id"]),
                inode=int(content["inode"]),
                pool_names=tuple(str(name) for name in content["pool_names"]),
                lent_names=tuple(str(name) for name in content["lent_names"]),
                pid_namespace=int(content["pid_namespace"]),
            )
            return holder if 0 <= holder.pid <= _PID_MOST else Holder()
        except (OverflowError, ValueError, KeyError, TypeError, RecursionError):
            return Holder()

    def _path(self) -> str:
        return path_behind(self.descriptor) or NAME

    def write(self, holder: Holder) -> None:
        """Write the holder in one call: after a kill or an error it is the old or the new."""
        text = json.dumps(holder.__dict__).encode()
        # Read for each call: once the file is closed, the descriptor may be another's.
        with translate_errors(self._path(), "record which process holds the log"):
            size = os.fstat(self.descriptor).st_size
            if size > SIZE_LIMIT:  # another program extended it; readers stop at the limit
                os.ftruncate(self.descriptor, SIZE_LIMIT)
                size = SIZE_LIMIT
            if size < len(text):
                # Allocate first: if a full disk cuts a write short, both the old and the new text
                # are lost.
                size = -(-len(text) // _ROOM_STEP) * _ROOM_STEP
                os.posix_fallocate(self.descriptor, 0, size)
            if os.pwrite(self.descriptor, text.ljust(size), 0) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def new_holder(boot_id: bytes, inode: int) -> Holder:
    pid = os.getpid()
    return Holder(
        pid=pid,
        name=process_name(pid),
        boot_id=boot_id.hex(),
        inode=inode,
        pid_namespace=pid_namespace(),
    )

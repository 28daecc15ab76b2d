"""LeasesFile: the file `leases` of a queue, which all workers map, and their locks."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from collections.abc import Iterator

from commitlog.base.boot import boot_id
from commitlog.base.failpoint import failpoint
from commitlog.base.life_lock import LifeLock, Span, byte, is_held, open_lock_file
from commitlog.base.path import translate_errors
from commitlog.base.polling import attempts
from commitlog.base.regular_file import open_regular
from commitlog.errors import InUseError, OpenTimeoutError
from commitlog.extension import LogView
from commitlog.queues.compiled.leases import IDENTITY_SIZE, TABLE_SIZE, WORKERS, LeaseTable

NAME, LOCK_NAME = "leases", "lock"
_OPENING: Span = byte(1 << 32)  # one process opens the queue, and recovers it
COMPACTING: Span = byte((1 << 32) + 1)  # one process writes a base
_OPEN_S = 30.0
_PATIENCE_S = 10.0
_FORMAT = 3
_IDENTITY = struct.Struct("<8sI16s16sQQQQ")
_MAGIC = b"clqueue\0"


class LeasesFile:
    """Map the leases of a queue. `table` is not valid until its identity is that of `identity`."""

    def __init__(self, folder: str, view: LogView, *, writable: bool) -> None:
        self.folder = folder
        self.path = os.path.join(folder, NAME)
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._probe = self._memory = None
        try:
            # Probes use a description that never locks, so that own locks are seen, too.
            self._probe = open_lock_file(LOCK_NAME, self._fd, create=writable)
            self._memory, status = self._map(writable)
            self.table = LeaseTable(self._memory, writable, self._probe, folder)
        except BaseException:
            self.close()
            raise
        rank = view.epochs.read().rank
        self.identity = _IDENTITY.pack(
            _MAGIC,
            _FORMAT,
            boot_id(),
            view.identity.uuid,
            status.st_dev,
            status.st_ino,
            rank.number,
            rank.restart,
        ).ljust(IDENTITY_SIZE, b"\0")

    def _map(self, writable: bool) -> tuple[mmap.mmap, os.stat_result]:
        with translate_errors(self.folder, "open the leases of the queue"):
            while True:
                try:
                    fd = open_regular(NAME, os.O_RDWR if writable else os.O_RDONLY, dir_fd=self._fd)
                except FileNotFoundError:
                    if not writable:
                        raise
                    self._create()
                    continue
                try:
                    status = os.fstat(fd)
                    if status.st_size == TABLE_SIZE:
                        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
                        return mmap.mmap(fd, TABLE_SIZE, access=access), status
                finally:
                    os.close(fd)
                self._discard()

    def _create(self) -> None:
        """Put a file with all its blocks there, so that a full disk is an error here."""
        temporary = f".{NAME}.{os.urandom(8).hex()}.tmp"
        fd = open_regular(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=self._fd)
        try:
            os.posix_fallocate(fd, 0, TABLE_SIZE)
            with contextlib.suppress(FileExistsError):  # another process was faster
                os.link(temporary, NAME, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        finally:
            os.close(fd)
            os.unlink(temporary, dir_fd=self._fd)
        failpoint("leases created")

    def _discard(self) -> None:
        """Delete a file of another size: another release has made it."""
        if self.has_other_workers():
            raise InUseError(
                "workers of another release of commitlog use this queue: close them first",
                path=self.folder,
            )
        with contextlib.suppress(FileNotFoundError):
            os.unlink(NAME, dir_fd=self._fd)

    @property
    def is_valid(self) -> bool:
        """Whether the leases are of this log, this file, and this boot of the machine."""
        return self.table.identity == self.identity

    def is_replaced(self) -> bool:
        """Whether the file was deleted or replaced while it is mapped."""
        try:
            status = os.stat(NAME, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return True
        inode = _IDENTITY.unpack_from(self.identity)[5]
        return bool(status.st_ino != inode)

    # --- locks ------------------------------------------------------------------------------------

    def _lock(self, span: Span) -> LifeLock:
        return LifeLock(lambda: open_lock_file(LOCK_NAME, self._fd), kind=None, span=span)

    @contextlib.contextmanager
    def opening(self) -> Iterator[None]:
        """Have the queue for the length of a `with`: no other process opens it meanwhile."""
        with contextlib.closing(self._lock(_OPENING)) as lock:
            waiting = attempts(_OPEN_S, f"the process that opens the queue {self.folder}")
            if not any(lock.acquire("exclusive") for _ in waiting):
                raise OpenTimeoutError(
                    f"another process has been opening this queue for {_OPEN_S:g} s: end it, or "
                    "try again",
                    path=self.folder,
                )
            yield

    @contextlib.contextmanager
    def compacting(self, wait_s: float = 0) -> Iterator[bool]:
        """Try to be the one that writes a base or terms, for the length of a `with`."""
        with contextlib.closing(self._lock(COMPACTING)) as lock:
            waiting = attempts(wait_s, f"the process that compacts the queue {self.folder}")
            yield any(lock.acquire("exclusive") for _ in waiting)

    @contextlib.contextmanager
    def maintaining(self) -> Iterator[None]:
        """As `compacting`, and wait for it."""
        with self.compacting(_PATIENCE_S) as is_ours:
            if not is_ours:
                raise OpenTimeoutError(
                    f"another process has been compacting this queue for {_PATIENCE_S:g} s: try "
                    "again",
                    path=self.folder,
                )
            yield

    def take_worker(self) -> tuple[int, LifeLock]:
        """Lock the byte of a worker; return its number."""
        for number in range(WORKERS):
            lock = self._lock(byte(number))
            if lock.acquire("exclusive"):
                return number, lock
            lock.close()
        raise InUseError(
            f"the queue has {WORKERS} workers, and no more fit: close one", path=self.folder
        )

    def has_other_workers(self, own: int = WORKERS) -> bool:
        """Return whether any process works for the queue, except as the worker `own`."""
        assert self._probe is not None
        spans = [(0, own), (own + 1, WORKERS - own - 1)]
        return any(is_held(self._probe, "exclusive", span) for span in spans if span[1] > 0)

    def close(self) -> None:
        for fd in (self._probe, self._fd):
            if fd is not None:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self._probe = None
        self._fd = -1

"""Buffers in POSIX shared memory: appended records survive a kill, and the next open recovers them.

Each buffer is one shared-memory object with a random name and mode 0600: a header page, then the
buffer's bytes. A live pool holds a life lock on it. Recovery uses `find_buffers` and `discard`.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import posix_ipc

from commitlog._kernel.memory import Memory
from commitlog._kernel.segments import UUID_SIZE
from commitlog.base.life_lock import LifeLock, is_held
from commitlog.errors import PoolBufferError, PoolMemoryError
from commitlog.pool.buffer import BufferState, PoolBuffer
from commitlog.pool.shm_header import HEADER_SIZE, Binding, ShmHeader

_NAME = re.compile(r"/commitlog-[0-9a-f]{32}")


class ShmBuffer(PoolBuffer):
    """A buffer that outlives its process."""

    backing: ClassVar[str] = "shm"

    __slots__ = ("header", "_life_lock", "_process")

    def __init__(self, name: str, header: ShmHeader, memory: Memory, life_lock: LifeLock) -> None:
        super().__init__(memory, name)
        self.header = header
        self._life_lock = life_lock
        self._process = os.getpid()

    @classmethod
    def allocate(cls, size: int) -> ShmBuffer:
        """Create a zeroed buffer under a new name, with all of its blocks, not yet populated."""
        name = f"/commitlog-{os.urandom(16).hex()}"
        descriptor = _open(name, posix_ipc.O_CREX)
        try:
            os.fchmod(descriptor, 0o600)  # undo the umask
            os.posix_fallocate(descriptor, 0, HEADER_SIZE + size)
            header = ShmHeader(Memory(HEADER_SIZE, descriptor))
            header.write_identity(size)
            memory = Memory(size, descriptor, HEADER_SIZE)
            # The lock needs an open description of its own: see life_lock.
            return cls(name, header, memory, LifeLock(lambda: _open(name)))
        except BaseException as error:
            _unlink(name)
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.ENOMEM):
                raise PoolMemoryError(
                    f"shared memory has no room for a pool buffer of {size} bytes ({error}): use "
                    "fewer or smaller buffers",
                    wanted=size,
                ) from error
            raise
        finally:
            os.close(descriptor)

    @property
    def bound(self) -> bool:
        """Return whether its header names a segment whose records it holds."""
        return self.state is not BufferState.GONE and self.header.in_use

    def bind(self, log_uuid: bytes, base: int, segment_id: int) -> None:
        """Record which segment of which log it holds; see `PoolBuffer.bind`."""
        if self.state is not BufferState.BORROWED or self._process != os.getpid():
            raise PoolBufferError(
                f"buffer {self.index} is not borrowed by this process: borrow it before binding it"
            )
        if self.header.in_use:
            raise PoolBufferError(
                f"buffer {self.index} is already bound to a segment: unbind it once that segment "
                "is committed"
            )
        if len(log_uuid) != UUID_SIZE or not 0 <= base < 2**63 or not 0 <= segment_id < 2**64:
            raise PoolBufferError(
                "a binding is a log's 16 uuid bytes, a base position and a 64-bit segment id, "
                f"not {log_uuid!r}, {base}, {segment_id}"
            )
        self.header.bind(Binding(log_uuid, base, segment_id))

    def unbind(self) -> None:
        """Clear the header's state: nothing is left to recover."""
        if self.state is not BufferState.GONE and self._process == os.getpid():
            self.header.unbind()

    def destroy(self) -> None:
        """Unlink the name, drop the life lock and release the memory."""
        if self.name is not None:
            _unlink(self.name)
        self._life_lock.close()
        super().destroy()
        self.header.close()


@dataclass(frozen=True, slots=True)
class RecoverableBuffer:
    """A dead pool's buffer with records of the segment at `base`, as the dead process left them.
    Recovery discards it once all records are in the segment and flushed.
    """

    name: str
    base: int
    segment_id: int
    size: int
    memory: Memory = field(repr=False)
    header: ShmHeader = field(repr=False)


@dataclass(frozen=True, slots=True)
class ShmSurvey:
    """The state of the buffers whose names a log had recorded.

    `recoverable` are those of a dead pool with records of this log, by ascending base. `missing`
    ones were removed, or were on another machine. `live` ones are of a live pool; those that hold
    records of this log now are `live_in_use`, too. `free` ones are of a dead pool and have no
    records. `foreign` ones have records of another log, which recovers them. `unusable` are the
    name and the fault of objects that are no buffers of this boot.
    """

    recoverable: tuple[RecoverableBuffer, ...]
    missing: tuple[str, ...]
    live: tuple[str, ...]
    live_in_use: tuple[str, ...]
    free: tuple[str, ...]
    foreign: tuple[str, ...]
    unusable: tuple[tuple[str, str], ...]


def find_buffers(names: Iterable[str], log_uuid: bytes) -> ShmSurvey:
    """Check each recorded buffer, and change nothing. If this user may not open one, raise
    `PoolBufferError`: an open without it would lose its records.
    """
    found: dict[str, list[Any]] = {field.name: [] for field in dataclasses.fields(ShmSurvey)}
    for name in dict.fromkeys(names):
        for kind, entry in _survey(name, log_uuid):
            found[kind].append(entry)
    found["recoverable"].sort(key=lambda buffer: buffer.base)
    return ShmSurvey(**{kind: tuple(entries) for kind, entries in found.items()})


def discard(name: str) -> None:
    """Clear a dead pool's buffer and remove its name; do nothing if it is gone. Refuse other names,
    and a buffer whose pool lives.
    """
    if not _NAME.fullmatch(name):
        raise PoolBufferError(
            f"{name!r} is not the name of a shared-memory buffer: use one that find_buffers listed"
        )
    descriptor = _open_existing(name)
    if descriptor is None:
        return
    try:
        if is_held(descriptor):
            raise PoolBufferError(
                f"shared-memory buffer {name} belongs to a live pool: close that pool instead"
            )
        if os.fstat(descriptor).st_size >= HEADER_SIZE:
            header = ShmHeader(Memory(HEADER_SIZE, descriptor))
            header.unbind()
            header.close()
        _unlink(name)
    finally:
        os.close(descriptor)


def _survey(name: str, log_uuid: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the fields of `ShmSurvey` that a buffer belongs to, each with its entry."""
    if not _NAME.fullmatch(name):
        yield "unusable", (name, "it is not a buffer's name")
        return
    try:
        descriptor = _open_existing(name)
    except PoolBufferError:
        raise
    except (OSError, ValueError) as error:
        # A link or a socket; or a directory, for which shm_open raises EINVAL.
        if isinstance(error, OSError) and error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        yield "unusable", (name, "it is not a regular file")
        return
    if descriptor is None:
        yield "missing", name
        return
    try:
        yield from _examine(name, descriptor, log_uuid)
    finally:
        os.close(descriptor)


def _examine(name: str, descriptor: int, log_uuid: bytes) -> Iterator[tuple[str, Any]]:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        yield "unusable", (name, "it is not a regular file")
        return
    live = is_held(descriptor)
    if live:
        yield "live", name
    size = status.st_size - HEADER_SIZE
    if size < 1:
        yield "unusable", (name, "it is too small for a header and data")
        return
    header = ShmHeader(Memory(HEADER_SIZE, descriptor))
    fault = header.identity_fault(size)
    binding = header.binding() if fault is None and header.in_use else None
    ours = binding is not None and binding.log_uuid == log_uuid
    if ours and not live and binding is not None:
        memory = Memory(size, descriptor, HEADER_SIZE)
        yield (
            "recoverable",
            RecoverableBuffer(name, binding.base, binding.segment_id, size, memory, header),
        )
        return
    header.close()
    if fault is not None:
        yield "unusable", (name, fault)
    elif live and ours:
        yield "live_in_use", name
    elif not live:
        yield ("free" if binding is None else "foreign"), name


def _open(name: str, flags: int = 0) -> int:
    descriptor = int(posix_ipc.SharedMemory(name, flags, mode=0o600).fd)
    os.set_inheritable(descriptor, False)
    return descriptor


def _open_existing(name: str) -> int | None:
    try:
        return _open(name)
    except posix_ipc.ExistentialError:
        return None
    except posix_ipc.PermissionsError as error:
        raise PoolBufferError(
            f"shared-memory buffer {name} may hold records that are not in the log yet, but this "
            "user may not open it: open the log as the user who wrote it"
        ) from error


def _unlink(name: str) -> None:
    try:
        posix_ipc.unlink_shared_memory(name)
    except posix_ipc.ExistentialError:
        return

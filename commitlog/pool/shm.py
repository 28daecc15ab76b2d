"""Buffers in POSIX shared memory: appended records survive a kill, and the next open recovers them.

Each buffer is one shared-memory object with a random name and mode 0600: a header page, then the
buffer's bytes. A live pool holds a life lock on it. The header names the buffer's segment::

      0  magic "CMLBUF01"     8  version    12  header size
     16  boot id             32  size of the buffer behind the header
     64  state: 0 free, 1 in use; the one cell that is written last at bind and first at unbind
     80  log uuid            96  base position    104  segment id

Little-endian. Bytes 128 to 4095 are zero when a buffer is bound and are the writer's to use.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import ClassVar, NamedTuple, Self

import posix_ipc

from commitlog._kernel.memory import Memory
from commitlog._kernel.segments import UUID_SIZE
from commitlog.base.boot import boot_id
from commitlog.base.life_lock import LifeLock
from commitlog.errors import PoolBufferError, PoolMemoryError
from commitlog.pool.buffer import BufferState, PoolBuffer

HEADER_SIZE = 4096
WRITER_AREA = 128

_MAGIC = b"CMLBUF01"
_VERSION = 1
_FREE = 0
_IN_USE = 1
_IDENTITY = struct.Struct("<8sII16sQ")
_STATE_AT = 64
_BINDING = struct.Struct("<16sQQ")
_BINDING_AT = 80


class Binding(NamedTuple):
    """The segment whose records a buffer holds."""

    log_uuid: bytes
    base: int
    segment_id: int


class ShmHeader:
    """The header's fields over mapped memory."""

    __slots__ = ("_view", "_words", "memory")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._view = memoryview(memory)
        self._words = self._view.cast("Q")

    def write_identity(self, size: int) -> None:
        """Write the constant fields for a new buffer of `size` bytes."""
        _IDENTITY.pack_into(self._view, 0, _MAGIC, _VERSION, HEADER_SIZE, boot_id(), size)

    def identity_fault(self, size: int) -> str | None:
        """Return the fault of the constant fields for a buffer of `size` bytes; None if sound."""
        magic, version, header_size, boot, recorded_size = _IDENTITY.unpack_from(self._view, 0)
        if magic != _MAGIC:
            return "it has no buffer header"
        if version != _VERSION or header_size != HEADER_SIZE:
            return (
                f"its header is of version {version}, {header_size} bytes; this release reads "
                f"version {_VERSION}"
            )
        if boot != boot_id():
            return "it was written in another boot"
        if recorded_size != size:
            return f"its header says that the buffer has {recorded_size} bytes, but it has {size}"
        if self._words[_STATE_AT // 8] not in (_FREE, _IN_USE):
            return "its state is neither free nor in use"
        return None

    @property
    def in_use(self) -> bool:
        return self._words[_STATE_AT // 8] == _IN_USE

    def bind(self, binding: Binding) -> None:
        """Write the binding, then the state: a kill in between leaves a free buffer."""
        self._view[WRITER_AREA:] = bytes(HEADER_SIZE - WRITER_AREA)
        _BINDING.pack_into(self._view, _BINDING_AT, *binding)
        self._words[_STATE_AT // 8] = _IN_USE

    def unbind(self) -> None:
        self._words[_STATE_AT // 8] = _FREE

    def binding(self) -> Binding:
        """Read the binding, which is valid only while `in_use`."""
        return Binding(*_BINDING.unpack_from(self._view, _BINDING_AT))

    def close(self) -> None:
        """Release the header's memory, unless a view of it is still open."""
        self._words.release()
        self._view.release()
        try:
            self.memory.close()
        except BufferError:
            return


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
    def allocate(cls, size: int) -> Self:
        """Create a zeroed buffer under a new name, with all of its blocks, not yet populated."""
        name = new_name()
        descriptor = open_object(name, posix_ipc.O_CREX)
        try:
            os.fchmod(descriptor, 0o600)  # undo the umask
            os.posix_fallocate(descriptor, 0, HEADER_SIZE + size)
            header = ShmHeader(Memory(HEADER_SIZE, descriptor))
            header.write_identity(size)
            memory = Memory(size, descriptor, HEADER_SIZE)
            # The lock needs an open description of its own: see life_lock.
            return cls(name, header, memory, LifeLock(lambda: open_object(name)))
        except BaseException as error:
            unlink_object(name)
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
            unlink_object(self.name)
        self._life_lock.close()
        super().destroy()
        self.header.close()


def new_name() -> str:
    """Return a random name; tests give theirs a prefix."""
    return f"/commitlog-{os.urandom(16).hex()}"


def open_object(name: str, flags: int = 0) -> int:
    """Open a shared-memory object, which a child process does not inherit."""
    try:
        descriptor = int(posix_ipc.SharedMemory(name, flags, mode=0o600).fd)
    except posix_ipc.Error as error:  # no OSError, and without an errno
        raise OSError(_errno_of(error, flags), str(error)) from error
    os.set_inheritable(descriptor, False)
    return descriptor


def _errno_of(error: posix_ipc.Error, flags: int) -> int:
    if isinstance(error, posix_ipc.PermissionsError):
        return errno.EACCES
    if isinstance(error, posix_ipc.ExistentialError):
        # With `O_CREX` it stands for both: a folder that is missing is found before.
        return errno.EEXIST if flags else errno.ENOENT
    return errno.EIO


def unlink_object(name: str) -> None:
    """Remove the name of a shared-memory object; a missing one is no error."""
    try:
        posix_ipc.unlink_shared_memory(name)
    except posix_ipc.ExistentialError:
        return
    except posix_ipc.Error as error:
        raise OSError(_errno_of(error, 0), str(error)) from error

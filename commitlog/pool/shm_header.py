"""ShmHeader: the page in front of a shared-memory buffer, which names its segment for recovery.

::
      0  magic "CMLBUF01"     8  version    12  header size
     16  boot id             32  size of the buffer behind the header
     64  state: 0 free, 1 in use; the one cell that is written last at bind and first at unbind
     80  log uuid            96  base position    104  segment id

Little-endian. Bytes 128 to 4095 are zero when a buffer is bound and are the writer's to use.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from commitlog._kernel.memory import Memory
from commitlog.base.boot import boot_id

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


@dataclass(frozen=True, slots=True)
class Binding:
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
        """Return whether the buffer is bound."""
        return self._words[_STATE_AT // 8] == _IN_USE

    def bind(self, binding: Binding) -> None:
        """Write the binding, then the state: a kill in between leaves a free buffer."""
        self._view[WRITER_AREA:] = bytes(HEADER_SIZE - WRITER_AREA)
        _BINDING.pack_into(
            self._view, _BINDING_AT, binding.log_uuid, binding.base, binding.segment_id
        )
        self._words[_STATE_AT // 8] = _IN_USE

    def unbind(self) -> None:
        """Clear the state."""
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

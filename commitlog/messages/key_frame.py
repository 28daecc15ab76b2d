"""KeyFrame: a whole message, and the deltas of later messages against it."""

from __future__ import annotations

import zlib
from collections.abc import Hashable
from typing import Generic, TypeVar

from commitlog.base.cached import Cached

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
# Deflate finds repeats at most 32 KiB back, and needs 262 bytes of that for itself.
LARGEST = 32_000
WHOLE = b"\0"  # in front of a whole message: its key frame has a position of no bytes
_GENERATION_BYTES = 1 << 23  # of key frames that are kept; there are two generations
_MORE = 512  # bytes that a kept key frame takes beside its content
_CRC_BYTES = 4
_RAW_DEFLATE = -15


class KeyFrame:
    """A whole message as its codec made it, at most `LARGEST` bytes.

    Parameters
    ----------
    position : int
        That of its record.
    content : bytes
        The message.
    """

    def __init__(self, position: int, content: bytes) -> None:
        self.position = position
        self.content = content

    @Cached
    def crc(self) -> bytes:
        """The checksum that deltas of this message have."""
        return zlib.crc32(self.content).to_bytes(_CRC_BYTES, "little")

    @Cached
    def _head(self) -> bytes:
        length = -(-self.position.bit_length() // 8)
        return bytes([length]) + self.position.to_bytes(length, "little") + self.crc

    def delta(self, content: bytes) -> bytes:
        """Return the delta of another message: where this one is, and what is different."""
        packer = zlib.compressobj(wbits=_RAW_DEFLATE, zdict=self.content)
        return self._head + packer.compress(content) + packer.flush()

    def content_of(self, delta: Delta, limit: int) -> bytes:
        """Return the message of a delta; raise ValueError if it is damaged, was made of another
        message, or has more than `limit` bytes.
        """
        if delta.crc != self.crc:
            raise ValueError("has other content: the record was copied from another log")
        unpacker = zlib.decompressobj(_RAW_DEFLATE, self.content)
        try:
            content = unpacker.decompress(delta.packed, limit)
        except zlib.error as error:
            raise ValueError(f"does not match it: {error}") from None
        if not unpacker.eof or unpacker.unused_data:
            raise ValueError(f"does not match it, or makes it larger than {limit} bytes")
        return content


class Delta:
    """The parts of a delta.

    Parameters
    ----------
    value : bytes
        What `KeyFrame.delta` returned.

    Raises
    ------
    ValueError
        It is damaged.
    """

    def __init__(self, value: bytes) -> None:
        end = 1 + value[0] if value else 0
        self.position = int.from_bytes(value[1:end], "little")
        self.crc = value[end : end + _CRC_BYTES]
        self.packed = value[end + _CRC_BYTES :]
        if not self.packed:
            raise ValueError("the message is a damaged delta")


class KeyFrameCache(Generic[K, V]):
    """Keep what belongs to the key frames that were used last, in 16 MiB.

    Any thread may use it. It has no lock, which a fork could leave locked in the child: there are
    two generations, and what is not used while a new one grows is dropped with the old one.
    """

    def __init__(self) -> None:
        self._new: dict[K, tuple[V, KeyFrame]] = {}
        self._old: dict[K, tuple[V, KeyFrame]] = {}
        self._bytes = 0  # of the new one

    def get(self, name: K) -> V | None:
        """Return what is kept under a name."""
        found = self._new.get(name)
        if found is None:
            found = self._old.get(name)
            if found is None:
                return None
            self.put(name, *found)
        return found[0]

    def put(self, name: K, kept: V, frame: KeyFrame) -> None:
        """Keep an object under a name, in place of another one; the frame says how large it is."""
        self._new[name] = kept, frame
        size = len(frame.content) + _MORE
        self._bytes += size  # without a call in between, so threads lose nothing
        if self._bytes > _GENERATION_BYTES:
            self._old, self._new, self._bytes = self._new, {}, 0

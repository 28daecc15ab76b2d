"""TarFile: write a backup into one file: see `commitlog.stores.tar_target`."""

from __future__ import annotations

import json
import os
import struct
import tarfile
from collections.abc import Callable
from io import BytesIO
from typing import BinaryIO

from commitlog.base.host import host
from commitlog.stores.archived import compressor
from commitlog.stores.tar_target import (
    FOOTER_MAGIC,
    INDEX,
    TABLE_ENTRY,
    TABLE_FOOTER,
    TABLE_HEAD,
    TABLE_MAGIC,
    TarTarget,
)

_BLOCK = tarfile.BLOCKSIZE
_PIECE = 1 << 20


class TarFile(TarTarget):
    """Write members one after the other, each as frames of its own.

    While it is written, it takes parts of segments as a store does.

    Parameters
    ----------
    path : str
        The file, which must not exist.
    level : int
        Of zstd.
    """

    def __init__(self, path: str, level: int) -> None:
        super().__init__(path)
        self._level = level
        self._file = open(path, "xb")  # noqa: SIM115  (closed by `close`)
        self._sizes: list[tuple[int, int]] = []  # sizes, packed and unpacked
        self._members: dict[str, tuple[int, int]] = {}
        self._left = 0  # of the member that is written in parts
        self._time_s = host.time_ns() // 10**9

    @property
    def frames(self) -> int:
        """How many frames there are."""
        return len(self._sizes)

    def cut(self, frames: int) -> None:
        """Remove all but the first frames."""
        self._sizes = self._sizes[:frames]
        self._members = {name: at for name, at in self._members.items() if at[0] < frames}
        self._left = 0
        end = sum(size for size, _ in self._sizes)
        self._file.truncate(end)
        self._file.seek(end)

    def begin(self, name: str, size: int) -> None:
        """Begin a member; frames of its content follow."""
        self._fill()
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = size, self._time_s, 0o644
        self._pack(info.tobuf(tarfile.PAX_FORMAT))
        self._left = -(-size // _BLOCK) * _BLOCK

    def content(self, name: str, file: BinaryIO, size: int) -> None:
        """Add so many bytes of a file as one frame, which is the object of that name."""
        self._members[name] = len(self._sizes), size
        self._frame(file, size, self._left)

    def put(self, name: str, write: Callable[[BinaryIO], object], *, replace: bool = True) -> bool:
        """Add a part of a segment, which is packed already."""
        packed = BytesIO()
        write(packed)
        first, end = (int(text) for text in name.split("-")[1:3])
        self._members[name] = len(self._sizes), end - first
        self._file.write(packed.getvalue())
        self._note(len(packed.getvalue()), end - first)
        return True

    def close(self, *, index: bool) -> None:
        """End the archive, and make the file durable; without an index, leave it as it is."""
        try:
            if index:
                text = json.dumps({"format": 1, "objects": self._members}).encode()
                self.begin(INDEX, len(text))
                self._pack(text.ljust(self._left, b"\0"))
                self._pack(bytes(2 * _BLOCK))
                self._write_table()
                self._file.flush()
                os.fsync(self._file.fileno())
        finally:
            self._file.close()

    def _write_table(self) -> None:
        entries = b"".join(TABLE_ENTRY.pack(*each) for each in self._sizes)
        footer = struct.pack(TABLE_FOOTER, len(self._sizes), 0, FOOTER_MAGIC)
        self._file.write(TABLE_HEAD.pack(TABLE_MAGIC, len(entries) + len(footer)))
        self._file.write(entries + footer)

    def _fill(self) -> None:
        """End a member with zeros."""
        if self._left > 0:
            self._frame(BytesIO(), 0, self._left)

    def _pack(self, content: bytes) -> None:
        self._frame(BytesIO(content), len(content), len(content))

    def _frame(self, file: BinaryIO, size: int, whole: int) -> None:
        """Write so many bytes of a file as a frame, and zeros up to the `whole`."""
        start = self._file.tell()
        stream = compressor(self._level).compressobj(size=whole)
        left = size
        while left and (piece := file.read(min(left, _PIECE))):
            self._file.write(stream.compress(piece))
            left -= len(piece)
        for at in range(size - left, whole, _PIECE):
            self._file.write(stream.compress(bytes(min(_PIECE, whole - at))))
        self._file.write(stream.flush())
        self._note(self._file.tell() - start, whole)

    def _note(self, packed: int, unpacked: int) -> None:
        self._sizes.append((packed, unpacked))
        self._left -= unpacked

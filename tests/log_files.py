"""Logs created file by file, in any state that a crash or a mistake can leave, for the tests of
recovery, verification and repair.
"""

from __future__ import annotations

import os
import struct
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

from commitlog._kernel import memory as kernel
from commitlog._kernel.memory import Cursors
from commitlog.flush.checkpoint import Checkpoint
from commitlog.recovery import Recovered, recover
from commitlog.segment import identity as identities
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity
from tests.oracle import segment_file as oracle

SIZE = 65536
HEADER = 4096
UUID = uuid.UUID("0b6f3c1e-5d2a-4e7b-9c48-a1f2d3e4b5c6").bytes
BOOT = bytes(range(16))
CHECKPOINT = struct.Struct("<Q16sQQqI")  # the CRC follows


class LogFiles:
    """A log directory that a test builds file by file."""

    def __init__(self, path: Path) -> None:
        path.mkdir(exist_ok=True)
        self.path = path
        self.directory = LogDirectory(str(path), Identity(UUID, SIZE, "coarse", 0))
        self.cursors: Cursors | None = None
        if not (path / "log.json").exists():
            identities.write(self.directory.fd, Identity(UUID, SIZE, "coarse", 1))

    def file(self, number: int) -> Path:
        return self.path / f"{number * SIZE:020d}.seg"

    def cut_file(self, number: int) -> Path:
        return self.path / f"{number * SIZE:020d}.seg.cut"

    def segment_id(self, number: int) -> int:
        return 0x1000 + number

    def create(
        self, number: int, *, opened: bool | None = None, seal: oracle.Seal | None = None
    ) -> None:
        """Create a segment without frames; the first one is marked as opened."""
        opened = number == 0 if opened is None else opened
        header = oracle.build_header(
            log_uuid=UUID,
            segment_id=self.segment_id(number),
            base=number * SIZE,
            size=SIZE,
            created_ns=1,
            opened=oracle.Opened(5, 0) if opened else None,
            seal=seal,
        )
        self.file(number).write_bytes(header.ljust(SIZE, b"\0"))

    def put(self, number: int, offset: int, content: bytes) -> int:
        """Overwrite bytes of a segment; return the offset behind them."""
        with self.file(number).open("r+b") as file:
            file.seek(offset)
            file.write(content)
        return offset + len(content)

    def get(self, number: int, start: int = 0, stop: int = SIZE) -> bytes:
        return self.file(number).read_bytes()[start:stop]

    def flip(self, number: int, offset: int) -> None:
        """Flip one bit."""
        self.put(number, offset, bytes([self.get(number, offset, offset + 1)[0] ^ 0x10]))

    def record(self, number: int, offset: int, value: bytes) -> int:
        return self.put(
            number,
            offset,
            oracle.build_frame(self.segment_id(number), offset, value, timestamp_ns=7),
        )

    def records(self, number: int, values: Iterable[bytes], offset: int = HEADER) -> int:
        for value in values:
            offset = self.record(number, offset, value)
        return offset

    def skip(self, number: int, offset: int, length: int) -> int:
        self.put(number, offset, oracle.build_skip(self.segment_id(number), offset, length))
        return offset + length if length else SIZE

    def claim(self, number: int, offset: int, length: int, slot: int = 3) -> int:
        self.put(number, offset, oracle.build_claim(length, slot, 1))
        return offset + -(-length // 8) * 8

    def full(self, number: int, values: Sequence[bytes]) -> None:
        """A whole segment: created, filled and padded."""
        self.create(number, opened=True)
        self.skip(number, self.records(number, values), 0)

    def values(self) -> list[bytes]:
        return [record.value for record in oracle.log_values(self.path)]

    def numbers(self) -> list[int]:
        return self.directory.segment_numbers()

    # --- files beside the segments ---

    def open_cursors(
        self,
        *,
        mode: int = kernel.MODE_MAPPED,
        tail: tuple[int, int] = (0, 0),
        flushed: int = 0,
        state: int = kernel.STATE_READY,
    ) -> Cursors:
        """Create the cursors that a dead writer leaves."""
        fd = os.open(self.path / "cursors", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            os.posix_fallocate(fd, 0, kernel.CURSORS_SIZE)
            cursors = Cursors(fd, True)
        finally:
            os.close(fd)
        cursors.rebuild(UUID, BOOT, 1, SIZE)
        cursors.mode = mode
        cursors.tail = tail
        cursors["flushed"] = flushed
        cursors["state"] = state
        self.cursors = cursors
        return cursors

    def checkpoint(self, position: int, *, clean: bool = False, count: int = 1) -> Checkpoint:
        """Create a checkpoint, and its file."""
        content = CHECKPOINT.pack(
            int.from_bytes(b"CMLCKP01", "little"), UUID, count, position, 1, clean
        )
        record = content + struct.pack("<I", oracle.crc32c(content))
        with (self.path / "checkpoint").open("wb") as file:
            file.write(record.ljust(1024, b"\0"))
        return Checkpoint(position, clean, count)

    def recover(
        self,
        *,
        usable: bool = False,
        checkpoint: Checkpoint | None = None,
        shm_names: Sequence[str] = (),
        cursors: Cursors | None = None,
    ) -> Recovered:
        """Recover as an open does: with the existing cursors, or with rebuilt ones if they are
        unusable.
        """
        if cursors is None:
            cursors = self.cursors or self.open_cursors()
        if not usable:
            cursors.rebuild(UUID, BOOT, 1, SIZE)
        return recover(
            self.directory,
            cursors,
            cursors_usable=usable,
            checkpoint=checkpoint,
            shm_names=shm_names,
        )

    def snapshot(self) -> dict[str, bytes]:
        """The content of every file except the cursors."""
        return {
            path.name: path.read_bytes()
            for path in sorted(self.path.iterdir())
            if path.name != "cursors"
        }


def numbered(count: int, first: int = 0) -> list[bytes]:
    """Return `count` different values."""
    return [b"value %06d" % number for number in range(first, first + count)]

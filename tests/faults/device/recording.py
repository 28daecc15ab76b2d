"""What a device recorded, and the images that a power cut may leave of it."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path

from tests.faults.device.recorder import ENTRY

SHARES = [0.0, 0.0, 0.2, 0.5, 0.9, 1.0]
PAGE = 4096


@dataclass(frozen=True)
class Cut:
    """A moment of a power cut, and what the device had kept of the writes that were not flushed.

    Attributes
    ----------
    at : int
        How many entries of the record the device had done.
    share : float
        The probability that a write behind the last flush is kept.
    unit : int
        Single writes are torn at multiples of these bytes; 0 keeps each write whole or not at all.
    in_order : bool
        All writes are kept in their order up to some point, and the one there is torn.
    """

    at: int
    share: float
    unit: int
    in_order: bool


def choose(numbers: random.Random, moments: list[list[int]], sector_size: int) -> Cut:
    """Choose a cut.

    Parameters
    ----------
    numbers : random.Random
        What chooses.
    moments : list of lists of int
        The points of the record at which to cut; each list is as probable as any other.
    sector_size : int
        What the device writes atomically.
    """
    return Cut(
        numbers.choice(numbers.choice(moments)),
        numbers.choice(SHARES),
        numbers.choice([0, sector_size, PAGE]),
        numbers.random() < 0.2,
    )


class Recording:
    """The record of a device, from an image on.

    Parameters
    ----------
    image : Path
        The image before the first entry.
    folder : Path
        The folder of the record.
    """

    def __init__(self, image: Path, folder: Path) -> None:
        self._image = image
        content = (folder / "entries").read_bytes()
        self._entries = list(ENTRY.iter_unpack(content[: len(content) // ENTRY.size * ENTRY.size]))
        self._bytes = os.open(folder / "bytes", os.O_RDONLY)
        self._durable = folder / "durable"
        copy_sparse(image, self._durable)
        self._done = 0

    def __len__(self) -> int:
        return len(self._entries)

    def close(self) -> None:
        """Release the record and remove the image of what is durable."""
        os.close(self._bytes)
        self._durable.unlink()

    def write_image(self, cut: Cut, numbers: random.Random, target: Path) -> None:
        """Write the image that a cut leaves. No cut may be before an earlier one's last flush."""
        flushed = cut.at
        while flushed > self._done and self._entries[flushed - 1][1]:
            flushed -= 1
        with self._durable.open("r+b", buffering=0) as file:
            for entry in self._entries[self._done : flushed]:
                self._write(file.fileno(), *entry)
        self._done = max(self._done, flushed)
        copy_sparse(self._durable, target)
        pending = self._entries[self._done : cut.at]
        with target.open("r+b", buffering=0) as file:
            if cut.in_order:
                self._keep_in_order(file.fileno(), pending, cut, numbers)
            else:
                for entry in pending:
                    self._keep_part(file.fileno(), entry, cut, numbers)

    def _keep_in_order(
        self, fd: int, pending: list[tuple[int, int, int]], cut: Cut, numbers: random.Random
    ) -> None:
        kept = numbers.randint(0, len(pending))
        for entry in pending[:kept]:
            self._write(fd, *entry)
        for entry in pending[kept : kept + 1]:
            self._keep_part(fd, entry, cut, numbers)

    def _keep_part(
        self, fd: int, entry: tuple[int, int, int], cut: Cut, numbers: random.Random
    ) -> None:
        offset, size, kept_at = entry
        for start in range(0, size, cut.unit or size):
            if numbers.random() < cut.share:
                part = min(cut.unit or size, size - start)
                self._write(fd, offset + start, part, kept_at + start)

    def _write(self, fd: int, offset: int, size: int, kept_at: int) -> None:
        if size:
            os.pwrite(fd, os.pread(self._bytes, size, kept_at), offset)


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file without its holes."""
    reader = os.open(source, os.O_RDONLY)
    writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        size = os.fstat(reader).st_size
        os.ftruncate(writer, size)
        start = 0
        while start < size:
            try:
                start = os.lseek(reader, start, os.SEEK_DATA)
            except OSError:
                return  # nothing but a hole follows
            stop = os.lseek(reader, start, os.SEEK_HOLE)
            while start < stop:
                os.lseek(writer, start, os.SEEK_SET)
                start += os.sendfile(writer, reader, start, stop - start)
    finally:
        os.close(reader)
        os.close(writer)


def without_zeros(image: Path) -> None:
    """Make holes of the pages of an image that are zero."""
    packed = image.with_suffix(".packed")
    zeros = bytes(PAGE)
    with image.open("rb", buffering=0) as reader, packed.open("wb", buffering=0) as writer:
        size = os.fstat(reader.fileno()).st_size
        writer.truncate(size)
        start = 0
        while start < size:
            try:
                start = os.lseek(reader.fileno(), start, os.SEEK_DATA)
            except OSError:
                break
            stop = os.lseek(reader.fileno(), start, os.SEEK_HOLE)
            for at in range(start, stop, PAGE):
                page = os.pread(reader.fileno(), PAGE, at)
                if page != zeros[: len(page)]:
                    os.pwrite(writer.fileno(), page, at)
            start = stop
    packed.replace(image)

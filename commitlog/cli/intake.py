"""What `append` takes in: files and standard input, piece by piece, and the records in them."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Protocol

from commitlog.cli.stop import Stop

# A pipe gives what there is, so a line that is typed comes at once and alone; a file gives so much
# at a time.
PIECE_BYTES = 1 << 18
STANDARD_INPUT = "-"
_LENGTH = struct.Struct("<I")


class Splitter(Protocol):
    """Finds the records of one source.

    Attributes
    ----------
    offset : int
        Where in the source the first of the values given last begins.
    overhead : int
        Bytes that a record takes in the source beside its value.
    fault : str or None
        Why nothing more can be taken; what was given before stands.
    """

    offset: int
    overhead: int
    fault: str | None

    def feed(self, piece: bytes) -> list[bytes]:
        """The values that are complete with this piece."""

    def end(self) -> list[bytes]:
        """The source has ended: what is left of it."""

    @property
    def unfinished(self) -> int:
        """Bytes of a record whose end has not come."""


class Delimited:
    """Values that end with a delimiter; what follows the last delimiter is a value too.

    Parameters
    ----------
    delimiter : bytes
        One byte.
    largest : int
        The longest value that there is room for: a source without any delimiter is refused before
        memory is full of it.
    """

    overhead = 1

    def __init__(self, delimiter: bytes, largest: int) -> None:
        self.offset = 0
        self.fault: str | None = None
        self.unfinished = 0
        self._delimiter = delimiter
        self._largest = largest
        self._parts: list[bytes] = []  # of a value whose end has not come
        self._next = 0

    def feed(self, piece: bytes) -> list[bytes]:
        *values, rest = piece.split(self._delimiter)
        if values:
            if self._parts:
                values[0] = b"".join((*self._parts, values[0]))
            self.offset = self._next
            self._next += self.unfinished + len(piece) - len(rest)
            self._parts, self.unfinished = [], 0
        if rest:
            self._parts.append(rest)
            self.unfinished += len(rest)
        if self.unfinished > self._largest:
            self.fault = (
                f"the record at offset {self._next} is longer than {self._largest} bytes, the "
                "most that fits this log"
            )
        return values

    def end(self) -> list[bytes]:
        self.offset = self._next
        return [b"".join(self._parts)] if self._parts else []


class Frames:
    """Values with their length before them, 4 bytes little-endian.

    Parameters
    ----------
    largest : int
        A length above it is refused as soon as it is read.
    """

    overhead = _LENGTH.size

    def __init__(self, largest: int) -> None:
        self.offset = 0
        self.fault: str | None = None
        self.unfinished = 0
        self._largest = largest
        self._parts: list[bytes] = []
        self._needed = _LENGTH.size
        self._next = 0

    def feed(self, piece: bytes) -> list[bytes]:
        self._parts.append(piece)
        self.unfinished += len(piece)
        if self.unfinished < self._needed:
            return []
        data = b"".join(self._parts)
        values, at = [], 0
        self._needed = _LENGTH.size
        while at + _LENGTH.size <= len(data):
            length = _LENGTH.unpack_from(data, at)[0]
            if length > self._largest:
                where = f"the frame at offset {self._next + at}"
                self.fault = (
                    f"{where} says that it holds {length} bytes, and {self._largest} is the "
                    "most that fits this log"
                )
                break
            start = at + _LENGTH.size
            if start + length > len(data):
                self._needed = _LENGTH.size + length
                break
            values.append(data[start : start + length])
            at = start + length
        self.offset, self._next = self._next, self._next + at
        rest = data[at:]
        self._parts, self.unfinished = [rest] if rest else [], len(rest)
        return values

    def end(self) -> list[bytes]:
        if self.unfinished:
            self.fault = (
                f"it ends inside the frame at offset {self._next}: {self.unfinished} bytes of it "
                "are there, "
                f"{self._needed}{' or more' if self.unfinished < _LENGTH.size else ''} were to come"
            )
        return []


def total_bytes(sources: tuple[str, ...]) -> int | None:
    """How much the sources hold together, where that is known: pipes and terminals do not say."""
    total = 0
    for source in sources:
        if source == STANDARD_INPUT or not os.path.isfile(source):
            return None
        total += os.path.getsize(source)
    return total


def pieces(source: str, stop: Stop) -> Iterator[bytes]:
    """What a source has to give, as it comes, until its end or until it is time to stop."""
    descriptor = 0
    if source != STANDARD_INPUT:
        descriptor = -1
        with stop.at_once():
            if not stop.asked:  # a Ctrl-C that came right before would not come again
                descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        if descriptor < 0:
            return
    try:
        while stop.wait_for(descriptor):
            try:
                piece = os.read(descriptor, PIECE_BYTES)
            except BlockingIOError:
                continue  # what was ready went to somebody who shares the pipe
            if not piece:
                return
            yield piece
    finally:
        if descriptor > 0:
            os.close(descriptor)

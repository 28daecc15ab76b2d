"""Input of `append`: files and standard input, piece by piece, split into records."""

from __future__ import annotations

import os
from collections.abc import Iterator

from commitlog.tools.cli.interrupt import Stop
from commitlog.tools.cli.record_format import LENGTH

# The largest read. A read from a pipe returns what is there, so a typed line is appended at once.
PIECE_BYTES = 1 << 18
STANDARD_INPUT = "-"


class Splitter:
    """Split one source into records. A value longer than `largest` is refused before it fills the
    memory.
    """

    def __init__(self, largest: int) -> None:
        self.fault: str | None = None  # why the rest cannot be split; earlier values are valid
        self.unfinished = 0  # bytes read of a record whose end is not read yet
        self._largest = largest
        self._parts: list[bytes] = []  # of the unfinished record
        self._next = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Take the next piece of the source; return the values that it completes."""
        raise NotImplementedError

    def end(self) -> list[bytes]:
        """Return the last values, at the end of the source."""
        raise NotImplementedError


class Delimited(Splitter):
    """Split at a delimiter of one byte. Bytes behind the last delimiter are a value, too."""

    def __init__(self, delimiter: bytes, largest: int) -> None:
        super().__init__(largest)
        self._delimiter = delimiter

    def feed(self, piece: bytes) -> list[bytes]:
        *values, rest = piece.split(self._delimiter)
        if values:
            values[0] = b"".join((*self._parts, values[0]))
            self._parts, self.unfinished = [], 0
        for index, value in enumerate(values):
            if len(value) > self._largest:
                self._refuse()
                return values[:index]
            self._next += len(value) + 1
        if rest:
            self._parts.append(rest)
            self.unfinished += len(rest)
        if self.unfinished > self._largest:
            self._refuse()
        return values

    def _refuse(self) -> None:
        self.fault = (
            f"the record at offset {self._next} is longer than {self._largest} bytes, the limit of "
            "this log"
        )

    def end(self) -> list[bytes]:
        return [b"".join(self._parts)] if self._parts else []


class Frames(Splitter):
    """Split by the length before each value, 4 bytes little-endian."""

    def __init__(self, largest: int) -> None:
        super().__init__(largest)
        self._needed = LENGTH.size

    def feed(self, piece: bytes) -> list[bytes]:
        self._parts.append(piece)
        self.unfinished += len(piece)
        if self.unfinished < self._needed:
            return []
        data = b"".join(self._parts)
        values, at = [], 0
        self._needed = LENGTH.size
        while at + LENGTH.size <= len(data):
            length = LENGTH.unpack_from(data, at)[0]
            if length > self._largest:
                where = f"the frame at offset {self._next + at}"
                self.fault = (
                    f"{where} has a length of {length} bytes; the limit of this log is "
                    f"{self._largest}"
                )
                break
            start = at + LENGTH.size
            if start + length > len(data):
                self._needed = LENGTH.size + length
                break
            values.append(data[start : start + length])
            at = start + length
        self._next += at
        rest = data[at:]
        self._parts, self.unfinished = [rest] if rest else [], len(rest)
        return values

    def end(self) -> list[bytes]:
        if self.unfinished:
            self.fault = (
                f"the input ends inside the frame at offset {self._next}: it has "
                f"{self.unfinished} of {'at least ' * (self.unfinished < LENGTH.size)}"
                f"{self._needed} bytes"
            )
        return []


def total_bytes(sources: tuple[str, ...]) -> int | None:
    """Return the total size of the sources; None if one of them is not a file."""
    total = 0
    for source in sources:
        if source == STANDARD_INPUT or not os.path.isfile(source):
            return None
        total += os.path.getsize(source)
    return total


def pieces(source: str, stop: Stop) -> Iterator[bytes]:
    """Yield the pieces of a source as they arrive, until its end or a Ctrl-C."""
    descriptor = 0
    if source != STANDARD_INPUT:
        descriptor = -1
        with stop.immediate():
            if not stop.requested:  # a Ctrl-C before this block raises nothing in it
                descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        if descriptor < 0:
            return
    try:
        while stop.wait_for(descriptor):
            try:
                piece = os.read(descriptor, PIECE_BYTES)
            except BlockingIOError:
                continue  # another process that shares the pipe has read it
            if not piece:
                return
            yield piece
    finally:
        if descriptor > 0:
            os.close(descriptor)

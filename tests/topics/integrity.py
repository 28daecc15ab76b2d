"""Messages of the integrity tests: `python integrity.py PATH KIND SOURCE COUNT` is one writer
process.
"""

from __future__ import annotations

import sys
from typing import Annotated

from commitlog import bus

SEGMENT_SIZE = 1 << 20


class Checked(bus.Message, type=0):
    """Every field is a function of source and number."""

    source: bus.uint8
    number: bus.int64
    short: bus.int16
    real: bus.float64
    flag: bool
    octets: Annotated[bytes, 13]

    def fill(self, source: int, number: int) -> Checked:
        self.source = source
        self.number = number
        self.short = number * 7 % 65536 - 32768
        self.real = number / 3
        self.flag = number % 2 == 1
        self.octets = bytes([(source * 31 + number) % 256]) * 13
        return self


def raw(source: int, number: int) -> bytes:
    """Return 5 to 262 bytes: the writer, the number of the message, then one repeated byte."""
    return (
        bytes([source])
        + number.to_bytes(4, "little")
        + bytes([(source * 31 + number) % 256]) * (number * 37 % 258)
    )


def write(path: str, kind: str, source: int, count: int) -> None:
    with bus.writer(path, segment_size=SEGMENT_SIZE) as writer:
        message = Checked.blank()
        for number in range(count):
            if kind == "raw":
                writer.write(raw(source, number), type=source)
            elif kind == "objects":
                writer.write(message.fill(source, number))
            else:
                with writer.claim(Checked) as claimed:
                    claimed.fill(source, number)


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

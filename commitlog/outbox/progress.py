"""Progress: what the state row of an outbox says, and the decisions that follow from it.

The relay writes the row in the transaction that takes rows for a batch, before it appends them.
The numbers of a batch are therefore durable before the log has one of them, and the rows stay in
the table until the log has all of them durably. After a crash the relay appends the batch again,
and the log recognises the numbers that it has.

Each relay begins its first batch at a random distance above the last number. So the databases of
which one is a copy of the other, or was restored, never give one number to two rows.
"""

from __future__ import annotations

import uuid
import zlib
from dataclasses import dataclass, replace
from typing import Any

from commitlog import Record

# The log knows the last 64 numbers of a producer: docs/durability.md.
BATCH_ROWS = 64
BATCH_BYTES = 4 << 20
GAP_MOST = 1 << 32  # numbers have 63 bits


@dataclass(frozen=True)
class Progress:
    """How far the relay has come.

    Attributes
    ----------
    producer : str
        The name under which the log numbers the rows. No other outbox has it.
    log : str
        The uuid of the log that has the rows.
    number : int
        The number of the first row of the batch.
    batch : tuple of int
        The ids of the rows that are being moved, in the order of their numbers.
    position, checksum : int
        Of the last record that was moved: where it is, and a CRC of its key and value. -1 and 0
        before the first one.
    last : int
        The largest number that was moved before the batch; -1 before the first one.
    """

    producer: str
    log: str
    number: int = 0
    batch: tuple[int, ...] = ()
    position: int = -1
    checksum: int = 0
    last: int = -1

    @classmethod
    def new(cls, log: str) -> Progress:
        """Return the progress of a relay that has moved nothing."""
        return cls(f"outbox-{uuid.uuid4()}", log)

    @classmethod
    def of(cls, row: Any) -> Progress:
        """Read the state row."""
        batch = tuple(map(int, row.batch.split()))
        moved = row.position, row.checksum, row.last
        return cls(row.producer, row.log, row.number, batch, *moved)

    def columns(self) -> dict[str, Any]:
        """Return the state row."""
        return vars(self) | {"batch": " ".join(map(str, self.batch))}

    def after(self, moved: int, refused: int, last: Record | None) -> Progress:
        """Return the progress when the first `moved` rows of the batch are durable in the log, and
        the next `refused` ones, of which it has none, leave the batch. A refused row takes no
        number: a gap would hide that the log is ahead of a restored database.
        """
        found = replace(self, number=self.number + moved, batch=self.batch[moved + refused :])
        if last is None:
            return found
        number = self.number + moved - 1
        return replace(found, position=last.position, checksum=checksum_of(last), last=number)

    def taking(self, waiting: list[tuple[int, int]], gap: int) -> Progress:
        """Return the progress with the next batch, of ids and sizes of rows that wait, numbered
        behind a gap.
        """
        total = 0
        batch: list[int] = []
        for number, size in waiting:
            total += size
            if batch and total > BATCH_BYTES:
                break
            batch.append(number)
        return replace(self, batch=tuple(batch), number=self.number + gap) if batch else self

    def fits(self, number: int | None) -> bool:
        """Return whether a log can have this largest number: the last one that was moved, or one of
        the batch. It is smaller, or None, if the log has forgotten the producer, and in a log that
        lost records, which the last record shows.
        """
        end = self.number + len(self.batch)
        return number is None or number <= self.last or self.number <= number < end


def checksum_of(record: Record) -> int:
    """Return the CRC by which a moved record is recognised."""
    return zlib.crc32(record.value, zlib.crc32(record.key or b""))

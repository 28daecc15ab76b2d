"""Part: records to append at once, of which some are sealed for their positions."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from commitlog._kernel.engine import RecordList
from commitlog.log.commit_log import CommitLog
from commitlog.log.coroutines import append_list_async
from commitlog.log.parts import parts_of
from commitlog.messages.cipher import NONCE_BYTES
from commitlog.messages.data_key import SEALED_MORE, DataKey
from commitlog.messages.history import end_of
from commitlog.messages.schema import SCHEMA_TYPE

ROOM = bytes(SEALED_MORE)  # behind a message that is to be sealed: its record gets that length
Key: TypeAlias = bytes | bytearray | None
Positions: TypeAlias = npt.NDArray[np.int64]


class PlaceSeal(NamedTuple):
    """Seals the messages of a schema for their positions.

    Attributes
    ----------
    data_key : DataKey
        Its key seals them.
    has_history : bool
        Whether a history is in front of them, which is not sealed.
    """

    data_key: DataKey
    has_history: bool

    def sealed(self, value: bytes, key: Key, position: int, nonce: bytes) -> bytes:
        """Return the value of a record at a position, from a message with `ROOM` behind it."""
        if not self.has_history:
            return self.data_key.sealed_at(value[:-SEALED_MORE], key, position, nonce)
        head = end_of(value)
        message = value[head:-SEALED_MORE]
        return value[:head] + self.data_key.sealed_at(message, key, position, nonce)

    def append(
        self,
        log: CommitLog,
        record: tuple[bytes, Key, int],
        timestamp_ns: int | None,
        sync: bool | None,
    ) -> int:
        """Append a message, given as value with `ROOM`, key and type; return its position, or -1
        if it was dropped. A `Part` of one record takes longer.
        """
        value, key, kind = record

        def placing(_first: int, _end: int) -> Callable[[list[int]], list[bytes]]:
            nonce = os.urandom(NONCE_BYTES)
            return lambda positions: [self.sealed(value, key, positions[0], nonce)]

        engine = parts_of(log).engine
        records = RecordList(engine, [value], [key], [kind], timestamp_ns, None, placing)
        return int(engine.append_records(records, sync)[0])


@dataclass
class Part:
    """Records to append at once.

    Attributes
    ----------
    values, keys, types : list
        Of the records. A message that is to be sealed has `ROOM` behind it.
    seals : list of PlaceSeal or None
        What seals each value for its position; None for one that stays as it is.
    sync, expect
        As for `CommitLog.append_many`.
    """

    values: list[bytes]
    keys: list[Any]
    types: list[int]
    seals: list[PlaceSeal | None]
    sync: bool | None
    expect: int | None = None

    def behind(self, heads: list[tuple[bytes, bytes]]) -> Self:
        """Put schema records, of key and value, before the others; return this."""
        self.keys[:0], self.values[:0] = zip(*heads, strict=True)
        self.types[:0] = [SCHEMA_TYPE] * len(heads)
        self.seals[:0] = [None] * len(heads)
        return self

    def append(self, log: CommitLog, timestamp_ns: int | None) -> Positions:
        """Append the records as `CommitLog.append_many` does; return their positions."""
        if any(self.seals):
            return parts_of(log).engine.append_records(self._placed(log, timestamp_ns), self.sync)
        return log.append_many(self.values, timestamp_ns=timestamp_ns, **self._options())

    async def append_async(self, log: CommitLog, timestamp_ns: int | None) -> Positions:
        """Append the records as `CommitLog.append_many_async` does; return their positions."""
        if any(self.seals):
            return await append_list_async(log, self._placed(log, timestamp_ns), self.sync)
        return await log.append_many_async(
            self.values, timestamp_ns=timestamp_ns, **self._options()
        )

    def _options(self) -> dict[str, Any]:
        return {"keys": self.keys, "types": self.types, "sync": self.sync, "expect": self.expect}

    def _placed(self, log: CommitLog, timestamp_ns: int | None) -> RecordList:
        return RecordList(
            parts_of(log).engine,
            self.values,
            self.keys,
            self.types,
            timestamp_ns,
            self.expect,
            self._placing,
        )

    def _placing(self, first: int, end: int) -> Callable[[list[int]], list[bytes]]:
        """Return what seals some records for their positions.

        The nonces are drawn before the end of the log is looked at, because other threads run
        meanwhile, and anew for each attempt, because one that is rolled back leaves its bytes in
        the file.
        """
        values, seals, keys = self.values, self.seals, self.keys
        drawn = os.urandom(NONCE_BYTES * (end - first))

        def sealed(positions: list[int]) -> list[bytes]:
            found = []
            at = 0
            for index, position in enumerate(positions, first):
                value, seal = values[index], seals[index]
                if seal is not None:
                    value = seal.sealed(value, keys[index], position, drawn[at : at + NONCE_BYTES])
                found.append(value)
                at += NONCE_BYTES
            return found

        return sealed

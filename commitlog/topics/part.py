"""Part: records to append at once, of which some are sealed for their positions."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from commitlog import CommitLog
from commitlog.extension import LogView, view_of
from commitlog.topics.cipher import NONCE_BYTES
from commitlog.topics.data_key import PlaceSeal
from commitlog.topics.draft import Headers
from commitlog.topics.schema import SCHEMA_TYPE

Positions: TypeAlias = npt.NDArray[np.int64]


@dataclass
class Part:
    """Records to append at once.

    Attributes
    ----------
    values, keys, types : list
        Of the records. A message that is to be sealed has `ROOM` behind it.
    seals : list of PlaceSeal or None
        What seals each value for its position; None for one that stays as it is.
    sync, expect, headers
        As for `CommitLog.append_many`.
    """

    values: list[bytes]
    keys: list[Any]
    types: list[int]
    seals: list[PlaceSeal | None]
    sync: bool | None
    expect: int | None = None
    headers: list[Headers | None] | None = None

    def put_behind(self, heads: list[tuple[bytes, bytes]]) -> Self:
        """Put schema records, of key and value, before the others; return this."""
        self.keys[:0], self.values[:0] = zip(*heads, strict=True)
        self.types[:0] = [SCHEMA_TYPE] * len(heads)
        self.seals[:0] = [None] * len(heads)
        if self.headers is not None:
            self.headers[:0] = [None] * len(heads)
        return self

    def append(self, log: CommitLog, timestamp_ns: int | None) -> Positions:
        """Append the records as `CommitLog.append_many` does; return their positions."""
        if any(self.seals):
            view = view_of(log)
            return view.append_records(self._placed(view, timestamp_ns), self.sync)
        return log.append_many(self.values, timestamp_ns=timestamp_ns, **self._options())

    async def append_async(self, log: CommitLog, timestamp_ns: int | None) -> Positions:
        """Append the records as `CommitLog.append_many_async` does; return their positions."""
        if any(self.seals):
            view = view_of(log)
            return await view.append_records_async(self._placed(view, timestamp_ns), self.sync)
        return await log.append_many_async(
            self.values, timestamp_ns=timestamp_ns, **self._options()
        )

    def _options(self) -> dict[str, Any]:
        return {
            "keys": self.keys,
            "types": self.types,
            "sync": self.sync,
            "expect": self.expect,
            "headers": self.headers,
        }

    def _placed(self, view: LogView, timestamp_ns: int | None) -> Any:
        return view.record_list(
            self.values,
            self.keys,
            self.types,
            timestamp_ns,
            self.expect,
            self._placing,
            self.headers,
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
                    value = seal.seal(value, keys[index], position, drawn[at : at + NONCE_BYTES])
                found.append(value)
                at += NONCE_BYTES
            return found

        return sealed

"""StoreOptions: where a log is stored, and how often."""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import dataclass
from typing import Any

from commitlog.base.option import Option, lasting, optional
from commitlog.base.units import Age, Duration, Size, parse_age, parse_size
from commitlog.errors import InvalidOptionError
from commitlog.stores.archived import zstandard
from commitlog.stores.target import LocalTarget, is_address, target_of

LEVEL_LEAST, LEVEL_MOST, LEVEL_DEFAULT = 1, 22, 3
EVERY_LEAST_S = 0.01
_size_or_none = optional(parse_size)


@dataclass(frozen=True)
class StoreOptions:
    """What a `Store` says: see there."""

    target: str | os.PathLike[str]
    level: int = LEVEL_DEFAULT
    filesystem: Any = None
    every: Option[float, Duration] = Option(1.0, lasting(EVERY_LEAST_S))
    max_age: Option[dt.timedelta | None, Age | None] = Option(None, optional(parse_age))
    max_bytes: Option[int | None, Size | None] = Option(None, _size_or_none)
    single_writer: bool = False

    def __post_init__(self) -> None:
        if type(self.level) is not int or not LEVEL_LEAST <= self.level <= LEVEL_MOST:
            raise InvalidOptionError(
                f"level must be a whole number from {LEVEL_LEAST} to {LEVEL_MOST}, not "
                f"{self.level!r}"
            )
        if type(self.single_writer) is not bool:
            raise InvalidOptionError(
                f"single_writer must be True or False, not {self.single_writer!r}"
            )
        zstandard()
        if isinstance(target_of(self.target, self.filesystem), LocalTarget):
            text = os.fsdecode(self.target)
            if not is_address(text):  # the process may change its directory before it stores
                object.__setattr__(self, "target", os.path.abspath(text))


def refuse_unsafe(store: StoreOptions) -> None:
    """Refuse a target without a conditional put, in which two writers would mix records."""
    target = target_of(store.target, store.filesystem)
    if not target.conditional and not store.single_writer:
        raise InvalidOptionError(
            f"{target.name}: pyarrow and fsspec have no conditional put, so two machines could "
            "mix their records there. Use an address that obstore opens, such as s3://, or "
            "Store(..., single_writer=True) if only one machine ever stores this log"
        )

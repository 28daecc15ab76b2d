"""Store: keep a log's segments, and every second its end, in a bucket or a directory."""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import dataclass
from typing import Any

from commitlog.base.keywords import refuses_unknown
from commitlog.base.option import Option, lasting, optional
from commitlog.base.units import Age, Duration, Size, parse_age, parse_size
from commitlog.errors import InvalidOptionError
from commitlog.options import StoreRule
from commitlog.stores.archived import zstandard
from commitlog.stores.target import LocalTarget, is_address, target_of

LEVEL_LEAST, LEVEL_MOST, LEVEL_DEFAULT = 1, 22, 3
EVERY_LEAST_S = 0.01
_size_or_none = optional(parse_size)


@refuses_unknown()
@dataclass(frozen=True)
class Store(StoreRule):
    """Set where a log is stored, and how often while it is open. See docs/stores.md.

    Each sealed segment is stored whole, compressed by zstd. The durable end of an open log is
    stored in small objects, which are deleted once a larger one covers them; their objects are
    never rewritten.

    Parameters
    ----------
    target : str or path
        An address such as ``"s3://bucket/orders"``, or a directory of another machine or disk,
        which becomes an absolute path. It holds one log's records and nothing else.
    level : int
        The zstd level, 1 to 22. Higher: smaller objects, and more processor time.
    filesystem : store of obstore, pyarrow.fs.FileSystem or fsspec file system, optional
        The store or file system in which `target` is a path.
    every : float or str
        How many seconds, at least 0.01, the end of the log waits to be stored; 1 MiB is stored at
        once. If the machine is lost, the records of this time and of a running upload are lost. A
        longer time means fewer requests and a larger loss.
    max_age : str or datetime.timedelta, optional
        Delete a segment from the store when the log rolled past it so long ago, such as ``"90d"``.
    max_bytes : int or str, optional
        Delete the oldest segments while the store takes more bytes than that. Neither limit deletes
        the last whole segment. Records that are deleted from both store and log are lost.
    single_writer : bool
        Store a log although the target has no conditional put, as those of pyarrow and fsspec. You
        see to it that one machine at a time stores the log. If two do, their records are mixed, and
        what is restored never existed.

    Raises
    ------
    InvalidOptionError
        A value is out of range.
    MissingExtraError
        zstandard, obstore or pyarrow is not installed: ``pip install 'commitlog-engine[archive]'``.
    """

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


def refuse_unsafe(store: Store) -> None:
    """Refuse a target without a conditional put, in which two writers would mix records."""
    target = target_of(store.target, store.filesystem)
    if not target.conditional and not store.single_writer:
        raise InvalidOptionError(
            f"{target.name}: pyarrow and fsspec have no conditional put, so two machines could "
            "mix their records there. Use an address that obstore opens, such as s3://, or "
            "Store(..., single_writer=True) if only one machine ever stores this log"
        )

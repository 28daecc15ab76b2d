"""`CommitLog.backup`, and what it returns."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, cast

from commitlog.base.progress import Progress
from commitlog.options import StoreRule

BackupContent = Literal["tailers", "producers", "queues", "schemas"]


@dataclass(frozen=True)
class BackedUp:
    """Describe a backup of a log.

    Attributes
    ----------
    path : str
        Where it is: a directory, a file or an address.
    first_position, end_position : int
        Where its records begin, and the position behind the last one.
    segments : int
        The number of its segments.
    written_segments, written_bytes : int
        How many of them this backup wrote, and how many bytes of segments: without what an earlier
        backup had.
    tailers, queues : tuple of str
        The named tailers and queues that it has.
    producers, schemas : bool
        Whether it has the marks of producers of deleted segments, and the files of schemas.
    incremental : bool
        It continued an earlier backup.
    verified : bool
        Every frame that was written was read again and checked.
    """

    path: str
    first_position: int
    end_position: int
    segments: int
    written_segments: int
    written_bytes: int
    tailers: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    producers: bool = False
    schemas: bool = False
    incremental: bool = False
    verified: bool = False


class BackupMethods:
    """The backup of a `CommitLog`."""

    def backup(
        self,
        to: str | os.PathLike[str] | StoreRule,
        *,
        incremental: bool = False,
        without: BackupContent | Collection[BackupContent] = (),
        verify: bool = True,
        progress: Progress | None = None,
    ) -> BackedUp:
        """Write a complete, consistent copy of the log, while it is written.

        See `commitlog.keep.backup`, of which this is the method. A handle that writes commits and
        flushes what was appended before the call; the backup has all of it.
        """
        # The core imports no wing: the wing is loaded when a program makes a backup.
        call = import_module("commitlog.backup.backing_up").backup
        found = call(
            self, to, incremental=incremental, without=without, verify=verify, progress=progress
        )
        return cast(BackedUp, found)

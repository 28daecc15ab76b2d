"""Opened: the result of finding, locking and recovering a log; the checks of every open."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from commitlog._kernel.memory import Cursors
from commitlog.errors import InvalidOptionError, NotALogError
from commitlog.options import Options
from commitlog.segment import identity as identities
from commitlog.segment.directory import STAGED, LogDirectory, names_in
from commitlog.segment.identity import Identity
from commitlog.segment.lock_file import NAME as LOCK_NAME
from commitlog.segment.lock_file import Holder, LockFile
from commitlog.source.place_keeper import PlaceKeeper

_logger = logging.getLogger("commitlog")
NEVER_UNCERTAIN = 2**64 - 1
_NOBODY = Holder()


@dataclass(frozen=True)
class Opened:
    """A log that is locked and recovered, or a source that can be read.

    `places` keeps its named tailers; None: files in its directory. If it `has_writers`, writers
    open it in this directory, and their cursors are there. If it `asks`, a reader at the end has
    the source checked.
    """

    directory: LogDirectory
    cursors: Cursors
    pooled: bool = False
    exclusive: bool = False
    lock_file: LockFile | None = None
    holder: Holder = _NOBODY
    tail: tuple[int, int] = (0, 0)
    end: int = 0
    checkpoint_count: int = 0
    uncertain_from: int = NEVER_UNCERTAIN
    places: PlaceKeeper | None = None
    has_writers: bool = True
    asks: bool = False

    def close(self) -> None:
        if self.lock_file is not None:
            self.lock_file.close()
        self.directory.close()


def check_mode(mode: str) -> None:
    if mode not in ("a", "x", "r"):
        raise InvalidOptionError(
            f"mode must be 'a' (append), 'x' (create) or 'r' (read), not {mode!r}"
        )


def check_options(identity: Identity, options: Options, path: str) -> None:
    """Refuse options that contradict what creation fixed in `log.json`."""
    wanted = (
        options.segment_size
        if options.segment_size is not None
        else (options.pool.buffer_size if options.pool is not None else None)
    )
    if wanted is not None and wanted != identity.segment_size:
        name = "segment_size" if options.segment_size is not None else "pool.buffer_size"
        raise InvalidOptionError(
            f"{name} is {wanted}, but the log was created with segments of "
            f"{identity.segment_size} bytes",
            path=path,
        )
    if options.timestamps not in (None, identity.timestamps):
        raise InvalidOptionError(
            f"timestamps is {options.timestamps!r}, but the log was created with "
            f"{identity.timestamps!r}",
            path=path,
        )
    if options.roll_cycle not in (None, identity.roll_cycle):
        _logger.warning(
            "%s: roll_cycle=%s is ignored: the log was created with %s",
            path,
            options.roll_cycle,
            identity.roll_cycle or "none",
        )


def refuse_foreign(fd: int, path: str) -> None:
    """Refuse a directory that has no `log.json` and holds files of something else."""
    names = set(names_in(fd))
    if identities.NAME in names:
        return
    other = foreign_name(names)
    if other is not None:
        raise NotALogError(
            f"this directory has no {identities.NAME} and holds something else ({other}): choose "
            "an empty or a new one; if it was a log, run `commitlog repair`",
            path=path,
        )


def foreign_name(names: Iterable[str]) -> str | None:
    """Return the first name that creating a log does not leave in a directory, or None."""
    known = (LOCK_NAME, STAGED)
    return min(
        (
            name
            for name in names
            if name not in known and not name.startswith(f".{identities.NAME}.")
        ),
        default=None,
    )

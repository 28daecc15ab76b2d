"""The shared-memory buffers that dead pools have left, for recovery and for the next pool."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import stat
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from commitlog._kernel.memory import Memory
from commitlog._kernel.segments import UUID_SIZE
from commitlog.base.later_log import LaterLog
from commitlog.base.life_lock import is_held
from commitlog.errors import PoolBufferError
from commitlog.pool.shm import HEADER_SIZE, ShmHeader, open_object, unlink_object

_NAME = re.compile(r"/commitlog-[0-9a-f]{32}")
SHM_FOLDER = "/dev/shm"
# A new buffer has no life lock yet, so a sweep keeps younger ones.
_GRACE_S = 60.0
_NO_LOG = bytes(UUID_SIZE)
_IRREGULAR = "it is not a regular file"


@dataclass(frozen=True, slots=True)
class RecoverableBuffer:
    """A dead pool's buffer with records of the segment at `base`, as the dead process left them.
    Recovery discards it once all records are in the segment and flushed.
    """

    name: str
    base: int
    segment_id: int
    size: int
    memory: Memory = field(repr=False)


@dataclass(frozen=True, slots=True)
class ShmSurvey:
    """The state of the buffers whose names a log had recorded; each is in one of the tuples.

    `recoverable` are those of a dead pool with records of this log, by ascending base. `missing`
    ones were removed, or were on another machine. `live_in_use` are those of a live pool with
    records of this log, and `live` the others of live pools. `free` ones are of a dead pool and
    have no records. `foreign` ones have records of another log, which recovers them. `unusable` are
    the name and the fault of objects that are no buffers of this boot.
    """

    recoverable: tuple[RecoverableBuffer, ...] = ()
    missing: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    live_in_use: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    unusable: tuple[tuple[str, str], ...] = ()


def find_buffers(names: Iterable[str], log_uuid: bytes) -> ShmSurvey:
    """Check each recorded buffer, and change nothing. If this user may not open one, raise
    `PoolBufferError`: an open without it would lose its records.
    """
    found: dict[str, list[Any]] = defaultdict(list)
    for name in dict.fromkeys(names):
        kind, entry = _survey(name, log_uuid)
        found[kind].append(entry)
    found["recoverable"].sort(key=lambda buffer: buffer.base)
    return ShmSurvey(**{kind: tuple(entries) for kind, entries in found.items()})


def discard(name: str) -> None:
    """Clear a dead pool's buffer and remove its name; do nothing if it is gone. Refuse other names,
    and a buffer whose pool lives.
    """
    if not _NAME.fullmatch(name):
        raise PoolBufferError(
            f"{name!r} is not the name of a shared-memory buffer: use one that find_buffers listed"
        )
    descriptor = _open_existing(name)
    if descriptor is None:
        return
    try:
        if is_held(descriptor):
            raise PoolBufferError(
                f"shared-memory buffer {name} belongs to a live pool: close that pool instead"
            )
        if os.fstat(descriptor).st_size >= HEADER_SIZE:
            header = ShmHeader(Memory(HEADER_SIZE, descriptor))
            header.unbind()
            header.close()
        unlink_object(name)
    finally:
        os.close(descriptor)


def sweep_orphans(log: LaterLog) -> None:
    """Remove the free buffers of pools that were killed before a log recorded their names. Buffers
    with records stay. If the folder cannot be listed, nothing is removed.
    """
    removed = 0
    for name in _candidates():
        # Another process may remove or take it meanwhile.
        with contextlib.suppress(PoolBufferError, OSError):
            if find_buffers([name], _NO_LOG).free:
                discard(name)
                removed += 1
    if removed:
        log.note(logging.INFO, "removed %d shared-memory buffers of dead pools", removed)


def _candidates() -> list[str]:
    """List this user's buffers that are older than the grace period."""
    names = []
    with contextlib.suppress(OSError), os.scandir(SHM_FOLDER) as entries:
        for entry in entries:
            if not entry.name.startswith("commitlog-"):
                continue
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == os.geteuid() and time.time() - status.st_mtime > _GRACE_S:
                    names.append(f"/{entry.name}")
    return names


def _survey(name: str, log_uuid: bytes) -> tuple[str, Any]:
    """Return the field of `ShmSurvey` that a buffer belongs to, and its entry there."""
    if not _NAME.fullmatch(name):
        return "unusable", (name, "it is not a buffer's name")
    try:
        descriptor = _open_existing(name)
    except PoolBufferError:
        raise
    except (OSError, ValueError) as error:
        # A link or a socket; or a directory, for which shm_open raises EINVAL.
        if isinstance(error, OSError) and error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        return "unusable", (name, _IRREGULAR)
    if descriptor is None:
        return "missing", name
    try:
        return _examine(name, descriptor, log_uuid)
    finally:
        os.close(descriptor)


def _examine(name: str, descriptor: int, log_uuid: bytes) -> tuple[str, Any]:
    status = os.fstat(descriptor)
    size = status.st_size - HEADER_SIZE
    if not stat.S_ISREG(status.st_mode) or size < 1:
        too_small = "it is too small for a header and data"
        return "unusable", (name, too_small if stat.S_ISREG(status.st_mode) else _IRREGULAR)
    live = is_held(descriptor)
    header = ShmHeader(Memory(HEADER_SIZE, descriptor))
    fault = header.identity_fault(size)
    binding = header.binding() if fault is None and header.in_use else None
    header.close()
    if fault is not None:
        return "unusable", (name, fault)
    if binding is None:
        return ("live" if live else "free"), name
    if binding.log_uuid != log_uuid:
        return ("live" if live else "foreign"), name
    if live:
        return "live_in_use", name
    memory = Memory(size, descriptor, HEADER_SIZE)
    return "recoverable", RecoverableBuffer(name, *binding[1:], size, memory)


def _open_existing(name: str) -> int | None:
    try:
        return open_object(name)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise PoolBufferError(
            f"shared-memory buffer {name} may hold records that are not in the log yet, but this "
            "user may not open it: open the log as the user who wrote it"
        ) from error

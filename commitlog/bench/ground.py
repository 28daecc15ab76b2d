"""The ground that a run stands on: its temporary directory, its pools, and the logs that it opens
there.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

import commitlog
from commitlog.base.units import GIB, MIB
from commitlog.bench.case import SETUPS, Case
from commitlog.bench.settings import Settings
from commitlog.options import OptionOverrides

HEADER = 4096
FRAME_HEADER = 16
# Reading 1 GiB back for its hash takes seconds; what stands behind it in the same log came from the
# same loop.
HASHED_MOST = GIB
_ROOM_KEPT = 64 * MIB


class SkippedError(Exception):
    """A case cannot be measured here, and says why; the run goes on without it."""


class NoRoomError(SkippedError):
    """The disk has too little room."""


def value_of(size: int) -> bytes:
    """The value that all records of this size have: always the same, and not compressible."""
    return hashlib.shake_128(b"commitlog bench").digest(size)


def frame_size(value_size: int) -> int:
    """Bytes that a record without key and type takes in the log."""
    return (FRAME_HEADER + value_size + 7) & ~7


class Ground:
    """Makes a directory of its own under the user's, and removes it at the end, however that
    comes.
    """

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        options: OptionOverrides | None = None,
        pool_options: dict[str, Any] | None = None,
    ) -> None:
        self.directory = directory
        self.settings = settings
        # What all logs and pools get, whatever their case says.
        self._options = options or {}
        self._pool_options = pool_options or {}
        self._pools: dict[tuple[str, int], commitlog.TransientStorePool] = {}
        self._made = 0
        # What the disk can take, once somebody has asked it: bytes a second.
        self.disk_rate: float | None = None

    def __enter__(self) -> Self:
        self.root = Path(tempfile.mkdtemp(prefix="commitlog-bench-", dir=self.directory))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.drop_pools()
        finally:
            shutil.rmtree(self.root, ignore_errors=True)

    def drop_pools(self) -> None:
        """Give the pools' memory back, which otherwise the next workload would have less of."""
        for pool in self._pools.values():
            pool.close(force=True)
        self._pools.clear()

    @contextlib.contextmanager
    def place(self, needed_bytes: int) -> Iterator[Path]:
        """A path where nothing is, for one turn of one case.

        Raises
        ------
        NoRoomError
            The file system has less than `needed_bytes` free.
        """
        needed = needed_bytes + 3 * self.settings.segment_size + _ROOM_KEPT
        free = shutil.disk_usage(self.root).free
        if free < needed:
            raise NoRoomError(
                f"needs {needed / MIB:,.0f} MiB of room, and {self.directory} has "
                f"{free / MIB:,.0f} MiB"
            )
        self._made += 1
        path = self.root / str(self._made)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)

    def options(self, case: Case, segment_size: int | None = None) -> OptionOverrides:
        """What a log of this case is opened with."""
        setup = SETUPS[case.setup]
        size = segment_size or self.settings.segment_size
        options: OptionOverrides = {"flush": case.flush or "async", "prefault": setup.prefault}
        if setup.backing is None:
            return {**options, "segment_size": size, **self._options}
        return {**options, "pool": self.pool(setup.backing, size), **self._options}

    def open(self, path: Path, case: Case, segment_size: int | None = None) -> commitlog.CommitLog:
        """Open a log as the case says."""
        return commitlog.open(path, **self.options(case, segment_size))

    @contextlib.contextmanager
    def log(self, case: Case, needed_bytes: int) -> Iterator[commitlog.CommitLog]:
        """A new log, which is gone after the turn."""
        with self.place(needed_bytes) as path, self.open(path, case) as log:
            yield log

    def pool(self, backing: str, buffer_size: int) -> commitlog.TransientStorePool:
        """The pool of this kind, made when it is first asked for."""
        key = (backing, buffer_size)
        if key not in self._pools:
            options: dict[str, Any] = {
                "buffers": self.settings.buffers,
                "buffer_size": buffer_size,
                "backing": backing,
                "low_water": 0,
            }
            self._pools[key] = commitlog.TransientStorePool(**(options | self._pool_options))
        return self._pools[key]


def fill(log: commitlog.CommitLog, value_size: int, total_bytes: int) -> int:
    """Append records until they take so many bytes of the log; how many they are. Flushed at the
    end.
    """
    rows = np.frombuffer(value_of(value_size) * 1024, np.uint8).reshape(1024, value_size)
    records = 0
    while records * frame_size(value_size) < total_bytes:
        log.append_array(rows)
        records += len(rows)
    log.flush(timeout=60)
    return records


def what_is_written(log: commitlog.CommitLog, value_size: int) -> dict[str, object]:
    """Read the log back: how much there is, and the hash of its values, which must all be the one
    that was appended.

    Raises
    ------
    RuntimeError
        The log holds something else: figures of such a run mean nothing.
    """
    digest, records, hashed = hashlib.sha256(), 0, 0
    with log.tailer(visibility="appended") as tailer:
        while hashed < HASHED_MOST and len(batch := tailer.read_batch(1 << 16)):
            digest.update(batch.data.data)
            records += len(batch)
            hashed += batch.data.nbytes
    expected = hashlib.sha256()
    block = value_of(value_size) * 1024
    for _ in range(records // 1024):
        expected.update(block)
    expected.update(value_of(value_size) * (records % 1024))
    if digest.digest() != expected.digest():
        raise RuntimeError(
            f"{log.path} does not hold what was appended: run `commitlog verify` on a log of "
            "yours, and report this"
        )
    return {
        "sha256": digest.hexdigest(),
        "records": records,
        "value_bytes": hashed,
        "whole": hashed < HASHED_MOST,
    }

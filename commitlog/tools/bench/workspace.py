"""The temporary directory of a run, its pools, and the logs that it opens."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import commitlog
from commitlog.base.units import MIB
from commitlog.options import OptionOverrides
from commitlog.tools.bench.case import SETUPS, Case, Settings

_SPARE = 64 * MIB


class SkippedError(Exception):
    """A case cannot be measured here; the run continues without it."""


def value_of(size: int) -> bytes:
    """Return the one value of this size that every record has; it does not compress."""
    return hashlib.shake_128(b"commitlog bench").digest(size)


class Workspace:
    """Make a directory under the user's, and remove it at the end.

    `options` and `pool_options` are for every log and every pool, over what the case says.
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
        self.disk_rate: float | None = None  # bytes a second, once measured
        self._options = options or {}
        self._pool_options = pool_options or {}
        self._pools: dict[tuple[str, int], commitlog.TransientStorePool] = {}
        self._paths = 0

    def __enter__(self) -> Self:
        self.root = Path(tempfile.mkdtemp(prefix="commitlog-bench-", dir=self.directory))
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            self.drop_pools()
        finally:
            shutil.rmtree(self.root, ignore_errors=True)

    def drop_pools(self) -> None:
        for pool in self._pools.values():
            pool.close(force=True)
        self._pools.clear()

    @contextlib.contextmanager
    def path(self, needed_bytes: int) -> Iterator[Path]:
        """Provide a free path for one turn; what is there afterwards is removed."""
        needed = needed_bytes + 3 * self.settings.segment_size + _SPARE
        free = shutil.disk_usage(self.root).free
        if free < needed:
            has = f"{self.directory} has {free / MIB:,.0f} MiB"
            raise SkippedError(f"needs {needed / MIB:,.0f} MiB of room, and {has}")
        self._paths += 1
        path = self.root / str(self._paths)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)

    def options(self, case: Case, segment_size: int | None = None) -> OptionOverrides:
        setup = SETUPS[case.setup]
        size = segment_size or self.settings.segment_size
        options: OptionOverrides = {"flush": case.flush or "async", "prefault": setup.prefault}
        if setup.backing is None:
            return {**options, "segment_size": size, **self._options}
        return {**options, "pool": self._pool(setup.backing, size), **self._options}

    def open(self, path: Path, case: Case, segment_size: int | None = None) -> commitlog.CommitLog:
        return commitlog.open(path, **self.options(case, segment_size))

    @contextlib.contextmanager
    def log(self, case: Case, needed_bytes: int) -> Iterator[commitlog.CommitLog]:
        """Provide a new log for one turn; remove it afterwards."""
        with self.path(needed_bytes) as path, self.open(path, case) as log:
            yield log

    def _pool(self, backing: str, buffer_size: int) -> commitlog.TransientStorePool:
        key = (backing, buffer_size)
        if key not in self._pools:
            options: dict[str, Any] = {"buffers": self.settings.buffers, "low_water": 0}
            options |= {"buffer_size": buffer_size, "backing": backing, **self._pool_options}
            self._pools[key] = commitlog.TransientStorePool(**options)
        return self._pools[key]

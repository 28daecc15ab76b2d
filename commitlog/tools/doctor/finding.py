"""What a check works in, its temporary directory, and what it returns, its finding."""

from __future__ import annotations

import enum
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Workspace:
    """The directory to examine, and a temporary folder in it for the files of the checks."""

    directory: Path
    folder: Path

    @classmethod
    @contextmanager
    def within(cls, directory: Path) -> Iterator[Self]:
        """Create the folder, and remove it when the context ends."""
        folder = Path(tempfile.mkdtemp(prefix=".commitlog-doctor-", dir=directory))
        try:
            yield cls(directory, folder)
        finally:
            try:
                shutil.rmtree(folder)
            except KeyboardInterrupt:
                shutil.rmtree(folder, ignore_errors=True)
                raise

    @contextmanager
    def file(self, name: str, size: int = 0) -> Iterator[int]:
        """Provide a file of this size, with its blocks, open for reading and writing; remove it
        afterwards.
        """
        path = self.folder / name
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if size:
                os.pwrite(fd, bytes(size), 0)  # not by fallocate, which a check of its own tests
            yield fd
        finally:
            os.close(fd)
            path.unlink()


class Verdict(enum.Enum):
    """Rate a result. What is `FAILED` is needed by every log."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, with figures, and what to do; `advice` is empty if that is nothing."""

    verdict: Verdict
    found: str
    advice: str = ""


def ok(found: str) -> Finding:
    return Finding(Verdict.OK, found)


def warning(found: str, advice: str) -> Finding:
    """Return a fault that makes a log slower or less safe."""
    return Finding(Verdict.WARNING, found, advice)


def failed(found: str, advice: str) -> Finding:
    """Return a fault that no log can work with."""
    return Finding(Verdict.FAILED, found, advice)

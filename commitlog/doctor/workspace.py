"""The temporary directory of the checks."""

from __future__ import annotations

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

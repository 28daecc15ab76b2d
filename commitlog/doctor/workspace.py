"""The temporary directory of the checks."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

PREFIX = ".commitlog-doctor-"


class Workspace:
    """Create a temporary directory, and remove it when the context ends.

    Parameters
    ----------
    directory : Path
        The directory to examine.

    Raises
    ------
    OSError
        It cannot be created there.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=directory))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            shutil.rmtree(self.folder)
        except KeyboardInterrupt:
            shutil.rmtree(self.folder, ignore_errors=True)
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

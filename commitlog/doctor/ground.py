"""Ground: the directory in the examined one in which the checks make their files, and which is gone afterwards."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from commitlog._kernel.memory import Cells

PREFIX = ".commitlog-doctor-"


class Ground:
    """A context manager that leaves the examined directory as it was found.

    Parameters
    ----------
    directory : Path
        The directory to examine.

    Raises
    ------
    OSError
        Nothing can be made in it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=directory))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            shutil.rmtree(self.place)
        except KeyboardInterrupt:
            shutil.rmtree(self.place, ignore_errors=True)
            raise

    @contextmanager
    def file(self, name: str, size: int = 0) -> Iterator[int]:
        """A file of that size, with its blocks, open for reading and writing; removed afterwards."""
        path = self.place / name
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if size:
                os.pwrite(fd, bytes(size), 0)  # not by fallocate, which has a check of its own
            yield fd
        finally:
            os.close(fd)
            path.unlink()

    @contextmanager
    def cells(self, name: str, count: int) -> Iterator[Cells]:
        """As many cells in a file, mapped and shared. `remapped` maps the same ones once more."""
        with self.file(name, count * 8) as fd, mapped_cells(fd, count) as cells:
            yield cells

    @contextmanager
    def remapped(self, name: str, count: int) -> Iterator[Cells]:
        """The cells of a file that is there, opened and mapped anew: for a child, to which nothing of the parent's mapping is left."""
        fd = os.open(self.place / name, os.O_RDWR | os.O_CLOEXEC)
        try:
            with mapped_cells(fd, count) as cells:
                yield cells
        finally:
            os.close(fd)


@contextmanager
def mapped_cells(fd: int, count: int) -> Iterator[Cells]:
    """Cells over a shared mapping of a file."""
    with mmap.mmap(fd, count * 8, mmap.MAP_SHARED) as mapping:
        cells = Cells(mapping)
        try:
            yield cells
        finally:
            cells.release()

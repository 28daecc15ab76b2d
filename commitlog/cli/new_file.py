"""New file: written under a temporary name, and renamed when it is complete."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from types import TracebackType
from typing import IO, Self

import click


class NewFile:
    """Provide a temporary file for a `with` block, and rename it at the end of the block. If the
    block raises, remove it.

    Parameters
    ----------
    path : str
        The name of the complete file.
    overwrite : bool
        Whether to replace an existing file.

    Raises
    ------
    click.UsageError
        There is a file and `overwrite` is False, or the path is not a regular file.
    """

    def __init__(self, path: str, *, overwrite: bool) -> None:
        self._path = path
        self._overwrite = overwrite
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise click.UsageError(
                    f"{path} is not a regular file: choose another name, or leave out -o to "
                    "write to standard output"
                )
            if not overwrite:
                raise self._exists()

    def _exists(self) -> click.UsageError:
        return click.UsageError(f"{self._path} exists: choose another name, or add --overwrite")

    def __enter__(self) -> Self:
        folder, name = os.path.split(self._path)
        descriptor, self._temporary = tempfile.mkstemp(
            prefix=f".{name[:200]}.", suffix=".part", dir=folder or "."
        )
        # mkstemp gives only the owner access; a new file has the rights that umask leaves.
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(descriptor, 0o666 & ~mask)
        self.file: IO[bytes] = os.fdopen(descriptor, "wb")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.file.flush()
                os.fsync(self.file.fileno())
                self._rename()
        finally:
            with contextlib.suppress(OSError):  # the block's own error is raised instead
                self.file.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)

    def _rename(self) -> None:
        if not self._overwrite:
            try:
                os.link(self._temporary, self._path)
            except FileExistsError:
                raise self._exists() from None  # created since the constructor
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                    raise
            else:
                return
        os.replace(self._temporary, self._path)

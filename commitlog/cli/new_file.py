"""A file that is there whole or not at all."""

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
    """Is written under a temporary name beside its own, and gets that when the block has ended
    well; otherwise it is removed.

    Parameters
    ----------
    path : str
        Its name.
    overwrite : bool
        Whether it may take the place of a file that is there.

    Raises
    ------
    click.UsageError
        There is one that it may not, or something that is no file.
    """

    def __init__(self, path: str, *, overwrite: bool) -> None:
        self._path = path
        self._overwrite = overwrite
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise click.UsageError(
                    f"{path} is no file: name one, or leave -o out to write to standard output"
                )
            if not overwrite:
                raise self._refusal()

    def _refusal(self) -> click.UsageError:
        return click.UsageError(
            f"{self._path} is there already: name another file, or say --overwrite"
        )

    def __enter__(self) -> Self:
        folder, name = os.path.split(self._path)
        descriptor, self._temporary = tempfile.mkstemp(
            prefix=f".{name[:200]}.", suffix=".part", dir=folder or "."
        )
        # As any new file: mkstemp keeps others out.
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
                self._put_in_place()
        finally:
            with contextlib.suppress(
                OSError
            ):  # what could not be written was said by the error that is on its way
                self.file.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)

    def _put_in_place(self) -> None:
        if not self._overwrite:
            try:
                os.link(self._temporary, self._path)
            except FileExistsError:
                raise self._refusal() from None  # made meanwhile
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                    raise
            else:
                return
        os.replace(self._temporary, self._path)

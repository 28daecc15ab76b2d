"""New file: written under a temporary name, and renamed when it is complete."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import IO

import click


@contextlib.contextmanager
def new_file(path: str, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """Provide a temporary file for a `with` block, and rename it to `path` at the end of the block.
    If the block raises, remove it.

    Raises
    ------
    click.UsageError
        There is a file and `overwrite` is False, or the path is not a regular file.
    """
    exists = click.UsageError(f"{path} exists: choose another name, or add --overwrite")
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise click.UsageError(
                f"{path} is not a regular file: choose another name, or leave out -o to write to "
                "standard output"
            )
        if not overwrite:
            raise exists
    folder, name = os.path.split(path)
    descriptor, temporary = tempfile.mkstemp(
        prefix=f".{name[:200]}.", suffix=".part", dir=folder or "."
    )
    try:
        # mkstemp gives only the owner access; a new file has the rights that umask leaves.
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(descriptor, 0o666 & ~mask)
        file = os.fdopen(descriptor, "wb")
        try:
            yield file
            file.flush()
            os.fsync(descriptor)
        finally:
            with contextlib.suppress(OSError):  # the block's own error is raised instead
                file.close()
        if overwrite or not _linked(temporary, path, exists):
            os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _linked(temporary: str, path: str, exists: click.UsageError) -> bool:
    """Give the file its name, unless another has it since; False if it cannot have two names."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise exists from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        return False
    return True

"""New file: written under a temporary name, and renamed when it is complete."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import IO

import click

from commitlog.base.temporary_file import temporary_file


@contextlib.contextmanager
def new_file(path: str, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """Provide a temporary file for a `with` block, and rename it to `path` at the end of the block.
    If the block raises, remove it.
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
    folder_fd = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with temporary_file(folder_fd, name[:200]) as (fd, temporary):
            with open(fd, "wb", closefd=False) as file:
                yield file
            os.fsync(fd)
            try:
                if not overwrite:
                    os.link(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
                    os.unlink(temporary, dir_fd=folder_fd)
                    return
            except FileExistsError:
                raise exists from None
            except OSError as error:  # it cannot have two names
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                    raise
            os.replace(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    finally:
        os.close(folder_fd)

"""Output of the commands that print records: standard output, or a new file."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import stat
import sys
from collections.abc import Iterator
from typing import IO, Any, Self

import click

from commitlog.base.temporary_file import temporary_file
from commitlog.errors import CommitLogError
from commitlog.errors.printable import printable

_BUFFERED = 1 << 16


class Output:
    """Buffer output until 64 KiB are there or `flush` is called.

    A write never ends inside a record, so that two followers can share a terminal.
    """

    def __init__(self) -> None:
        if sys.stdout is None:
            raise click.ClickException("standard output is closed: redirect it to a file or a pipe")
        self._stream = sys.stdout.buffer
        self._waiting = bytearray()
        self._hung_up = select.poll()
        self._hung_up.register(self._stream.fileno(), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if isinstance(error, CommitLogError):
            self.flush()  # print the records before the damage, then the error

    def write(self, piece: bytes) -> None:
        """Print a piece, at the latest with the next `flush`."""
        if len(piece) >= _BUFFERED:
            self.flush()
            self._stream.write(piece)
            return
        self._waiting += piece
        if len(self._waiting) >= _BUFFERED:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._stream.write(self._waiting)
            self._waiting = bytearray()
        self._stream.flush()

    def check_reader(self) -> None:
        """Raise BrokenPipeError if the reader closed the pipe, or the terminal is gone: without
        this, a command that waits for records finds out only with the next one.
        """
        if any(events & (select.POLLERR | select.POLLHUP) for _, events in self._hung_up.poll(0)):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def echo(*lines: str, err: bool = False) -> None:
    """Print lines, each with what is not printable escaped: names and messages come from files and
    peers.
    """
    for line in lines:
        click.echo(printable(line), err=err)


def print_json(content: dict[str, Any]) -> None:
    click.echo(json.dumps(content, indent=2))


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

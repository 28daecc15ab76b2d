"""Standard output of the commands that print records: bytes, written in whole records, with a check
whether the reader is still there.
"""

from __future__ import annotations

import errno
import json
import os
import select
import sys
from typing import Any, Self

import click

from commitlog.errors import CommitLogError

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


def print_json(content: dict[str, Any]) -> None:
    click.echo(json.dumps(content, indent=2))

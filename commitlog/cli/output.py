"""Standard output as the commands that print records use it: bytes, handed on in whole records, and
a look at whether anybody reads.
"""

from __future__ import annotations

import errno
import os
import select
import sys

import click

_ENOUGH = 1 << 16


class Output:
    """Collects what is printed and hands it on when there is enough of it, or when it is told to.

    Records are never cut in two between calls of the system that this class makes, so that two
    followers may share a terminal.
    """

    def __init__(self) -> None:
        if sys.stdout is None:
            raise click.ClickException("standard output is closed: there is nowhere to print to")
        self._stream = sys.stdout.buffer
        self._waiting = bytearray()
        self._hung_up = select.poll()
        self._hung_up.register(self._stream.fileno(), 0)

    def write(self, piece: bytes) -> None:
        """Print a piece, soon."""
        if len(piece) >= _ENOUGH:
            self.flush()
            self._stream.write(piece)
            return
        self._waiting += piece
        if len(self._waiting) >= _ENOUGH:
            self.flush()

    def flush(self) -> None:
        """Hand everything on now."""
        if self._waiting:
            self._stream.write(self._waiting)
            self._waiting = bytearray()
        self._stream.flush()

    def check_reader(self) -> None:
        """Refuse to wait for records on behalf of a reader that is gone; writing would say so only
        with the next one.

        Raises
        ------
        BrokenPipeError
            The other end of the pipe was closed, or the terminal is gone.
        """
        if any(events & (select.POLLERR | select.POLLHUP) for _, events in self._hung_up.poll(0)):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

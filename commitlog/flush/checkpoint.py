"""The `checkpoint` file: how far the log is known durable, and whether it was closed cleanly."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from commitlog._kernel.memory import CHECKPOINT_SIZE, read_checkpoint, write_checkpoint
from commitlog.base.regular_file import open_regular, opened_regular

NAME = "checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """The record in force.

    Attributes
    ----------
    position : int
        Everything below is durable. May lag behind what is; never leads.
    clean : bool
        The last handle closed the log: nothing is in doubt, and `position` is its end.
    count : int
        Of records written so far.
    """

    position: int
    clean: bool
    count: int


def read(dir_fd: int, log_uuid: bytes) -> Checkpoint | None:
    """The checkpoint in force, or None where there is none of this log."""
    with contextlib.suppress(FileNotFoundError), opened_regular(NAME, dir_fd=dir_fd) as fd:
        return read_open(fd, log_uuid)
    return None


def read_open(fd: int, log_uuid: bytes) -> Checkpoint | None:
    """The same of a file that is open: closing a log needs no descriptor more."""
    found = read_checkpoint(os.pread(fd, CHECKPOINT_SIZE, 0), log_uuid)
    return None if found is None else Checkpoint(position=found[0], clean=found[1], count=found[2])


def open_for_writing(dir_fd: int) -> int:
    """A descriptor of the file, created at its full size where there is none."""
    fd = open_regular(NAME, os.O_RDWR | os.O_CREAT, dir_fd=dir_fd)
    try:
        if os.fstat(fd).st_size < CHECKPOINT_SIZE:
            os.posix_fallocate(fd, 0, CHECKPOINT_SIZE)
            os.fsync(fd)
            os.fsync(dir_fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def write(dir_fd: int, log_uuid: bytes, position: int, *, clean: bool) -> None:
    """Write the next turn durably, for a log that is not open and is durable up to `position`."""
    found = read(dir_fd, log_uuid)
    fd = open_for_writing(dir_fd)
    try:
        write_checkpoint(fd, log_uuid, 0 if found is None else found.count, position, clean)
    finally:
        os.close(fd)

"""LogFiles: the files of a log, which processes may have open or not."""

from __future__ import annotations

import contextlib
import os
from contextlib import AbstractContextManager
from typing import Self

from commitlog._kernel.segments import Segment
from commitlog.base.life_lock import LifeLock, open_lock_file
from commitlog.base.path import opened_directory
from commitlog.base.process import describe_process
from commitlog.base.regular_file import read_small_file
from commitlog.errors import CommitLogError
from commitlog.flush import checkpoint as checkpoints
from commitlog.flush.checkpoint import Checkpoint
from commitlog.log.opened import refuse_foreign
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Lineage
from commitlog.repair.verification import opened_log_directory, read_identity
from commitlog.retention import stored_mark
from commitlog.segment import cursors_file, lock_file
from commitlog.segment import identity as identities
from commitlog.segment.cursors_file import Writer
from commitlog.segment.directory import JOIN_NOTE, LogDirectory
from commitlog.segment.identity import Identity
from commitlog.segment.notes import Notes
from commitlog.segment.seal_table import SealTable
from commitlog.stats import StoreStats


class LogFiles:
    """Read the files of a log as they are, open or closed, damaged or not; a context manager.

    Positions are in bytes.

    Parameters
    ----------
    path : str
        The log's directory.
    identity : Identity, optional
        The log, if the caller has it open. By default, it is read from the files.

    Attributes
    ----------
    path : str
        The log's directory.
    directory : LogDirectory
        For the core; it is open until `close`.
    identity : Identity
        From `log.json`, or from the headers of the segments.
    fault : str or None
        What is wrong with `log.json`, if the identity is from the headers.
    notes : Notes
        The small files of extensions in the directory.

    Raises
    ------
    LogNotFoundError, NotALogError
        There is no log at the path.
    """

    def __init__(self, path: str, identity: Identity | None = None) -> None:
        self.path = path
        self.fault: str | None = None
        if identity is None:
            with opened_log_directory(path) as fd:
                identity, self.fault = read_identity(fd, path)
        self.identity = identity
        self.directory = LogDirectory(path, identity)
        self.notes = Notes(self.directory)

    def close(self) -> None:
        self.directory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- whether it is open -----------------------------------------------------------------------

    @property
    def live(self) -> bool:
        """Whether a process has the log open for writing."""
        return cursors_file.is_live(self.directory.fd)

    def live_writers(self) -> list[Writer]:
        """Return the handles that have the log open for writing."""
        return cursors_file.live_writers(self.directory.fd, self.identity) if self.live else []

    def holders(self) -> list[str]:
        """Name the processes that have the log open for writing, as far as the files say."""
        with contextlib.suppress(CommitLogError, OSError):
            names = {describe_process(one.pid, one.pid_namespace) for one in self.live_writers()}
            return sorted(names)
        return []

    def storing_lock(self) -> LifeLock:
        """Return the lock, not taken, of the one handle that stores the log.

        It is a byte of `lock`: a user who may only read could lock any other file without end.
        """
        fd = self.directory.fd
        return LifeLock(
            lambda: open_lock_file(lock_file.NAME, fd), kind=None, span=lock_file.STORING
        )

    # --- segments ---------------------------------------------------------------------------------

    def segment_numbers(self) -> list[int]:
        """Return the numbers of all segments, ascending, those allocated ahead included."""
        return self.directory.segment_numbers()

    def opened_file(self, number: int) -> AbstractContextManager[int]:
        """Open a segment's file for the length of a `with`; or raise `FileNotFoundError`."""
        return self.directory.opened_file(number)

    def opened_segment(self, number: int) -> AbstractContextManager[Segment]:
        """Open and map a segment for the length of a `with`; or raise `PositionError`."""
        return self.directory.opened_segment(number)

    def header(self, number: int) -> bytes | None:
        """Return the header page of a segment; None if it cannot be read."""
        return self.directory.read_header(number)

    def location(self, number: int) -> str:
        """Return where a segment is, for messages."""
        return self.directory.segment_path(number)

    def sealed_before(self, first: int, stop: int) -> int:
        """Return the first number in [first, stop) that is not sealed, or `stop`; segments are
        sealed in ascending order.
        """
        return SealTable(self.directory).sealed_before(first, stop)

    # --- what its store has -----------------------------------------------------------------------

    def begin_store(self, place: str) -> None:
        """Note durably that the log has a store, before anything can be deleted. A store at another
        place has nothing yet.
        """
        stored_mark.begin(self.directory, place)

    def stored(self) -> StoreStats | None:
        """Return what the log's store has, as its directory says, without a lag; None if the log
        has no store. A damaged file is a `CorruptSegmentError`.
        """
        return stored_mark.read(self.directory)

    def note_stored(self, stored: StoreStats) -> None:
        """Note durably what the log's store has, for all that delete segments; the lag is not
        noted.
        """
        stored_mark.write(self.directory, stored)

    # --- content ----------------------------------------------------------------------------------

    def identity_text(self) -> bytes:
        """Return the content of `log.json`."""
        return read_small_file(identities.NAME, identities.SIZE_LIMIT, dir_fd=self.directory.fd)

    def checkpoint(self) -> Checkpoint | None:
        """Return the last checkpoint, with whether the log was closed then."""
        return checkpoints.read(self.directory.fd, self.identity.uuid)

    def disk_bytes(self) -> int:
        """Return what all files of the directory take on the disk."""
        return self.directory.whole_disk_bytes()

    def lineage(self) -> Lineage | None:
        """Return what the log follows, its epoch and its copies; None if it never had any."""
        epochs = Epochs(self.directory)
        return epochs.read() if epochs.exists() else None

    @property
    def restored(self) -> bool:
        """Whether the directory is a copy of the one in which the log was last written."""
        return Epochs(self.directory).is_restored()

    # --- a place that may have no log -------------------------------------------------------------

    @staticmethod
    def check_directory(path: str) -> None:
        """Refuse a path that has no directory, or an archive."""
        with opened_log_directory(path):
            pass

    @staticmethod
    def identity_at(path: str) -> Identity | None:
        """Return the identity of the log at a path; None if there is none."""
        with contextlib.suppress(FileNotFoundError):
            return identities.read_path(path)
        return None

    @staticmethod
    def is_joining(path: str) -> bool:
        """Return whether a join of segments to the log at a path is not finished."""
        return os.path.lexists(os.path.join(path, JOIN_NOTE))

    @staticmethod
    def check_new(path: str) -> None:
        """Refuse a directory without a log that holds something else."""
        with opened_directory(path) as fd:
            refuse_foreign(fd, path)

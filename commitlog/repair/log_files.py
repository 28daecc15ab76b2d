"""LogFiles: the files of a log, which processes may have open or not."""

from __future__ import annotations

import contextlib
import os
from typing import Self

from commitlog.base.path import opened_directory
from commitlog.base.process import describe_process
from commitlog.errors import CommitLogError
from commitlog.flush import checkpoint as checkpoints
from commitlog.flush.checkpoint import Checkpoint
from commitlog.log.opened import refuse_foreign
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Lineage
from commitlog.repair.verification import opened_log_directory, read_identity
from commitlog.segment import cursors_file
from commitlog.segment import identity as identities
from commitlog.segment.cursors_file import Writer
from commitlog.segment.directory import JOIN_NOTE, LogDirectory
from commitlog.segment.identity import Identity
from commitlog.segment.notes import Notes


class LogFiles:
    """Read the files of a log as they are, open or closed, damaged or not; a context manager.

    Attributes
    ----------
    directory : LogDirectory
        The log's directory, which is open until `close`.
    identity : Identity
        From `log.json`, or from the headers of the segments.
    fault : str or None
        What is wrong with `log.json`, if the identity is from the headers.

    Raises
    ------
    LogNotFoundError, NotALogError
        There is no log at the path.
    """

    def __init__(self, path: str) -> None:
        with opened_log_directory(path) as fd:
            self.identity, self.fault = read_identity(fd, path)
            self.directory = LogDirectory(path, self.identity)

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

    # --- content ----------------------------------------------------------------------------------

    def checkpoint(self) -> Checkpoint | None:
        """Return the last checkpoint, with whether the log was closed then."""
        return checkpoints.read(self.directory.fd, self.identity.uuid)

    def segment_numbers(self) -> list[int]:
        return self.directory.segment_numbers()

    def disk_bytes(self) -> int:
        """Return what all files of the directory take on the disk."""
        return self.directory.whole_disk_bytes()

    def lineage(self) -> Lineage | None:
        """Return what the log follows, its epoch and its copies; None if it never had any."""
        epochs = Epochs(self.directory)
        return epochs.read() if epochs.exists() else None

    @property
    def notes(self) -> Notes:
        """The small files of extensions in the log's directory."""
        return Notes(self.directory)

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

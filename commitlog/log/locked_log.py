"""LockedLog: a log that is locked and recovered, and that no other program writes."""

from __future__ import annotations

import contextlib
import os
from contextlib import AbstractContextManager

from commitlog._kernel.segments import Segment
from commitlog.base.failpoint import failpoint
from commitlog.base.path import (
    make_directory,
    open_directory,
    translate_errors,
    translate_refusals,
)
from commitlog.base.side_logs import finish_replacements
from commitlog.errors import LogLockedError, LogNotFoundError
from commitlog.log.commit_log import CommitLog
from commitlog.log.copy_writer import CopyWriter, check_page, place_segment
from commitlog.log.log_copy import LogCopy
from commitlog.log.open_log import OpenLog
from commitlog.log.opened import Opened, refuse_foreign
from commitlog.log.opening import open_for_writing
from commitlog.options import Options
from commitlog.recovery import epochs
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Lineage
from commitlog.retention import stored_mark
from commitlog.segment import identity as identities
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity
from commitlog.segment.notes import Notes


class LockedLog:
    """A log that one program has locked, to write it from outside or to promote it.

    `open` locks one that exists. `create` and `begin` make a log that follows another one, and
    `restore` writes one from whole segments. It accepts no appends.

    Attributes
    ----------
    path : str
        The log's directory.
    identity : Identity
        Uuid, segment size, roll cycle and timestamps.
    end : int
        The position at which the log ended when it was opened.
    epochs : Epochs
        Under which epochs it was written, and which log it follows.
    notes : Notes
        The small files of extensions in its directory.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.path = opened.directory.path
        self.identity = opened.directory.identity
        self.end = opened.end
        self.epochs = Epochs(opened.directory)
        self.notes = Notes(opened.directory)

    @classmethod
    def open(cls, path: str) -> LockedLog:
        """Lock and recover an existing log, also one that follows another one.

        Raises
        ------
        LogNotFoundError, NotALogError
            There is no log at the path.
        LogLockedError
            A follower or a writer has it open.
        """
        with translate_refusals(path):
            try:
                if identities.read_path(path) is None:
                    raise identities.missing(path)
            except FileNotFoundError:
                raise LogNotFoundError("there is no log here: check the path", path=path) from None
            opened = open_for_writing(path, "a", Options(wait_for_log=0), follower=True)
        if not opened.exclusive:
            opened.close()
            raise LogLockedError("the log is open for writing: close it there first", path=path)
        try:
            with translate_errors(path, "put the copies of its queues in their place"):
                finish_replacements(path)
        except BaseException:
            opened.close()
            raise
        return cls(opened)

    @staticmethod
    def create(path: str, identity: Identity, lineage: Lineage) -> None:
        """Create the directory of a log that follows another one, still without segments.

        It is marked as a follower before it is a log. If a kill interrupts this, call it again.

        Raises
        ------
        NotALogError
            The directory has something else.
        """
        try:
            fd = open_directory(path)
        except FileNotFoundError:
            make_directory(path)
            fd = open_directory(path)
        try:
            with (
                translate_errors(path, "create the copy"),
                contextlib.closing(LogDirectory(path, identity)) as directory,
            ):
                if epochs.NAME not in directory.names():  # else an earlier try was killed here
                    refuse_foreign(fd, path)
                Epochs(directory).write(lineage)
            failpoint("lineage written")
            identities.write(fd, identity)
            failpoint("identity written")
        finally:
            os.close(fd)

    @staticmethod
    def begin(path: str, identity: Identity, number: int, page: bytes) -> None:
        """Put the first segment into such a log durably, before `open` recovers it; if there are
        segments, do nothing. `ValueError`: the header page is damaged or another segment's.
        """
        with (
            translate_errors(path, "create the copy's first segment"),
            contextlib.closing(LogDirectory(path, identity)) as directory,
        ):
            if not directory.segment_numbers():
                check_page(directory, number, page)
                place_segment(directory, number, page)

    @staticmethod
    def restore(path: str, identity: Identity, *, again: bool = False) -> LogCopy:
        """Write a new log from whole segments, for the length of a `with`: see `LogCopy`."""
        return LogCopy(path, identity, again=again)

    def opened_segment(self, number: int) -> AbstractContextManager[Segment]:
        """Open and map a segment for the length of a `with`; `PositionError` if there is none."""
        return self._opened.directory.opened_segment(number)

    def segment_numbers(self) -> list[int]:
        """Return the numbers of all segments, ascending."""
        return self._opened.directory.segment_numbers()

    def remove_before(self, number: int) -> None:
        """Remove the segments below a number."""
        for each in self.segment_numbers():
            if each < number:
                self._opened.directory.remove_segment(each)

    def writer(self) -> CopyWriter:
        """Begin to write the log byte for byte as another log has it; close the writer instead of
        this.
        """
        return CopyWriter(self._opened)

    def forget_store(self) -> None:
        """Forget durably what a store has of the log: only the log that it follows is stored."""
        stored_mark.forget(self._opened.directory)

    def finish(self) -> None:
        """Close the log as a writer does: seal its whole segments, and mark it clean."""
        CommitLog(OpenLog("a", self._opened, Options(wait_for_log=0))).close()

    def close(self) -> None:
        """Release the lock."""
        self._opened.close()

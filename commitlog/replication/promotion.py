"""Promotion: make a copy, or a log, the primary of the next epoch."""

from __future__ import annotations

import os

from commitlog.base.failpoint import failpoint
from commitlog.base.path import path_of, telling_of_refusals
from commitlog.errors import LogLockedError, LogNotFoundError
from commitlog.log.commit_log import CommitLog
from commitlog.log.open_log import OpenLog
from commitlog.log.opening import open_for_writing
from commitlog.options import Options
from commitlog.recovery import lineage
from commitlog.recovery.lineage import Epoch
from commitlog.segment import identity as identities


def promote(path: str | os.PathLike[str]) -> Epoch:
    """Begin the next epoch of a log durably; a copy can be written from then on.

    The log is recovered first, and goes on at its end. What the old primary has appended beyond it
    is not in the log. Stop the old primary: nothing prevents a program from appending to it, and
    no follower of this log accepts what it appends.

    Parameters
    ----------
    path : str or path-like
        The log's directory. No process may have it open for writing, and no follower may run.

    Returns
    -------
    Epoch
        The new epoch: its number, and the position at which the log goes on.

    Raises
    ------
    LogNotFoundError, NotALogError
        There is no log at the path.
    LogLockedError
        A follower or a writer has it open.
    """
    where = path_of(path)
    with telling_of_refusals(where):
        try:
            if identities.read_path(where) is None:
                raise identities.missing(where)
        except FileNotFoundError:
            raise LogNotFoundError("there is no log here: check the path", path=where) from None
        options = Options(open_timeout=0)
        opened = open_for_writing(where, "a", options, follower=True)
        if not opened.exclusive:
            opened.close()
            raise LogLockedError(
                "the log is open for writing: close it there, then promote it", path=where
            )
        try:
            new = lineage.read(opened.directory).promoted(opened.end)
            lineage.write(opened.directory, new)
            failpoint("epoch written")
        except BaseException:
            opened.close()
            raise
        # A whole open and close seals the segments that the copy got without a seal, and marks the
        # log as closed cleanly.
        CommitLog(OpenLog("a", opened, options)).close()
        return new.epochs[-1]

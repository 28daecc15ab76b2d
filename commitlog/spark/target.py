"""Target: the logs that a write goes to, and where its segments are staged until they join.

Staged segments are in `.staged` beside what they will become: in the log's own directory, or, where
a column chooses among logs, in the one that these are in. Each job has a folder there, which goes
when the job ends. What dead jobs have left is swept: of a streaming query by its next batch, of
others when nothing has changed in it for a day.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import time

from commitlog.base.path import telling
from commitlog.errors import InvalidOptionError, LogLockedError, NotALogError
from commitlog.log.opening import foreign_name
from commitlog.options import Options
from commitlog.segment import cursors_file
from commitlog.segment import identity as identities
from commitlog.segment.cursors_file import is_live
from commitlog.segment.directory import JOIN_NOTE, STAGED, check_file_system
from commitlog.segment.lock_file import describe_process
from commitlog.spark.write_options import WriteOptions, check_topic

_logger = logging.getLogger("commitlog.spark")
_KEPT_S = 24 * 3600.0
_OF_QUERY = re.compile(r"^query-(?P<query>.+)-(?P<batch>[0-9]+)$")


def folder_of(query: str, batch: int) -> str:
    """The name of the folder in which a batch of a streaming query is staged."""
    return f"query-{re.sub('[^A-Za-z0-9-]', '_', query)}-{batch}"


class Target:
    """Where records go.

    Parameters
    ----------
    options : WriteOptions
        As they were given.
    by_column : bool
        The data frame has a column `topic`, which chooses among the logs below the path.
    """

    def __init__(self, options: WriteOptions, *, by_column: bool) -> None:
        self.by_column = by_column and options.topic is None
        self.root = (
            options.path if options.topic is None else os.path.join(options.path, options.topic)
        )
        self.segment_size = options.segment_size

    def log_path(self, topic: str | None) -> str:
        """The log of a topic; None is for the one log where there are no topics."""
        return self.root if topic is None else os.path.join(self.root, check_topic(topic))

    def size_of(self, topic: str | None) -> int:
        """The segment size of a log, or of the one that will be created."""
        identity = _identity(self.log_path(topic))
        if identity is not None:
            if self.segment_size not in (None, identity.segment_size):
                raise InvalidOptionError(
                    f"segmentSize is {self.segment_size}, but the log was created with segments "
                    f"of {identity.segment_size} bytes",
                    path=self.log_path(topic),
                )
            return identity.segment_size
        return Options(segment_size=self.segment_size).new_segment_size

    def check(self) -> None:
        """Refuse, before any work is done, what could not be written when it is.

        Raises
        ------
        NotALogError, InvalidOptionError
            Something else is there, or a log where a directory of logs is meant.
        ReadOnlyError, UnsupportedError, IOFailureError
            It cannot be written.
        """
        if os.path.exists(self.root) and not os.path.isdir(self.root):
            raise NotALogError("this is a file: a log is a directory", path=self.root)
        with telling(self.root, "write a log"):
            os.makedirs(os.path.join(self.root, STAGED), exist_ok=True)
            if not os.access(os.path.join(self.root, STAGED), os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied")
        check_file_system(self.root)
        identity = _identity(self.root)
        if identity is not None and self.by_column:
            raise InvalidOptionError(
                "this is a log itself, and the column 'topic' chooses among the logs below a "
                "directory: write to that directory, or drop "
                "the column",
                path=self.root,
            )
        if identity is not None:
            self.size_of(None)
        elif not self.by_column:
            other = foreign_name(os.listdir(self.root))
            if other is not None:
                raise NotALogError(
                    f"this directory has no {identities.NAME} and holds something else ({other}): "
                    "choose an empty or a new one",
                    path=self.root,
                )

    def check_held(self) -> None:
        """Refuse a log that somebody has open for writing: its join would be refused when the work
        is done.

        Raises
        ------
        LogLockedError
            Who it is.
        """
        identity = None if self.by_column else _identity(self.root)
        if identity is not None:
            _refuse_held(self.root, identity)

    # --- staging ----------------------------------------------------------------------------------

    def folder(self, job: str) -> str:
        """Where a job's segments are staged."""
        return os.path.join(self.root, STAGED, job)

    def clear(self, job: str, topics: list[str | None]) -> None:
        """Remove a job's folder, unless a join that was begun still needs what is in it."""
        if any(os.path.lexists(os.path.join(self.log_path(topic), JOIN_NOTE)) for topic in topics):
            _logger.warning(
                "%s: a join was begun and is not finished; what it needs is left in %s",
                self.root,
                self.folder(job),
            )
            return
        shutil.rmtree(self.folder(job), ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(self.root, STAGED))

    def sweep(self, query: str | None = None, batch: int = -1) -> None:
        """Remove what dead jobs have left: of this query up to this batch, and of others what has
        been there for long.
        """
        staged = os.path.join(self.root, STAGED)
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(staged):
                found = _OF_QUERY.match(name)
                own = (
                    found is not None
                    and query is not None
                    and name == folder_of(query, int(found["batch"]))
                    and int(found["batch"]) <= batch
                )
                if own or _age_s(os.path.join(staged, name)) > _KEPT_S:
                    _logger.info("%s: %s is swept", self.root, name)
                    shutil.rmtree(os.path.join(staged, name), ignore_errors=True)
            with contextlib.suppress(OSError):
                os.rmdir(staged)


def _age_s(folder: str) -> float:
    """How long ago anything in a folder changed."""
    latest = 0.0
    for place, _, names in os.walk(folder):
        for path in [place, *(os.path.join(place, name) for name in names)]:
            with contextlib.suppress(OSError):
                latest = max(latest, os.stat(path, follow_symlinks=False).st_mtime)
    return time.time() - latest


def _identity(path: str) -> identities.Identity | None:
    """What the log is that is there, if there is one."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise NotALogError("this is a file: a log is a directory", path=path) from None
    try:
        return identities.read(fd, path)
    finally:
        os.close(fd)


def _refuse_held(path: str, identity: identities.Identity) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        writers = cursors_file.live_writers(fd, identity) if is_live(fd) else []
        names = ", ".join(describe_process(writer.pid, writer.pid_namespace) for writer in writers)
    finally:
        os.close(fd)
    if names:
        raise LogLockedError(
            "Spark joins what it wrote to a log that nobody else writes, and this one is open in "
            f"{names}: close it there, and write again",
            path=path,
            holder=names,
        )

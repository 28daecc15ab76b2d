"""Target: the logs of a write, and the folders in which its segments are staged until they join.

Segments are staged in the directory `.staged` of the log. If a column chooses among logs, `.staged`
is in the directory of these logs. Each job has a folder there and removes it at its end. If a job
died, a later job sweeps its folder: the next batch of the same streaming query, or any job after
the folder was unchanged for a day.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import time

from commitlog.base.file_system import check_file_system
from commitlog.base.path import translate_errors
from commitlog.errors import InvalidOptionError, LogLockedError, NotALogError
from commitlog.extension import LogFiles, StagingWriter
from commitlog.options import Options, new_segment_size
from commitlog.spark.write_options import WriteOptions, check_topic

_logger = logging.getLogger("commitlog.spark")
_KEPT_S = 24 * 3600.0
_OF_QUERY = re.compile(r"^query-(?P<query>.+)-(?P<batch>[0-9]+)$")


def folder_of(query: str, batch: int) -> str:
    """Return the name of the folder for a batch of a streaming query."""
    return f"query-{re.sub('[^A-Za-z0-9-]', '_', query)}-{batch}"


class Target:
    """The log, or the directory of logs, that a write goes to. With `by_column`, the data frame's
    column `topic` chooses among the logs below the path.
    """

    def __init__(self, options: WriteOptions, *, by_column: bool) -> None:
        self.by_column = by_column and options.topic is None
        self.root = (
            options.path if options.topic is None else os.path.join(options.path, options.topic)
        )
        self.segment_size = options.segment_size

    def log_path(self, topic: str | None) -> str:
        """Return the path of a topic's log. Without topics, `topic` is None."""
        return self.root if topic is None else os.path.join(self.root, check_topic(topic))

    def size_of(self, topic: str | None) -> int:
        """Return the segment size of a log, or the size for the log that will be created."""
        identity = LogFiles.identity_at(self.log_path(topic))
        if identity is not None:
            if self.segment_size not in (None, identity.segment_size):
                raise InvalidOptionError(
                    f"segmentSize is {self.segment_size}, but the log was created with segments "
                    f"of {identity.segment_size} bytes: remove the option",
                    path=self.log_path(topic),
                )
            return identity.segment_size
        return new_segment_size(Options(segment_size=self.segment_size))

    def check(self) -> None:
        """Check before the work begins that the target can be written."""
        if os.path.exists(self.root) and not os.path.isdir(self.root):
            raise NotALogError(
                "this is a file, and a log is a directory: choose another path", path=self.root
            )
        with translate_errors(self.root, "write a log"):
            os.makedirs(os.path.join(self.root, StagingWriter.FOLDER), exist_ok=True)
            if not os.access(os.path.join(self.root, StagingWriter.FOLDER), os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied")
        check_file_system(self.root)
        identity = LogFiles.identity_at(self.root)
        if identity is not None and self.by_column:
            raise InvalidOptionError(
                "this is a log itself, and the column 'topic' chooses among the logs below a "
                "directory: write to the directory above, or drop the column",
                path=self.root,
            )
        if identity is not None:
            self.size_of(None)
        elif not self.by_column:
            LogFiles.check_new(self.root)

    def check_held(self) -> None:
        """Refuse a log that is open for writing, before the work begins. The join would refuse it
        after the work.
        """
        identity = None if self.by_column else LogFiles.identity_at(self.root)
        if identity is not None:
            _refuse_held(self.root)

    # --- staging ----------------------------------------------------------------------------------

    def folder(self, job: str) -> str:
        """Return the folder for the staged segments of a job."""
        return os.path.join(self.root, StagingWriter.FOLDER, job)

    def clear(self, job: str, topics: list[str | None]) -> None:
        """Remove a job's folder, unless an unfinished join still needs its segments."""
        if any(LogFiles.is_joining(self.log_path(topic)) for topic in topics):
            _logger.warning(
                "%s: a join is not finished; its segments remain in %s",
                self.root,
                self.folder(job),
            )
            return
        shutil.rmtree(self.folder(job), ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(self.root, StagingWriter.FOLDER))

    def sweep(self, query: str | None = None, batch: int = -1) -> None:
        """Remove the folders of dead jobs: those of this query up to this batch, and others that
        were unchanged for a day.
        """
        staged = os.path.join(self.root, StagingWriter.FOLDER)
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
                    _logger.info("%s: removed %s, which a dead job left", self.root, name)
                    shutil.rmtree(os.path.join(staged, name), ignore_errors=True)
            with contextlib.suppress(OSError):
                os.rmdir(staged)


def _age_s(folder: str) -> float:
    """Return the seconds since the last change in a folder."""
    latest = 0.0
    for place, _, names in os.walk(folder):
        for path in [place, *(os.path.join(place, name) for name in names)]:
            with contextlib.suppress(OSError):
                latest = max(latest, os.stat(path, follow_symlinks=False).st_mtime)
    return time.time() - latest


def _refuse_held(path: str) -> None:
    with LogFiles(path) as files:
        names = ", ".join(files.holders())
    if names:
        raise LogLockedError(
            "Spark can join segments only to a log that no other process writes, and this log is "
            f"open in {names}: close it there, and write again",
            path=path,
            holder=names,
        )

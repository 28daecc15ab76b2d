"""Checks every frame of a log, an archive or a single segment file, and changes nothing:
`commitlog verify`.

The checkpoint holds a position known to be durable; it may lag. Below it, bytes that are not a
valid frame are damage. Above it, the state of the log decides:

- If no process has the log open for writing, the first bytes that are not a valid frame begin a
  torn tail. The next writable open recovers it: it keeps what was published if the memory that
  the writers shared is still there, and cuts the log otherwise.
- If a process has the log open for writing, zeros and open claims are not damage, because appends
  are still to come. Other bytes that are not a valid frame are damage.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from commitlog.base.path import open_directory, path_of, translate_refusals
from commitlog.base.progress import Meter, Progress
from commitlog.base.roll_cycle import RollCycle
from commitlog.errors import LogNotFoundError, NotALogError, UnsupportedVersionError
from commitlog.flush import checkpoint as checkpoints
from commitlog.flush.checkpoint import Checkpoint
from commitlog.repair.lost_identity import deduce
from commitlog.repair.reports import VerifyReport
from commitlog.repair.source_files import SourceFiles
from commitlog.repair.survey import Survey
from commitlog.segment import identity as identities
from commitlog.segment.cursors_file import is_live
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity
from commitlog.source.source_directory import SourceDirectory
from commitlog.source.source_registry import refuse_source, source_kind


def verify(path: str | os.PathLike[str], *, progress: Progress | None = None) -> VerifyReport:
    """Check every segment of a log, open or closed, of an archive, or one segment file. Change
    nothing.

    Segments of an archive are unpacked one after the other; at most five of them are in a
    temporary directory at a time. A segment file that was cut short, or whose header is damaged, is
    refused: its frames cannot be checked. `progress` is called now and then with the bytes of
    segments that are checked, and their total; what it raises ends the check.
    """
    path = path_of(path)
    with translate_refusals(path):
        with surveying(path) as survey:
            report = survey.run(meter := Meter(progress, 0))
            opened_meanwhile = not report.live and survey.is_log and is_live(survey.directory.fd)
        if opened_meanwhile:  # what looked like a torn tail may have been an open claim
            with surveying(path, live=True) as survey:
                report = survey.run(meter)
        meter.end()
    return report


@contextlib.contextmanager
def opened_log_directory(path: str) -> Iterator[int]:
    """Open a directory that may be a log, for the length of a `with`."""
    refuse_source(path)
    try:
        fd = open_directory(path)
    except FileNotFoundError:
        raise LogNotFoundError("there is no log here: check the path", path=path) from None
    try:
        yield fd
    finally:
        os.close(fd)


def read_identity(
    dir_fd: int, path: str, cycle: RollCycle | None = None
) -> tuple[Identity, str | None]:
    """Return the identity of a log, and the fault of its `log.json` or None.

    If `log.json` is lost, the cycle is the given one. If neither the file nor any segment holds an
    identity, raise `NotALogError`.
    """
    fault = f"{identities.NAME} is missing"
    try:
        identity = identities.read(dir_fd, path)
    except UnsupportedVersionError:
        raise
    except NotALogError as error:
        identity, fault = None, error.message.partition(":")[0]
    if identity is not None:
        return identity, None
    identity = deduce(dir_fd, cycle)
    if identity is None:
        raise NotALogError(
            f"{fault}, and no segment has a valid header: this is not a log; if it was one, "
            "restore it from a copy",
            path=path,
        )
    return identity, fault


@contextlib.contextmanager
def surveying(path: str, *, live: bool | None = None) -> Iterator[Survey]:
    """Open a survey of the log, the archive or the segment file at a path.

    If `live` is None, check whether a process has it open for writing.
    """
    kind = source_kind(path)
    if kind is not None and kind.grows:
        refuse_source(path)
    elsewhere = SourceFiles.open(path)
    if elsewhere is not None:
        with elsewhere:
            yield _survey_of_source(elsewhere.directory)
        return
    with (
        opened_log_directory(path) as fd,
        surveying_log(fd, path, live=is_live(fd) if live is None else live) as survey,
    ):
        yield survey


@contextlib.contextmanager
def surveying_log(dir_fd: int, path: str, *, live: bool) -> Iterator[Survey]:
    """Open a survey of a log whose directory is open."""
    identity, fault = read_identity(dir_fd, path)
    with contextlib.closing(LogDirectory(path, identity)) as directory:
        checkpoint = checkpoints.read(dir_fd, identity.uuid)
        yield Survey(directory, checkpoint, live=live, fault=fault)


def _survey_of_source(directory: SourceDirectory) -> Survey:
    """Open a survey of an archive or of a segment file.

    All of an archive, and of a sealed segment, was durable: any invalid frame is damage. A segment
    that was copied while it was written ends where a reader of it stops.
    """
    end = directory.end()
    checkpoint = Checkpoint(end, clean=True, count=0) if end % directory.segment_size == 0 else None
    survey = Survey(directory, checkpoint, live=False, fault=None, is_log=False)
    survey.known = end
    survey.report.notes += directory.source.notes()
    return survey

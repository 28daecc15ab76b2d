"""Verification of many logs and archives at once, with a task for each segment."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from commitlog.base.regular_file import open_regular
from commitlog.errors import CorruptSegmentError, InvalidOptionError, LogNotFoundError
from commitlog.extension import surveying
from commitlog.keep import SegmentReport, VerifyReport
from commitlog.spark.jobs.folder import check_classic
from commitlog.spark.places import normalized
from commitlog.spark.presence import REMEDY, other_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WAVE = 8  # segments for each core between two notes
_LINE_LIMIT = 1 << 20  # characters of a note
SealOf = Callable[[int], list[int] | None]


@dataclass(frozen=True)
class LogCheck:
    """The check of one segment.

    Attributes
    ----------
    path, number : str and int
        Path of the log or archive, and number of the segment.
    known : int
        The position that is known to be durable.
    live : bool
        A process has the log open for writing.
    uuid : str
        The log's identity in hexadecimal. The task fails if it sees another log.
    identified : bool
        The driver found a sound `log.json`. The task fails if it finds none.
    """

    path: str
    number: int
    known: int
    live: bool
    uuid: str
    identified: bool


@dataclass
class Verification:
    """The result of a verification.

    Attributes
    ----------
    reports : list of VerifyReport
        One report for each log, as `commitlog verify` has it.
    resumed : int
        Number of segments that an earlier run had checked.
    """

    reports: list[VerifyReport] = field(default_factory=list)
    resumed: int = 0

    @property
    def sound(self) -> bool:
        """True if no log has a problem."""
        return all(report.sound for report in self.reports)


def verify(
    spark: SparkSession,
    paths: Sequence[str | os.PathLike[str]],
    *,
    state: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Verification:
    """Check every CRC of some logs and archives, and that no segment is missing. Change nothing.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session, for instance from `commitlog.spark.session`. Its executors must see the logs
        under the same paths.
    paths : sequence of paths
        Paths of logs, archives and segment files, or URIs of archives.
    state : path, optional
        A file that notes which finished segments were sound. The next run with this file skips
        them. Without it, or with a new file, a run reads all segments.
    progress : callable
        Called repeatedly with the segments done and the segments in total.

    Returns
    -------
    Verification

    Raises
    ------
    InvalidOptionError
        `state` is another file.
    LogNotFoundError, NotALogError, UnsupportedVersionError
        A path has no log, or a log that this release cannot read.
    pyspark.errors.PythonException
        An executor does not see a log that the driver sees, or sees another one under its path.
    """
    check_classic(spark, "a verification")
    done = Verification()
    places = [normalized(os.fspath(path)) for path in paths]
    with contextlib.ExitStack() as stack:
        surveys = {place: stack.enter_context(surveying(place)) for place in places}
        identified = {place: _identified(survey.report) for place, survey in surveys.items()}
        numbers = {place: survey.begin() for place, survey in surveys.items()}
        seals = {place: survey.seal_of for place, survey in surveys.items()}
        notes = _SoundSegments(None if state is None else os.fspath(state))
        found: dict[LogCheck, tuple[SegmentReport | None, int | None]] = {}
        tasks = [
            LogCheck(
                place, number, survey.known, survey.live, survey.report.uuid, identified[place]
            )
            for place, survey in surveys.items()
            for number in numbers[place]
        ]
        for task in tasks:
            known = notes.find(task, seals[task.path])
            if known is not None:
                found[task] = (known, None)
        done.resumed = len(found)
        rest = [task for task in tasks if task not in found]
        for task, report, torn_at in _check_all(
            spark, rest, lambda checked: progress(done.resumed + checked, len(tasks))
        ):
            found[task] = (report, torn_at)
            if report is not None and torn_at is None:
                notes.add(task, report, seals[task.path])
        for task in tasks:
            report, torn_at = found[task]
            if report is not None:
                surveys[task.path].add(report, torn_at)
        done.reports += [survey.end(numbers[place]) for place, survey in surveys.items()]
    return done


def check_segment(task: LogCheck) -> tuple[LogCheck, SegmentReport | None, int | None]:
    """Check one segment, on an executor. Return its report and the position of a torn tail in it.
    The report is None if the segment was deleted meanwhile.
    """
    with surveying(task.path, live=task.live) as survey:
        if survey.report.uuid != task.uuid:
            raise other_log(task.path)
        if task.identified and not _identified(survey.report):
            raise LogNotFoundError(
                f"this machine sees no sound log.json, but the driver does: {REMEDY}",
                path=task.path,
            )
        survey.known = task.known
        survey.check_segment(task.number)
        report = survey.report.segments[0] if survey.report.segments else None
        if report is None:
            _check_deleted(task, survey.directory.segment_numbers())
        return task, report, survey.torn_at


def _identified(report: VerifyReport) -> bool:
    """Return whether `log.json` is sound. Call this before any other check."""
    return not report.problems


def _check_deleted(task: LogCheck, there: list[int]) -> None:
    """Check that a missing segment is older than all present ones, as retention leaves a log."""
    if not there or min(there) < task.number:
        raise LogNotFoundError(
            f"this machine does not see segment {task.number}, but the driver does: {REMEDY}",
            path=task.path,
        )


def _check_all(
    spark: SparkSession, tasks: list[LogCheck], progress: Callable[[int], None]
) -> Iterable[tuple[LogCheck, SegmentReport | None, int | None]]:
    """Check segments in waves, so that progress is reported and noted between them."""
    context = spark.sparkContext
    wave = context.defaultParallelism * _WAVE
    progress(0)
    for first in range(0, len(tasks), wave):
        some = tasks[first : first + wave]
        yield from context.parallelize(some, len(some)).map(check_segment).collect()
        progress(min(first + wave, len(tasks)))


class _SoundSegments:
    """The segments that were sound, one in a line. A finished segment does not change, and its seal
    identifies it.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._known: dict[tuple[str, str, int], dict[str, Any]] = {}
        if path is None or not os.path.exists(path):
            return
        with open(
            open_regular(path, follow=True), encoding="utf-8", errors="replace", newline="\n"
        ) as file:
            while line := file.readline(_LINE_LIMIT):
                if (
                    line.endswith("\n") or len(line) == _LINE_LIMIT
                ):  # a killed run may leave a line without its end
                    self._take(line, path)

    def _take(self, line: str, path: str) -> None:
        try:
            note = json.loads(line)
            SegmentReport(**note["report"])
            self._known[note["path"], note["uuid"], note["number"]] = note
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidOptionError(
                f"this is not the state of a verification ({error}): name a new file", path=path
            ) from None

    def find(self, task: LogCheck, seal_of: SealOf) -> SegmentReport | None:
        """Return an earlier run's report of a segment, if its seal is the same. A copy at another
        path has no report.
        """
        note = self._known.get((task.path, task.uuid, task.number))
        if note is None:
            return None
        try:
            seal = seal_of(task.number)
        except CorruptSegmentError:
            return None  # the file of an archive was damaged since
        return None if seal is None or note["seal"] != seal else SegmentReport(**note["report"])

    def add(self, task: LogCheck, report: SegmentReport, seal_of: SealOf) -> None:
        """Note a finished segment without problems."""
        if self._path is None or report.damage or report.problems:
            return
        seal = seal_of(task.number)
        if seal is None:
            return
        note = {
            "path": task.path,
            "uuid": task.uuid,
            "number": task.number,
            "seal": seal,
            "report": dataclasses.asdict(report),
        }
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")

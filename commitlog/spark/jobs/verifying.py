"""Verification of many logs at once: each segment is a task of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from commitlog.errors import InvalidOptionError
from commitlog.flush import checkpoint as checkpoints
from commitlog.segment.directory import LogDirectory
from commitlog.segment.seal_table import SealTable
from commitlog.shared.lock_file import is_live
from commitlog.verification import Survey, open_directory, read_identity
from commitlog.verify_report import SegmentReport, VerifyReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WAVE = 8  # segments for each core, after which what is done is noted


@dataclass(frozen=True)
class LogCheck:
    """A segment to be checked.

    Attributes
    ----------
    path, number : str and int
        Log and segment.
    known : int
        The position that is known to be durable.
    live : bool
        Somebody has the log open for writing.
    """

    path: str
    number: int
    known: int
    live: bool


@dataclass
class Verification:
    """What was found, log by log.

    Attributes
    ----------
    reports : list of VerifyReport
        One a log, as `commitlog verify` gives it.
    resumed : int
        Segments that an earlier run had checked.
    """

    reports: list[VerifyReport] = field(default_factory=list)
    resumed: int = 0

    @property
    def sound(self) -> bool:
        """Nothing is wrong with any of them."""
        return all(report.sound for report in self.reports)


def verify(
    spark: SparkSession,
    paths: Sequence[str | os.PathLike[str]],
    *,
    state: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Verification:
    """Check every CRC of some logs, and that their positions are without a hole; reads only.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        Such as `commitlog.spark.session` gives. Its executors have to see the logs under the same paths.
    paths : sequence of paths
        Directories of logs.
    state : path, optional
        A file that notes which finished segments were sound. A run that was ended goes on there; without it, or with a new one, all is
        read.
    progress : callable
        Told now and then: segments done, segments in all.

    Returns
    -------
    Verification

    Raises
    ------
    InvalidOptionError
        The file is something else.
    LogNotFoundError, NotALogError, UnsupportedVersionError
        There is no log at a path, or one that this release cannot read.
    """
    done = Verification()
    with contextlib.ExitStack() as stack:
        surveys = [stack.enter_context(_survey(os.fspath(path))) for path in paths]
        numbers = [survey.begin() for survey in surveys]
        notes = _Notes(None if state is None else os.fspath(state))
        found: dict[LogCheck, tuple[SegmentReport | None, int | None]] = {}
        tasks = []
        for survey, own in zip(surveys, numbers, strict=True):
            seals = SealTable(survey.directory)
            for number in own:
                task = LogCheck(survey.directory.path, number, survey.known, survey.live)
                known = notes.find(survey.report.uuid, number, seals)
                if known is None:
                    tasks.append(task)
                else:
                    found[task] = (known, None)
        done.resumed = len(found)
        for task, report, torn_at in _check_all(spark, tasks, lambda checked: progress(done.resumed + checked, done.resumed + len(tasks))):
            found[task] = (report, torn_at)
            survey = next(survey for survey in surveys if survey.directory.path == task.path)
            if report is not None and torn_at is None:
                notes.add(survey.report.uuid, report, task.number, SealTable(survey.directory))
        for survey, own in zip(surveys, numbers, strict=True):
            for number in own:
                report, torn_at = found[LogCheck(survey.directory.path, number, survey.known, survey.live)]
                if report is not None:
                    survey.add(report, torn_at)
            done.reports.append(survey.end(own))
    return done


@contextlib.contextmanager
def _survey(path: str, known: int | None = None, live: bool | None = None) -> Iterator[Survey]:
    """A survey of a log; what is known of it already is not asked again."""
    path = os.path.abspath(path)
    fd = open_directory(path)
    try:
        identity, fault = read_identity(fd, path)
        directory = LogDirectory(path, identity.segment_size, identity.uuid, identity.roll_cycle)
        try:
            live = is_live(fd) if live is None else live
            survey = Survey(directory, identity, checkpoints.read(fd, identity.uuid), live=live, fault=fault)
            survey.known = survey.known if known is None else known
            yield survey
        finally:
            directory.close()
    finally:
        os.close(fd)


def check_segment(task: LogCheck) -> tuple[LogCheck, SegmentReport | None, int | None]:
    """Check one segment, on an executor: what it holds, and where a torn tail begins in it. None where it was deleted meanwhile."""
    with _survey(task.path, task.known, task.live) as survey:
        survey.look_at(task.number)
        report = survey.report.segments[0] if survey.report.segments else None
        return task, report, survey.torn_at


def _check_all(
    spark: SparkSession, tasks: list[LogCheck], progress: Callable[[int], None]
) -> Iterable[tuple[LogCheck, SegmentReport | None, int | None]]:
    """Check segments in waves, so that there is something to tell, and to note, in between."""
    context = spark.sparkContext
    wave = context.defaultParallelism * _WAVE
    progress(0)
    for first in range(0, len(tasks), wave):
        some = tasks[first : first + wave]
        yield from context.parallelize(some, len(some)).map(check_segment).collect()
        progress(min(first + wave, len(tasks)))


class _Notes:
    """Which segments were found sound, a line each. A finished segment does not change: its seal says that it is still the same."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._known: dict[tuple[str, int], dict[str, Any]] = {}
        if path is None or not os.path.exists(path):
            return
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")
        for line in lines[:-1]:  # behind the last line break stands what a run that was killed could not end
            try:
                note = json.loads(line)
                SegmentReport(**note["report"])
                self._known[note["uuid"], note["number"]] = note
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidOptionError(f"this is no state of a verification ({error}): name a new file", path=path) from None

    def find(self, uuid: str, number: int, seals: SealTable) -> SegmentReport | None:
        """What an earlier run said of a segment, if it is the same still."""
        note = self._known.get((uuid, number))
        seal = seals.get(number) if note is not None else None
        if note is None or seal is None or note["seal"] != [seal.segment_id, seal.crc]:
            return None
        return SegmentReport(**note["report"])

    def add(self, uuid: str, report: SegmentReport, number: int, seals: SealTable) -> None:
        """Note a finished segment in which nothing is wrong."""
        seal = seals.get(number)
        if self._path is None or seal is None or report.damage or report.problems:
            return
        note = {"uuid": uuid, "number": number, "seal": [seal.segment_id, seal.crc], "report": dataclasses.asdict(report)}
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")

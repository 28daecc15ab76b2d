"""Export: write a log as Parquet files, with a directory for each date.

A step exports some segments. It writes its files to a temporary folder, then a note, and then moves
the files into place. After a crash, the last note says where to continue. So a run repeats at most
one step, and no record is exported twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from commitlog.base.failpoint import failpoint
from commitlog.base.option import check_switches
from commitlog.base.units import Size, parse_size
from commitlog.errors import InvalidOptionError, IOFailureError
from commitlog.spark.columns import HEADERS
from commitlog.spark.jobs.folder import Folder
from commitlog.spark.jobs.steps import next_stop, read
from commitlog.spark.topics import open_only

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NOTES = "_commitlog"
_COLUMNS = ("topic", "offset", "sequence", "timestamp", "type", "key", "value")
# Spark's to_date uses the time zone of the session. This is the date in UTC.
_DATE = "date_from_unix_date(cast(floor(unix_micros(timestamp) / 86400000000) as int)) as date"


@dataclass
class Export:
    """The result of an export, over all its runs.

    Attributes
    ----------
    log, destination : str
        The log and the folder of the Parquet files.
    position : int
        All records below are exported. The next run continues there.
    records, files : int
        Number of records and files in the destination.
    pending : list of int, or None
        A step that is written and not yet in place: start, stop and number of records.
    uuid : str
        The log's identity in hexadecimal; empty if an older release wrote the note.
    """

    log: str
    destination: str
    position: int
    records: int = 0
    files: int = 0
    pending: list[int] | None = None
    uuid: str = ""


def export(
    spark: SparkSession,
    log: str,
    destination: str,
    *,
    text: bool = False,
    headers: bool = False,
    step: Size = "1GiB",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Export:
    """Write the durable records of a log to Parquet files, partitioned by date (UTC). A further run
    adds the records that were appended since.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session, for instance from `commitlog.spark.session`.
    log : str
        A path that ``spark.read.format("commitlog")`` loads as one log.
    destination : str
        A directory for this export only, in any file system that Spark can write to.
    text : bool
        Write values as text and not as bytes. Bytes that are not UTF-8 become replacement
        characters.
    headers : bool
        Add the column headers, an array of structs of key and value as in Spark. If some runs have
        it and some do not, read the files with Spark's option ``mergeSchema``.
    step : int or str
        Bytes of the log in a step.
    progress : callable
        Called after each step with the bytes done and the bytes in total.

    Returns
    -------
    Export

    Raises
    ------
    InvalidOptionError
        The destination has other files, or the export of another log.
    CommitLogError
        The log cannot be read, or retention has deleted records that are not exported yet.
    """
    check_switches(text=text, headers=headers)
    topic, place = open_only(log, "an export")
    with topic:
        name, start, end, segment_size, uuid = (
            topic.name,
            topic.first,
            topic.end,
            topic.segment_size,
            topic.uuid.hex(),
        )
    folder = Folder(spark, destination)
    notes = _ExportProgress(folder, Export(place, destination, start, uuid=uuid))
    step_bytes = parse_size(step, "step")
    total, begun = end - notes.state.position, notes.state.position
    while True:
        _move_pending(folder, notes)
        start = notes.state.position
        if start >= end:
            return notes.state
        progress(start - begun, total)
        stop = next_stop(start, end, step_bytes, segment_size)
        found = read(spark, log, name, start, stop, headers=headers)
        frame = _columns(found, text=text)
        notes.begin(start, stop, _write(frame, f"{folder.path}/{_NOTES}/step"))


def _columns(frame: DataFrame, *, text: bool) -> DataFrame:
    columns = [
        f"cast({column} as string) as {column}" if text and column == "value" else column
        for column in _COLUMNS
    ]
    return frame.selectExpr(_DATE, *columns, *(name for name in frame.columns if name == HEADERS))


def _write(frame: DataFrame, path: str) -> int:
    """Write a step to a temporary folder, and return the number of its records."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    seen = Observation()
    frame.observe(seen, sql.count(sql.lit(1)).alias("records")).write.mode("overwrite").partitionBy(
        "date"
    ).parquet(path)
    return int(seen.get["records"])


def _move_pending(folder: Folder, notes: _ExportProgress) -> None:
    """Move the files of the noted step into place. A killed run may have moved some of them
    already.
    """
    pending = notes.state.pending
    if pending is None:
        return
    start, stop, records = pending
    for name in folder.files(f"{_NOTES}/step"):
        if name.endswith(".parquet"):
            date, _, part = name.rpartition("/")
            folder.move(f"{_NOTES}/step/{name}", f"{date}/{start:020d}-{part}")
            failpoint("file moved")
    files = sum(
        1 for name in folder.files("") if name.endswith(".parquet") and not name.startswith(_NOTES)
    )
    notes.end(stop, records, files)


class _ExportProgress:
    """The progress of an export. Each note is a new file, because some file systems cannot replace
    a file. The note with the highest number is valid.
    """

    def __init__(self, folder: Folder, fresh: Export) -> None:
        self._folder = folder
        self._count = 0
        self.state = fresh
        numbers = [
            int(name[:-5])
            for name in folder.names(_NOTES)
            if name.endswith(".json") and name[:-5].isdigit()
        ]
        if not numbers:
            others = [name for name in folder.names() if name != _NOTES]
            if others:
                raise InvalidOptionError(
                    f"the destination holds something else ({others[0]}): choose an empty or a "
                    "new directory",
                    path=folder.path,
                )
            return
        self._count = max(numbers)
        self.state = self._read()
        if self.state.log != fresh.log:
            raise InvalidOptionError(
                f"the destination has the export of {self.state.log}: choose another one for "
                f"{fresh.log}",
                path=folder.path,
            )
        if self.state.uuid not in ("", fresh.uuid):
            raise InvalidOptionError(
                f"the destination has the export of another log that was at {fresh.log}: choose a "
                "new destination",
                path=folder.path,
            )
        self.state.uuid = fresh.uuid

    def _read(self) -> Export:
        try:
            content: dict[str, Any] = json.loads(self._folder.read(f"{_NOTES}/{self._count}.json"))
            state = Export(**content)
            numbers = (state.position, state.records, state.files, *(state.pending or (0, 0, 0)))
            if len(numbers) == 6 and all(
                isinstance(number, int) and number >= 0 for number in numbers
            ):
                return state
        except (
            ValueError,
            TypeError,
            IOFailureError,
        ):  # Hadoop's checksum rejects a local file that was changed
            pass
        raise InvalidOptionError(
            f"{_NOTES}/{self._count}.json does not say how far the export has come: remove the "
            "destination, and export again",
            path=self._folder.path,
        )

    def _write(self) -> None:
        self._count += 1
        self._folder.create(
            f"{_NOTES}/{self._count}.json", json.dumps(asdict(self.state), indent=2) + "\n"
        )
        self._folder.remove(f"{_NOTES}/{self._count - 1}.json")

    def begin(self, start: int, stop: int, records: int) -> None:
        """Note that a step is written and will be moved."""
        self.state.pending = [start, stop, records]
        self._write()
        failpoint("step noted")

    def end(self, stop: int, records: int, files: int) -> None:
        """Note that a step is in place."""
        self.state.pending = None
        self.state.position, self.state.files = stop, files
        self.state.records += records
        self._write()
        failpoint("step done")
        self._folder.remove(f"{_NOTES}/step")

"""Export: a log as Parquet files, one directory a date.

It goes in steps of some segments. Each is written aside, noted, and then moved into place; what was
noted last says where to go on, so that an export that was killed anywhere repeats at most the
writing of one step, and no record is there twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from commitlog.base.failpoint import failpoint
from commitlog.base.units import Size, parse_size
from commitlog.errors import InvalidOptionError, IOFailureError
from commitlog.spark.jobs.folder import Folder
from commitlog.spark.jobs.steps import next_stop, read
from commitlog.spark.topics import open_only

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NOTES = "_commitlog"
_COLUMNS = ("topic", "offset", "sequence", "timestamp", "type", "key", "value")
# Not Spark's own function, which would take the session's time zone.
_DATE = "date_from_unix_date(cast(floor(unix_micros(timestamp) / 86400000000) as int)) as date"


@dataclass
class Export:
    """What an export has done, in all its runs.

    Attributes
    ----------
    log, destination : str
        From where, and to where.
    position : int
        Everything below is exported; the next run goes on there.
    records, files : int
        In the destination.
    pending : list of int, or None
        A step that is written and not yet in place: from, to, records.
    uuid : str
        The log's, in hexadecimal; empty where an older release wrote the note.
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
    step: Size = "1GiB",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Export:
    """Write what a log has, as far as it is durable, to Parquet files partitioned by date (UTC).
    Run again, it adds what has come since.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        Such as `commitlog.spark.session` gives.
    log : str
        Whatever ``spark.read.format("commitlog")`` can load as one log.
    destination : str
        A directory of its own, wherever Spark can write.
    text : bool
        Write values as text and not as bytes. What is no UTF-8 is written with replacement
        characters.
    step : int or str
        Bytes of the log after which what was done is noted.
    progress : callable
        Told after each step: bytes done, bytes in all.

    Returns
    -------
    Export

    Raises
    ------
    InvalidOptionError
        The destination has something else, or the export of another log.
    CommitLogError
        The log cannot be read; or retention has deleted records that are not exported yet.
    """
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
    notes = _Notes(folder, Export(place, destination, start, uuid=uuid))
    step_bytes = parse_size(step, "step")
    total, begun = end - notes.state.position, notes.state.position
    while True:
        _move_pending(folder, notes)
        start = notes.state.position
        if start >= end:
            return notes.state
        progress(start - begun, total)
        stop = next_stop(start, end, step_bytes, segment_size)
        frame = _columns(read(spark, log, name, start, stop), text=text)
        notes.begin(start, stop, _write(frame, f"{folder.path}/{_NOTES}/step"))


def _columns(frame: DataFrame, *, text: bool) -> DataFrame:
    """What is written of the records."""
    columns = [
        f"cast({column} as string) as {column}" if text and column == "value" else column
        for column in _COLUMNS
    ]
    return frame.selectExpr(_DATE, *columns)


def _write(frame: DataFrame, path: str) -> int:
    """Write a step aside; how many records it has."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    seen = Observation()
    frame.observe(seen, sql.count(sql.lit(1)).alias("records")).write.mode("overwrite").partitionBy(
        "date"
    ).parquet(path)
    return int(seen.get["records"])


def _move_pending(folder: Folder, notes: _Notes) -> None:
    """Move what was noted as written into place. What a killed run has moved already is no longer
    there to be moved.
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


class _Notes:
    """How far an export has come. Each note is a new file, since not every file system can replace
    one; the highest counts.
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
                    "new one",
                    path=folder.path,
                )
            return
        self._count = max(numbers)
        self.state = self._read()
        if self.state.log != fresh.log:
            raise InvalidOptionError(
                f"the destination has the export of {self.state.log}: give {fresh.log} another one",
                path=folder.path,
            )
        if self.state.uuid not in ("", fresh.uuid):
            raise InvalidOptionError(
                f"the destination has the export of another log that was at {fresh.log}: give "
                "this one a new destination",
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
        ):  # a local file that was changed fails Hadoop's own checksum
            pass
        raise InvalidOptionError(
            f"{_NOTES}/{self._count}.json does not say how far the export has come: remove the "
            "destination, and export anew",
            path=self._folder.path,
        )

    def _write(self) -> None:
        self._count += 1
        self._folder.create(
            f"{_NOTES}/{self._count}.json", json.dumps(asdict(self.state), indent=2) + "\n"
        )
        self._folder.remove(f"{_NOTES}/{self._count - 1}.json")

    def begin(self, start: int, stop: int, records: int) -> None:
        """A step is written aside, and is going to be moved."""
        self.state.pending = [start, stop, records]
        self._write()
        failpoint("step noted")

    def end(self, stop: int, records: int, files: int) -> None:
        """A step is in place."""
        self.state.pending = None
        self.state.position, self.state.files = stop, files
        self.state.records += records
        self._write()
        failpoint("step done")
        self._folder.remove(f"{_NOTES}/step")

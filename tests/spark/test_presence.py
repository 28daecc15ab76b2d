"""An executor that cannot see the log, or sees another log in its place, raises; it never takes the
records for deleted by retention.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException, StreamingQueryException

from commitlog._kernel.segments import HEADER_SIZE
from commitlog.errors import CommitLogError, LogNotFoundError, NotALogError
from commitlog.repair.verification import surveying
from commitlog.spark.jobs import LogCheck, verify, verifying
from commitlog.spark.log_topic import LogTopic
from commitlog.spark.slices import read_slices
from tests.spark.logs_in_spark import archive, fill, numbered, schema, slices

UNSEEN = "does not see the log"
OTHER = "another log than the one"
OLD = "sees neither this segment of the log nor a younger one"


def _move_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def _lose_identity(path: Path) -> None:
    (path / "log.json").unlink()
    for segment in path.glob("*.seg*"):
        segment.unlink()


def _replace(path: Path) -> None:
    _move_away(path)
    fill(path, numbered(3))


def _replace_by_archive(path: Path) -> None:
    _move_away(path)
    fill(path.with_name("other"), numbered(3000))
    archive(path.with_name("other"), path)


def _take_back(path: Path) -> None:
    """Leave an older copy of the log, with its first segment only."""
    for segment in sorted(path.glob("*.seg*"))[1:]:
        segment.unlink()


HARMS: list[tuple[Callable[[Path], None], str]] = [
    (_move_away, UNSEEN),
    (_lose_identity, UNSEEN),
    (_replace, OTHER),
    (_replace_by_archive, OTHER),
    (_take_back, OLD),
]
NAMES = [harm.__name__.strip("_") for harm, _ in HARMS]


@pytest.mark.parametrize(("harm", "says"), HARMS, ids=NAMES)
@pytest.mark.parametrize("archived", [False, True])
def test_log_missing_on_executor_fails_the_task(
    tmp_path: Path, harm: Callable[[Path], None], says: str, archived: bool
) -> None:
    log = tmp_path / "log"
    fill(log, numbered(1500))
    path = archive(log, tmp_path / "cold" / "log") if archived else log
    pieces = list(slices(path=path, failOnDataLoss="false"))
    harm(path)
    with pytest.raises((LogNotFoundError, NotALogError), match=says):
        list(read_slices(pieces, schema("value"), on_damage="skip", fail_on_data_loss=False))


def test_lone_segment_deleted_after_planning_fails_the_task(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(700))
    (tmp_path / "alone").mkdir()
    segment = shutil.copy(sorted((tmp_path / "log").glob("*.seg"))[1], tmp_path / "alone")
    pieces = list(slices(path=segment))
    os.unlink(segment)
    with pytest.raises(LogNotFoundError, match=UNSEEN):
        list(read_slices(pieces, schema("value"), fail_on_data_loss=False))


def test_log_missing_on_driver_fails_the_plan(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(1500))
    with LogTopic("log", str(tmp_path / "log"), "flushed") as topic:
        end = topic.end
        shutil.rmtree(tmp_path / "log")
        with pytest.raises(LogNotFoundError, match=UNSEEN):
            list(topic.slices(HEADER_SIZE, end, with_sequence=False, fail_on_data_loss=False))


# --- in Spark -------------------------------------------------------------------------------------


def test_log_missing_on_executors_fails_a_batch_read(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    fill(path, numbered(1500))
    frame = (
        spark.read.format("commitlog")
        .option("failOnDataLoss", "false")
        .option("minPartitions", 4)
        .load(str(path))
    )
    planned = frame.rdd
    assert planned.getNumPartitions() > 1
    _move_away(path)
    with pytest.raises(PythonException, match=UNSEEN):
        planned.count()


def test_log_replaced_on_executors_fails_a_stream(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    fill(path, numbered(1500))

    def take(batch: Any, number: int) -> None:
        # Spark has planned the batch; its tasks run when `collect` asks for rows.
        _replace(path)
        batch.collect()

    reading = (
        spark.readStream.format("commitlog")
        .options(startingOffsets="earliest", failOnDataLoss="false")
        .load(str(path))
    )
    writing = reading.writeStream.option(
        "checkpointLocation", str(tmp_path / "checkpoint")
    ).foreachBatch(take)
    with pytest.raises(StreamingQueryException, match=OTHER):
        writing.trigger(availableNow=True).start().awaitTermination()


def test_log_replaced_on_executors_fails_verify(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(1500))
    path = archive(tmp_path / "log", tmp_path / "cold" / "log")

    def begun(done: int, total: int) -> None:
        _replace_by_archive(path)

    with pytest.raises(PythonException, match=OTHER):
        verify(spark, [path], progress=begun)


@pytest.mark.parametrize(
    ("harm", "says"), [HARMS[0], HARMS[2], HARMS[4]], ids=["move_away", "replace", "take_back"]
)
def test_log_missing_on_executor_fails_verify(
    tmp_path: Path, harm: Callable[[Path], None], says: str
) -> None:
    path = tmp_path / "log"
    fill(path, numbered(1500))
    with surveying(str(path)) as survey:
        last = LogCheck(
            str(path), survey.begin()[-2], survey.known, survey.live, survey.report.uuid, True
        )
    harm(path)
    with pytest.raises(CommitLogError):
        verifying.check_segment(last)


def test_log_json_missing_on_executor_fails_verify(tmp_path: Path) -> None:
    path = tmp_path / "log"
    fill(path, numbered(1500))
    with surveying(str(path)) as survey:
        first = LogCheck(str(path), 0, survey.known, survey.live, survey.report.uuid, True)
    (path / "log.json").unlink()
    with pytest.raises(LogNotFoundError, match="sees no sound log.json"):
        verifying.check_segment(first)


def test_segment_deleted_by_retention_passes_verify(tmp_path: Path) -> None:
    path = tmp_path / "log"
    fill(path, numbered(1500))
    with surveying(str(path)) as survey:
        first = LogCheck(str(path), 0, survey.known, survey.live, survey.report.uuid, True)
    (path / f"{0:020d}.seg").unlink()
    assert verifying.check_segment(first) == (first, None, None)


def test_verify_over_connect_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "log", [b"x"])
    # A session of Spark Connect has no JVM either.
    connected: Any = object()
    with pytest.raises(CommitLogError, match="one of Spark Connect"):
        verify(connected, [tmp_path / "log"])

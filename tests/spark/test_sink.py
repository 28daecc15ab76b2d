"""Writing from Spark: data frames and streams are written to logs, each batch once; a write that is
not possible raises with the reason.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

import commitlog
from commitlog.repair.verification import verify
from tests.setups import Logs
from tests.spark.harmed import HarmedSource


def values_of(path: Path) -> list[bytes]:
    with commitlog.open(path, "r") as log:
        return [bytes(value) for value in log.tailer().values()]


def records_of(path: Path) -> list[Any]:
    with commitlog.open(path, "r") as log:
        return list(log.tailer())


# --- real queries ---------------------------------------------------------------------------------


def test_written_data_frame_is_a_sound_log(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(5000).selectExpr(
        "cast(id as string) as value",
        "cast(id % 7 as string) as key",
        "timestamp_seconds(id) as timestamp",
        "id % 3 as type",
    )
    frame.repartition(2).write.format("commitlog").mode("append").option(
        "segmentSize", "64KiB"
    ).save(str(tmp_path / "log"))
    found = records_of(tmp_path / "log")
    assert {
        (int(record.value), record.key, record.timestamp_ns, record.type) for record in found
    } == {(number, b"%d" % (number % 7), number * 10**9, number % 3) for number in range(5000)}
    assert [record.sequence for record in found] == list(range(5000))
    assert verify(tmp_path / "log").sound
    assert not (tmp_path / "log" / ".staged").exists()
    with commitlog.open(tmp_path / "log") as log:
        log.append(b"on")


def test_topic_option_overrides_topic_column(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(100).selectExpr(
        "cast(id as string) as value", "if(id < 30, 'few', 'many') as topic"
    )
    frame.write.format("commitlog").mode("append").save(str(tmp_path))
    frame.write.format("commitlog").mode("append").option("topic", "all").save(str(tmp_path))
    found = {
        name: sorted(int(value) for value in values_of(tmp_path / name))
        for name in ("few", "many", "all")
    }
    assert found == {"few": list(range(30)), "many": list(range(30, 100)), "all": list(range(100))}
    assert sorted(os.listdir(tmp_path)) == ["all", "few", "many"]


@pytest.mark.parametrize("case", ["overwrite", "schema", "type", "option", "held"])
def test_impossible_write_raises_with_the_reason(
    spark: Any, tmp_path: Path, logs: Logs, case: str
) -> None:
    frame, mode, options = spark.range(3).selectExpr("cast(id as string) as value"), "append", {}
    words = ""
    if case == "overwrite":
        mode, words = "overwrite", "mode 'overwrite' is not supported: a log only grows"
    elif case == "schema":
        frame, words = (
            spark.range(3),
            "has a column 'id', which a record has no place for; expected value (binary or string)",
        )
    elif case == "type":
        frame, words = (
            spark.range(3).withColumnRenamed("id", "value"),
            "column 'value' is bigint; expected value (binary or string)",
        )
    elif case == "option":
        options, words = (
            {"segmentSise": "1MiB"},
            "unknown option 'segmentsise'; did you mean 'segmentSize'?",
        )
    else:
        logs.open("log").append(b"x")
        words = f"open in process {os.getpid()}"
    with pytest.raises(PySparkException) as caught:
        frame.write.format("commitlog").mode(mode).options(**options).save(str(tmp_path / "log"))
    assert words in str(caught.value)


def test_failed_task_leaves_no_records_and_no_staged_files(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(1000).selectExpr(
        "if(id = 900, raise_error('no 900'), cast(id as string)) as value"
    )
    with pytest.raises(PySparkException, match="no 900"):
        frame.repartition(2).write.format("commitlog").mode("append").save(str(tmp_path / "log"))
    assert not (tmp_path / "log" / ".staged").exists()
    spark.range(3).selectExpr("cast(id as string) as value").coalesce(1).write.format(
        "commitlog"
    ).mode("append").save(str(tmp_path / "log"))
    assert values_of(tmp_path / "log") == [b"0", b"1", b"2"]


# --- exactly once ---------------------------------------------------------------------------------

HARM = (
    "write",
    "before commit",
    "before the note",
    "after the note",
    "after the manifest",
    "after commit",
)


@pytest.mark.parametrize("harm", HARM)
def test_failed_and_restarted_stream_writes_each_record_once(
    spark: Any, tmp_path: Path, harm: str
) -> None:
    """The query fails in its second batch and is restarted from its checkpoint. Spark aborts the
    failed batch each time.
    """
    source, path = tmp_path / "source", tmp_path / "log"
    (tmp_path / "harm").write_text(harm)

    def run() -> None:
        frame = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source))
        query = (
            frame.writeStream.format("harmed_commitlog")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("harm", str(tmp_path / "harm"))
            .option("segmentSize", "64KiB")
            .trigger(availableNow=True)
            .start(str(path))
        )
        query.awaitTermination()

    spark.dataSource.register(HarmedSource)
    source.mkdir()
    for number in range(3):
        (source / f"{number}.txt").write_text("".join(f"{number} {line}\n" for line in range(100)))
        os.utime(source / f"{number}.txt", (number + 1, number + 1))
    with pytest.raises(PySparkException, match="harmed"):
        run()
    assert len(values_of(path)) in (100, 200)
    run()
    expected = [f"{number} {line}".encode() for number in range(3) for line in range(100)]
    assert sorted(values_of(path)) == sorted(expected)
    assert verify(path).sound
    assert not (path / ".staged").exists()

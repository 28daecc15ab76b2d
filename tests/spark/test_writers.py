"""The batch writer and the stream writer as Spark calls them, without Spark: staging, commit, abort
and sweep.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

import commitlog
from commitlog.base import failpoint
from commitlog.errors import (
    CommitLogError,
    CorruptSegmentError,
    InvalidOptionError,
    LogLockedError,
    NotALogError,
    RecordTypeError,
)
from commitlog.spark.columns import HEADERS_MAP, HEADERS_TYPE
from commitlog.spark.read_options import ReadOptions
from commitlog.spark.sink import LogStreamWriter, LogWriter, StagedTask
from commitlog.spark.target import folder_of
from commitlog.spark.topics import open_topic
from commitlog.spark.write_options import check_schema
from tests.setups import Logs

SIZE = 65536
QUERY = "6f8d1c7e-0000-4000-8000-000000000001"


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


VALUE = schema(value=BinaryType())
BY_TOPIC = schema(value=BinaryType(), topic=StringType())


def batches(values: Sequence[bytes], **columns: Any) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), **columns})]


def batch_writer(path: Path, columns: StructType = VALUE, **options: str) -> LogWriter:
    return LogWriter({"path": str(path), "segmentSize": str(SIZE), **options}, columns, False)


def stream_writer(path: Path, columns: StructType = VALUE) -> LogStreamWriter:
    """Create a new writer for each call, as Spark does."""
    return LogStreamWriter(
        {"path": str(path), "segmentSize": str(SIZE), "checkpointlocation": "x"}, columns, False
    )


def staged(path: Path, batch: int, values: Sequence[bytes], query: str = QUERY) -> StagedTask:
    return stream_writer(path).sink.stage(
        batches(values), StagedTask(query, batch), folder_of(query, batch)
    )


def values_of(path: Path) -> list[bytes]:
    with commitlog.open(path, "r") as log:
        return [bytes(value) for value in log.tailer().values()]


def test_commit_joins_tasks_in_order_and_skips_failed_task(tmp_path: Path) -> None:
    writer = batch_writer(tmp_path / "log")
    messages = [writer.write(iter(batches([b"%d" % task]))) for task in range(3)]
    writer.commit([messages[0], None, messages[2], messages[1]])
    assert values_of(tmp_path / "log") == [b"0", b"2", b"1"]


@pytest.mark.parametrize("large", [None, 0, 2, 4])
def test_commit_merges_small_segments_and_keeps_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int | None
) -> None:
    monkeypatch.setattr("commitlog.spark.sink._SMALL_BYTES", 500)
    times = pa.array([7 * 10**6, 8 * 10**6], pa.timestamp("us", tz="UTC"))
    columns = {
        "key": pa.array([None, b"k"], pa.binary()),
        "type": pa.array([3, None], pa.int32()),
        "timestamp": times,
    }
    tasks = [[b"%d" % task, b"x" * (600 if task == large else 6)] for task in range(5)]
    made = schema(
        value=BinaryType(), key=BinaryType(), type=IntegerType(), timestamp=TimestampType()
    )
    writer = batch_writer(tmp_path / "log", made)
    writer.commit([writer.write(iter(batches(values, **columns))) for values in tasks])
    with commitlog.open(tmp_path / "log", "r") as log:
        found = [(bytes(one.value), one.key, one.type, one.timestamp_ns) for one in log.tailer()]
        segments = {one.position // SIZE for one in log.tailer()}
    wanted = [
        row
        for first, second in tasks
        for row in ((first, None, 3, 7 * 10**9), (second, b"k", 0, 8 * 10**9))
    ]
    assert found == wanted
    assert len(segments) == {None: 1, 0: 2, 2: 3, 4: 2}[large]
    assert not (tmp_path / "log" / ".staged").exists()


def test_commit_without_records_creates_an_empty_log(tmp_path: Path) -> None:
    writer = batch_writer(tmp_path / "log")
    writer.commit([writer.write(iter(batches([])))])
    assert values_of(tmp_path / "log") == []


def test_abort_before_commit_leaves_no_files(tmp_path: Path) -> None:
    writer = batch_writer(tmp_path / "log")
    message = writer.write(iter(batches([b"x"])))
    assert (tmp_path / "log" / ".staged").exists()
    writer.abort([message, None])
    assert os.listdir(tmp_path / "log") == []


def test_abort_after_commit_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = batch_writer(path)
    messages = [writer.write(iter(batches([b"x"])))]
    writer.commit(messages)
    writer.abort(messages)
    message = staged(path, 0, [b"y"])
    stream_writer(path).commit([message], 0)
    stream_writer(path).abort([message, None], 0)
    assert values_of(path) == [b"x", b"y"]


def test_batch_committed_twice_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    first = staged(path, 0, [b"0"])
    stream_writer(path).commit([first], 0)
    stream_writer(path).commit([staged(path, 0, [b"0, anew"])], 0)
    stream_writer(path).commit([first], 0)
    stream_writer(path).commit([staged(path, 1, [b"1"])], 1)
    stream_writer(path).commit([], 2)
    stream_writer(path).commit([staged(path, 0, [b"of another query"], "other")], 0)
    assert values_of(path) == [b"0", b"1", b"of another query"]
    assert not (path / ".staged").exists()


def test_commit_after_failed_commit_and_abort_completes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    message = staged(path, 0, [bytes([number % 251]) * 4000 for number in range(40)])

    def fail(step: str) -> None:
        if step == "segment placed":
            raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(failpoint, "hook", fail)
        with pytest.raises(CommitLogError, match="Input/output error"):
            stream_writer(path).commit([message], 0)
    stream_writer(path).abort([message], 0)
    assert values_of(path) == []
    stream_writer(path).commit([staged(path, 0, [b"again"])], 0)
    assert len(values_of(path)) == 40


def test_commit_sweeps_dead_jobs_and_keeps_files_of_others(tmp_path: Path) -> None:
    path = tmp_path / "log"
    staged(path, 0, [b"a dead attempt"])
    staged(path, 3, [b"to come"])
    staged(path, 0, [b"in the making"], "other")
    batch_writer(path).write(iter(batches([b"long dead"])))
    long_dead = next(
        folder for folder in (path / ".staged").iterdir() if folder.name.startswith("job-")
    )
    for place in [*long_dead.iterdir(), long_dead]:
        os.utime(place, (1, 1))
    stream_writer(path).commit([staged(path, 1, [b"1"])], 1)
    assert sorted(folder.name for folder in (path / ".staged").iterdir()) == sorted(
        [folder_of("other", 0), folder_of(QUERY, 3)]
    )
    assert values_of(path) == [b"1"]


def test_records_of_each_topic_keep_their_order(tmp_path: Path) -> None:
    writer = batch_writer(tmp_path, BY_TOPIC)
    topics = ["a", "b", "c"] * 2000
    parts = batches([b"%d" % number for number in range(6000)], topic=topics)
    writer.commit([writer.write(iter(parts))])
    for offset, name in enumerate("abc"):
        assert [int(value) for value in values_of(tmp_path / name)] == list(range(offset, 6000, 3))


@pytest.mark.parametrize(
    ("topics", "words"),
    [
        (["a", None], "has a null"),
        (["../b"], "not a name of"),
        ([".."], "not a name of"),
        ([f"t{number}" for number in range(300)], "256"),
    ],
    ids=["null", "path", "parent", "many"],
)
def test_wrong_topic_raises(tmp_path: Path, topics: list[str], words: str) -> None:
    writer = batch_writer(tmp_path, BY_TOPIC)
    with pytest.raises((RecordTypeError, InvalidOptionError), match=words):
        writer.write(iter(batches([b"x"] * len(topics), topic=topics)))
    writer.abort([None])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (schema(key=BinaryType()), "has no column 'value'; expected value"),
        (schema(value=LongType()), "column 'value' is bigint"),
        (
            schema(value=BinaryType(), word=StringType()),
            "has a column 'word', which a record has no place for",
        ),
        (schema(value=BinaryType(), topic=IntegerType()), "column 'topic' is int"),
        (schema(value=BinaryType(), key=ArrayType(BinaryType())), "column 'key' is array"),
        (schema(value=BinaryType(), type=StringType()), "column 'type' is string"),
        (schema(value=BinaryType(), Value=BinaryType()), "two columns 'value'"),
        (schema(value=BinaryType(), headers=ArrayType(BinaryType())), "column 'headers' is array"),
    ],
)
def test_wrong_schema_raises_naming_the_expected_type(columns: StructType, words: str) -> None:
    with pytest.raises(RecordTypeError, match=words):
        check_schema(columns)


@pytest.mark.parametrize("kind", [TimestampType(), TimestampNTZType()], ids=["zoned", "zoneless"])
def test_rows_read_from_a_log_can_be_written(kind: DataType) -> None:
    check_schema(
        schema(
            key=NullType(),
            Value=StringType(),
            topic=StringType(),
            partition=IntegerType(),
            offset=LongType(),
            timestamp=kind,
        )
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "path is missing"),
        ({"path": "s3://bucket/log"}, "must be on a local disk"),
        ({"path": "/x", "topic": "a/b"}, "topic 'a/b' is not a name"),
        ({"path": "/x", "segmentSize": "1"}, "segment_size must be from"),
        ({"path": "/x", "kafka.acks": "all"}, "'kafka.acks' is not supported: there is no broker"),
        ({"path": "/x", "includeHeaders": "maybe"}, "unknown option 'includeheaders'"),
        ({"path": "/x", "tropic": "t"}, "did you mean 'topic'"),
    ],
)
def test_wrong_write_option_raises_naming_it(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        LogWriter(options, VALUE, False)


@pytest.mark.parametrize("asked", ["true", "false"])
def test_include_headers_is_accepted(tmp_path: Path, asked: str) -> None:
    LogWriter({"path": str(tmp_path / "log"), "includeHeaders": asked}, VALUE, False)


@pytest.mark.parametrize(
    ("kind", "arrow", "rows"),
    [
        (
            ArrayType(schema(key=StringType(), value=BinaryType())),
            HEADERS_TYPE,
            [
                [{"key": "a", "value": b"1"}, {"key": "n", "value": None}],
                None,
                [{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}],
            ],
        ),
        (
            MapType(StringType(), BinaryType()),
            HEADERS_MAP,
            [[("a", b"1"), ("n", b"")], None, [("a", b"2")]],
        ),
    ],
)
def test_column_headers_is_written(tmp_path: Path, kind: Any, arrow: Any, rows: Any) -> None:
    path = tmp_path / "log"
    writer = batch_writer(path, schema(value=BinaryType(), headers=kind))
    headers = pa.array(rows, arrow)
    tasks = [  # several small segments, which the commit merges
        writer.write(iter(batches([b"a"], headers=headers.slice(at, 1)))) for at in range(3)
    ]
    writer.commit([*tasks])
    with commitlog.open(path, "r") as log:
        assert log.tailer().read_batch(9).headers == [{"a": b"1", "n": b""}, {}, {"a": b"2"}]


def test_overwrite_mode_raises_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="mode 'overwrite' is not supported"):
        LogWriter({"path": str(tmp_path)}, VALUE, True)


def test_write_with_same_transaction_happens_once(tmp_path: Path) -> None:
    for version in (0, 1, 1, 0, 2):
        writer = batch_writer(tmp_path / "log", txnAppId="app", txnVersion=str(version))
        writer.commit([writer.write(iter(batches([b"%d" % version])))])
    assert values_of(tmp_path / "log") == [b"0", b"1", b"2"]
    for given in (
        {"txnAppId": "app"},
        {"txnVersion": "1"},
        {"txnAppId": "app", "txnVersion": "-1"},
    ):
        with pytest.raises(InvalidOptionError, match="txnAppId and txnVersion go together"):
            batch_writer(tmp_path / "log", **given)


def test_wrong_target_is_refused_before_any_work(tmp_path: Path, logs: Logs) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x")
    with pytest.raises(NotALogError, match="this is a file"):
        batch_writer(tmp_path / "file")
    with pytest.raises(NotALogError, match="holds something else"):
        batch_writer(tmp_path / "folder")
    with pytest.raises(CommitLogError):
        batch_writer(Path("/proc/log"))
    log = logs.open("held")
    with pytest.raises(LogLockedError, match="open in this process"):
        batch_writer(tmp_path / "held")
    log.close()
    with pytest.raises(InvalidOptionError, match="this is a log itself"):
        batch_writer(tmp_path / "held", BY_TOPIC)
    with pytest.raises(
        InvalidOptionError,
        match="segmentSize is 131072, but the log was created with segments of 65536",
    ):
        batch_writer(tmp_path / "held", segmentSize="131072")


def test_staged_segment_missing_on_driver_raises_naming_it(tmp_path: Path) -> None:
    writer = batch_writer(tmp_path / "log")
    message = writer.write(iter(batches([b"x"])))
    for segments in message.staged.values():
        os.unlink(segments[0])
    with pytest.raises(
        CorruptSegmentError, match="executors and driver must see the same file system"
    ):
        writer.commit([message])
    assert values_of(tmp_path / "log") == []


@pytest.mark.parametrize("edge", ["latest", "given"])
def test_log_ending_in_joined_segment_is_read_to_its_end(tmp_path: Path, edge: str) -> None:
    path = tmp_path / "log"
    stream_writer(path).commit([staged(path, 0, [b"x"])], 0)
    options = ReadOptions.parse({"path": str(path)}, stream=False)
    with open_topic("log", str(path), options) as topic:
        end = topic.end if edge == "latest" else topic.end - topic.end % SIZE
        found = list(topic.slices(topic.first, end, with_sequence=True, fail_on_data_loss=True))
    assert [piece.base for piece in found] == [SIZE]

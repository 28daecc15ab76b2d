"""Every reading option with every kind of source."""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructType

from commitlog.spark.columns import FIELDS
from commitlog.spark.message_schema import schema_with
from commitlog.spark.reader import LogReader
from commitlog.spark.stream import LogStreamReader
from tests.length import every
from tests.spark.conftest import WORKER_KEYS
from tests.spark.kinds import NAME, Kind, Kinds, Row, at, kinds
from tests.spark.logs_in_spark import schema

pytest.importorskip("zstandard")
pytest.importorskip("cryptography")

KINDS = [
    "closed",
    "live",
    "store",
    "directory_and_store",
    "archive",
    "plain_archive",
    "server",
    "server_and_store",
    "arrow_uri",
    "bucket",
]
IN_WORKERS = [name for name in KINDS if name not in ("arrow_uri", "bucket")]
FOLLOWED = [name for name in KINDS if name not in ("plain_archive", "arrow_uri")]
MIDDLE_MS = 60_000  # a time at which three records begin, and their sequence and position
LATE_MS = 253_402_300_799_999


class Case(NamedTuple):
    """Options, as text or by a function of the rows, and which rows a read with them has."""

    options: Callable[[list[Row]], dict[str, Any]]
    wants: Callable[[Row, Row], bool] = lambda row, middle: True


def middle_of(rows: list[Row]) -> Row:
    return next(row for row in rows if row.time_ns >= MIDDLE_MS * 10**6)


def _since(row: Row, middle: Row) -> bool:
    return row.position >= middle.position


def _until(row: Row, middle: Row) -> bool:
    return row.position < middle.position


def _none(row: Row, middle: Row) -> bool:
    return False


def _of(*options: tuple[str, Any]) -> Callable[[list[Row]], dict[str, Any]]:
    return lambda rows: dict(options)


BOTH = {
    "no option": Case(_of()),
    "startingOffsets": Case(lambda rows: {"startingOffsets": at(middle_of(rows).position)}, _since),
    "startingOffsets -2": Case(_of(("startingOffsets", at(-2)))),
    "startingOffsets earliest": Case(_of(("startingOffsets", "earliest"))),
    "startingTimestamp": Case(_of(("startingTimestamp", MIDDLE_MS)), _since),
    "startingOffsetsByTimestamp": Case(_of(("startingOffsetsByTimestamp", at(MIDDLE_MS))), _since),
    "strategy": Case(
        _of(
            ("startingTimestamp", LATE_MS),
            ("startingOffsetsByTimestampStrategy", "latest"),
        ),
        _none,
    ),
    "minPartitions": Case(_of(("minPartitions", 7))),
    "failOnDataLoss": Case(
        _of(("failOnDataLoss", "false"), ("startingOffsets", at(0))),
    ),
    "visibility": Case(_of(("visibility", "committed"))),
    "onDamage": Case(_of(("onDamage", "skip"))),
    "includeHeaders": Case(_of(("includeHeaders", "true"))),
    "decode": Case(_of(("decode", "true"))),
    "decode and onDamage": Case(_of(("decode", "true"), ("onDamage", "skip"))),
    "messageTopic": Case(_of(("messageTopic", "Order"))),
    "messageTopic of a sealed topic": Case(_of(("messageTopic", "sealed"))),
    "decode from a position": Case(
        lambda rows: {"decode": "true", "startingOffsets": at(middle_of(rows).position)}, _since
    ),
}
BATCH = {
    **BOTH,
    "endingOffsets": Case(lambda rows: {"endingOffsets": at(middle_of(rows).position)}, _until),
    "endingOffsets -1": Case(_of(("endingOffsets", at(-1)))),
    "endingTimestamp": Case(_of(("endingTimestamp", MIDDLE_MS)), _until),
    "endingOffsetsByTimestamp": Case(_of(("endingOffsetsByTimestamp", at(LATE_MS)))),
}
STREAM = {
    **BOTH,
    "maxOffsetsPerTrigger": Case(_of(("maxOffsetsPerTrigger", 50))),
    "maxBytesPerTrigger": Case(_of(("maxBytesPerTrigger", "50KiB"))),
    "minOffsetsPerTrigger": Case(_of(("minOffsetsPerTrigger", 10), ("maxTriggerDelay", "1ms"))),
}
Found = list[tuple[int, str | None]]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kinds]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMMITLOG_KEYS", WORKER_KEYS)
        with kinds(tmp_path_factory.mktemp("kinds")) as made:
            yield made


def options_of(kind: Kind, case: Case, rows: list[Row]) -> dict[str, str]:
    given = {**kind.options, **case.options(rows)}
    return {name: str(value) for name, value in given.items()}


def expected(case: Case, options: dict[str, str], rows: list[Row]) -> Found:
    """The sequences and messages of the rows that a case wants."""
    middle, topic = middle_of(rows), options.get("messageTopic")
    decodes = "decode" in options or topic is not None
    return [
        (
            row.sequence,
            _text(row.message) if decodes and topic in (None, row.topic) else None,
        )
        for row in rows
        if case.wants(row, middle)
    ]


def _text(message: Any) -> str | None:
    """The part of a message that tells it from others."""
    if message is None:
        return None
    content = json.loads(message["json"]) if "json" in message else message
    return json.dumps({name: content[name] for name in ("id", "order") if name in content})


def schema_of(options: dict[str, str]) -> StructType:
    if "messageTopic" in options:
        return schema_with(options, with_headers=False)
    columns = from_arrow_schema(schema(*FIELDS))
    if "decode" not in options:
        return columns
    return columns.add("message", StructType().add("topic", StringType()).add("json", StringType()))


def below(found: Found, rows: list[Row]) -> Found:
    """Leave out the record of the last segment, which an archive does not have."""
    return sorted((each for each in found if each[0] <= rows[-1].sequence), key=lambda one: one[0])


def _rows_of(reader: Any, parts: Any) -> Found:
    on_executor = pickle.loads(pickle.dumps(reader))
    return [
        (row["sequence"], _text(row.get("message")))
        for part in parts
        for batch in on_executor.read(part)
        for row in batch.to_pylist()
    ]


# Buckets are slow, and what a reused plan keeps does not depend on the kind of store.
@pytest.mark.parametrize(
    ("name", "is_reused"),
    [
        *((name, False) for name in KINDS),
        *((name, True) for name in IN_WORKERS),
        *(pytest.param(name, True, marks=pytest.mark.long) for name in ("arrow_uri", "bucket")),
    ],
)
@every(3)
def test_batch_options_hold_for_each_kind(
    sources: Kinds, name: str, is_reused: bool, every: int
) -> None:
    """Each kind with every third option, and each option with three kinds or four; as a long test
    all of both.
    """
    kind, rows = sources[name], sources.rows
    found, wanted = {}, {}
    first = (KINDS.index(name) + is_reused) % every
    for label, case in list(BATCH.items())[first::every]:
        options = options_of(kind, case, rows)
        wanted[label] = expected(case, options, rows)
        given = {"path": kind.path, **options}
        reader = LogReader(given, schema_of(given), 2, is_reused=is_reused)
        found[label] = below(_rows_of(reader, reader.partitions()), rows)
    assert found == wanted


@pytest.mark.parametrize("name", FOLLOWED)
@every(3)
def test_stream_options_hold_for_each_kind(sources: Kinds, name: str, every: int) -> None:
    kind, rows = sources[name], sources.rows
    found, wanted = {}, {}
    for label, case in list(STREAM.items())[KINDS.index(name) % every :: every]:
        options = {"startingOffsets": "earliest", **options_of(kind, case, rows)}
        wanted[label] = expected(case, options, rows)
        given = {"path": kind.path, **options}
        reader = LogStreamReader(given, schema_of(given), 2)
        place, got = reader.initialOffset(), []
        while (end := reader.latestOffset(place, reader.getDefaultReadLimit())) != place:
            reader_of_tasks = pickle.loads(pickle.dumps(reader))
            got += _rows_of(reader_of_tasks, reader.partitions(place, end))
            place = end
        reader.stop()
        found[label] = below(got, rows)
    assert found == wanted


@every(5)
@pytest.mark.parametrize("name", IN_WORKERS)
def test_spark_reads_each_kind_with_each_option(
    spark: Any, sources: Kinds, name: str, every: int
) -> None:
    """Each kind with every fifth option, and each option with one kind or two: the tests above
    combine them all without Spark.
    """
    kind, rows = sources[name], sources.rows
    frames, wanted = [], {}
    for label, case in list(BATCH.items())[IN_WORKERS.index(name) % every :: every]:
        options = options_of(kind, case, rows)
        wanted[label] = expected(case, options, rows)
        frame = spark.read.format("commitlog").options(**options).load(kind.path)
        message = f.to_json("message") if "message" in frame.columns else f.lit(None)
        frames.append(
            frame.select(f.lit(label).alias("label"), "sequence", message.alias("message"))
        )
    rows_found = functools.reduce(lambda one, other: one.union(other), frames).collect()
    found: dict[str, Found] = {label: [] for label in wanted}
    for label, sequence, message in rows_found:
        found[label].append((sequence, None if message is None else _text(json.loads(message))))
    assert {label: below(each, rows) for label, each in found.items()} == wanted
    above = spark.read.format("commitlog").options(subscribe=NAME, **kind.options)
    counted = above.load(kind.above).where(f.col("sequence") <= rows[-1].sequence).count()
    assert counted == len(rows)

"""The column `message` in Spark: messages of topics, decoded by the schemas in the log."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as f
from pyspark.sql.datasource import EqualTo
from pyspark.sql.types import BinaryType, StringType, StructType

import commitlog
from commitlog import topics
from commitlog.errors import KeyUnavailableError, UndecodableError
from commitlog.spark.message_schema import schema_with
from commitlog.spark.reader import FilteringReader, LogReader
from tests.spark.logs_in_spark import SIZE, archive
from tests.topics.forged import forge
from tests.topics.golden import SALES, SEALED_NUMBER, WHOLE, log_with_deltas
from tests.topics.orders import Order, Refund


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of several segments with two topics and a plain record."""
    path = tmp_path / "shop"
    with commitlog.open(path, segment_size=SIZE) as opened:
        opened.append(b"plain")
        orders = commitlog.topic(opened, Order, compress=topics.Zstd(dictionary=b""))
        refunds = commitlog.topic(opened, Refund, codec="msgpack")
        for number in range(300):
            orders.append(Order(number, "lamp" * 100), key=b"%d" % number)
            refunds.append(Refund(number))
            opened.append(b"x" * 500)
    return path


def read(spark: Any, path: Path, **options: object) -> Any:
    given = {"decode": "true", **{name: str(value) for name, value in options.items()}}
    return spark.read.format("commitlog").options(**given).load(str(path))


def messages(frame: Any, topic: str) -> list[Any]:
    rows = frame.where(f.col("message.topic") == topic).select("message.json").collect()
    return [json.loads(row.json) for row in rows]


def test_messages_are_a_struct_of_topic_and_json(spark: Any, log: Path) -> None:
    frame = read(spark, log, minPartitions=3)
    assert dict(frame.dtypes)["message"] == "struct<topic:string,json:string>"
    assert "message" not in spark.read.format("commitlog").load(str(log)).columns
    orders = messages(frame, "Order")
    assert sorted(order["id"] for order in orders) == list(range(300))
    assert orders[0]["amount"] == "12.50"
    assert {refund["order"] for refund in messages(frame, "Refund")} == set(range(300))
    none = frame.where("message is null and type = 0").count()
    assert none == 301


def test_json_is_read_with_a_schema(spark: Any, log: Path) -> None:
    order = f.from_json(f.col("message.json"), "id bigint, amount decimal(10,2)").alias("order")
    frame = read(spark, log).where("message.topic = 'Order'").select("key", order)
    total = frame.agg(f.sum("order.amount"), f.max("order.id")).first()
    assert (float(total[0]), total[1]) == (300 * 12.5, 299)


def test_filters_choose_which_messages_are_decoded(spark: Any, log: Path) -> None:
    with commitlog.topic(log, Order, mode="r") as orders:
        tailer = orders.tailer()
        assert tailer.read() is not None
        assert tailer.record is not None
        position, number = tailer.record.position, tailer.record.type
    with commitlog.open(log) as opened:
        opened.append(b"{", type=number)  # cannot be decoded
    frame = read(spark, log)
    (row,) = frame.where(f.col("offset") == position).select("message").collect()
    assert row.message.topic == "Order"
    with pytest.raises(PythonException, match="a message cannot be decoded"):
        frame.select("message").collect()
    skipping = read(spark, log, onDamage="skip").where(f.col("type") == number).select("message")
    assert sum(row.message is None for row in skipping.collect()) == 1


def test_archive_and_single_segment_are_decoded(spark: Any, log: Path, tmp_path: Path) -> None:
    place = archive(log, tmp_path / "archive")
    assert len(messages(read(spark, place), "Order")) > 100
    alone = tmp_path / "alone" / f"{SIZE:020d}.seg"
    alone.parent.mkdir()
    shutil.copy(log / alone.name, alone)
    assert len(messages(read(spark, alone), "Order")) > 10
    packed = tmp_path / "packed" / f"{SIZE:020d}.seg.zst"
    packed.parent.mkdir()
    shutil.copy(place / packed.name, packed)
    assert len(messages(read(spark, packed), "Order")) > 10
    typed = read(spark, packed, messageTopic="Refund").where("message is not null")
    assert typed.count() > 10


def test_deltas_of_old_logs_are_undecodable_in_tasks(spark: Any, tmp_path: Path) -> None:
    path = log_with_deltas(tmp_path)
    is_clear = f.col("type") != SEALED_NUMBER
    with pytest.raises(PythonException, match="a delta of an earlier message"):
        read(spark, path).where(is_clear).select("message").collect()
    skipping = read(spark, path, onDamage="skip").where(is_clear)
    assert len(messages(skipping, "states")) == len(WHOLE)
    assert len(messages(skipping, "sales")) == len(SALES)


def test_stream_decodes_topics_that_begin_later(spark: Any, log: Path, tmp_path: Path) -> None:
    found: list[str] = []

    def take(batch: Any, _: int) -> None:
        found.extend(row.topic for row in batch.select("message.topic").distinct().collect())

    def run() -> None:
        frame = spark.readStream.format("commitlog").option("decode", "true")
        query = (
            frame.option("startingOffsets", "earliest")
            .load(str(log))
            .where("message is not null")
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(take)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    assert sorted(found) == ["Order", "Refund"]
    with commitlog.topic(log, Refund, name="Return") as returns:
        returns.append(Refund(1))
        returns.log.flush()
    run()
    assert sorted(found) == ["Order", "Refund", "Return"]


def test_stream_reads_a_topic_as_a_struct(spark: Any, log: Path, tmp_path: Path) -> None:
    found: list[int] = []

    def take(batch: Any, _: int) -> None:
        rows = batch.where("message is not null").select("message.order").collect()
        found.extend(sorted(row.order for row in rows))

    frame = spark.readStream.format("commitlog").option("messageTopic", "Refund")
    query = (
        frame.option("startingOffsets", "earliest")
        .load(str(log))
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(take)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert found == list(range(300))


@pytest.mark.parametrize("is_bound", [False, True])
def test_sealed_messages_need_a_key_of_the_environment(
    log: Path, monkeypatch: pytest.MonkeyPatch, is_bound: bool
) -> None:
    pytest.importorskip("cryptography")
    text = f"k1:{base64.b64encode(bytes(32)).decode()}"
    ring = topics.KeyRing.of_text(text)
    with commitlog.topic(log, Refund, name="sealed", keys=ring, seal_positions=is_bound) as sealed:
        position = sealed.append(Refund(7))
        sealed.log.flush()
    options = {
        "path": str(log),
        "decode": "true",
        "startingOffsets": f'{{"shop":{{"0":{position}}}}}',
    }
    message = StructType().add("topic", StringType()).add("json", StringType())
    reader = LogReader(options, StructType().add("message", message))

    def rows() -> list[Any]:
        parts = reader.partitions()
        return [row for part in parts for each in reader.read(part) for row in each[0].to_pylist()]

    monkeypatch.delenv("COMMITLOG_KEYS", raising=False)
    with pytest.raises(KeyUnavailableError, match="k1"):
        rows()
    monkeypatch.setenv("COMMITLOG_KEYS", text)
    assert rows() == [{"topic": "sealed", "json": '{"order": 7}'}]


def test_sealed_record_keys_are_opened(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography")
    text = f"k1:{base64.b64encode(bytes(32)).decode()}"
    ring = topics.KeyRing.of_text(text)
    with commitlog.topic(log, Refund, name="sealed", keys=ring, seal_keys=True) as sealed:
        position = sealed.append(Refund(7), key=b"lena")
        sealed.append(Refund(8))
        sealed.log.append(b"raw", key=b"raw")
        sealed.log.flush()
    options = {"path": str(log), "startingOffsets": f'{{"shop":{{"0":{position}}}}}'}
    schema = StructType().add("KEY", BinaryType())

    def keys(decode: str) -> list[Any]:
        reader = FilteringReader({**options, "decode": decode}, schema)
        wanted = EqualTo(("key",), b"lena")
        assert list(reader.pushFilters([wanted])) == ([wanted] if decode == "true" else [])
        parts = reader.partitions()
        return [key for part in parts for each in reader.read(part) for key in each[0].to_pylist()]

    monkeypatch.delenv("COMMITLOG_KEYS", raising=False)
    with pytest.raises(KeyUnavailableError, match="k1"):
        keys("true")
    monkeypatch.setenv("COMMITLOG_KEYS", text)
    assert keys("true") == [b"lena", None, b"raw"]
    assert keys("false") == []


@pytest.mark.parametrize("chosen", [{"decode": "true"}, {"messageTopic": "sealed"}])
@pytest.mark.parametrize("is_archive", [False, True])
def test_forged_message_of_a_sealed_topic_is_refused(
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chosen: dict[str, str],
    is_archive: bool,
) -> None:
    pytest.importorskip("cryptography")
    text = f"k1:{base64.b64encode(bytes(32)).decode()}"
    with commitlog.topic(log, Refund, name="sealed") as plain:
        start = plain.append(Refund(6))
    with commitlog.topic(log, Refund, name="sealed", keys=topics.KeyRing.of_text(text)) as sealed:
        sealed.append(Refund(7))
        forged = forge(sealed.log, "sealed", b'{"order":9}')
        sealed.append(Refund(8))
        sealed.log.roll()
        sealed.log.append(b"other")
    monkeypatch.setenv("COMMITLOG_KEYS", text)
    place = archive(log, tmp_path / "archive") if is_archive else log
    name = place.name
    options = {"path": str(place), "startingOffsets": f'{{"{name}":{{"0":{start}}}}}', **chosen}

    def rows(**more: str) -> list[Any]:
        given = {**options, **more}
        message = StructType().add("topic", StringType()).add("json", StringType())
        column = StructType().add("message", message)
        if "messageTopic" in given:
            column = schema_with(given, with_headers=False)
        reader = LogReader(given, column)
        return [
            each
            for part in reader.partitions()
            for batch in reader.read(part)
            for each in batch.column(batch.schema.get_field_index("message")).to_pylist()
            if each is not None  # another record
        ]

    with pytest.raises(UndecodableError, match="not sealed") as caught:
        rows()
    assert caught.value.position == forged
    assert len(rows(onDamage="skip")) == 3


def test_wrong_value_of_decode_is_refused(spark: Any, log: Path) -> None:
    with pytest.raises((PythonException, AnalysisException), match="decode must be true or false"):
        read(spark, log, decode="yes").count()

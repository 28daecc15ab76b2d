"""The option `messageTopic`: the messages of one topic as a struct of Spark."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as f

import commitlog
from tests.spark.logs_in_spark import SIZE
from tests.topics.orders import Refund

Instant = Annotated[dt.datetime, msgspec.Meta(tz=True)]
WHEN = dt.datetime(2026, 5, 1, 12, 30, tzinfo=dt.UTC)


class Line(msgspec.Struct):
    item: str
    price: Decimal


class Former(msgspec.Struct):
    id: int
    note: str = ""
    lines: list[Line] = []


class Sale(msgspec.Struct):
    id: int
    at: Instant = WHEN
    lines: list[Line] = []
    gift: Line | None = None


TYPE = (
    "struct<id:bigint,at:timestamp,gift:struct<item:string,price:decimal(38,18)>,"
    "lines:array<struct<item:string,price:decimal(38,18)>>>"
)


def sale(number: int) -> Sale:
    return Sale(number, WHEN, [Line("lamp", Decimal("1.25"))], Line("bow", Decimal(number)))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of several segments with two versions of a topic, another topic and a raw record."""
    path = tmp_path / "shop"
    with commitlog.open(path, segment_size=SIZE) as opened:
        opened.append(b"raw" * 1000)
        former = commitlog.topic(opened, Former, name="sales")
        former.append(Former(0, "note", [Line("desk", Decimal(2))]), key=b"k")
        commitlog.topic(opened, Refund).append(Refund(5))
    with commitlog.open(path) as opened, commitlog.topic(opened, Sale, name="sales") as sales:
        sales.append_many([sale(number) for number in range(1, 200)])
    return path


def read(spark: Any, path: Path, **options: object) -> Any:
    given = {"messageTopic": "sales", **{name: str(each) for name, each in options.items()}}
    return spark.read.format("commitlog").options(**given).load(str(path))


def test_messages_of_a_topic_are_a_struct(spark: Any, log: Path) -> None:
    frame = read(spark, log, minPartitions=2)
    assert dict(frame.dtypes)["message"] == TYPE
    sales = frame.where("message is not null")
    assert sales.agg(f.sum("message.id")).first()[0] == sum(range(200))
    assert frame.where("message is null and type > 0").count() >= 2  # schemas, and the refund
    rows = {row.id: row for row in sales.select("message.*", "key").collect()}
    assert (rows[0].at, rows[0].gift, rows[0].key) == (None, None, b"k")
    assert rows[0].lines[0].price == Decimal(2)
    assert rows[7].at.timestamp() == WHEN.timestamp()
    assert (rows[7].gift.item, rows[7].gift.price) == ("bow", Decimal(7))
    prices = sales.select(f.explode("message.lines").alias("line")).agg(f.sum("line.price"))
    assert prices.first()[0] == Decimal(2) + 199 * Decimal("1.25")


def test_message_that_does_not_fit_is_refused_or_null(spark: Any, log: Path) -> None:
    with commitlog.open(log) as opened, commitlog.topic(opened, Sale, name="sales") as sales:
        sales.append(Sale(300, WHEN, [Line("dust", Decimal("1E-30"))]))
        sales.append(Sale(1 << 63, WHEN))
        sales.append(sale(301))
    with pytest.raises(PythonException, match="does not fit the type"):
        read(spark, log).select("message").collect()
    rows = read(spark, log, onDamage="skip").where("message is not null").select("message.id")
    assert sorted(row.id for row in rows.collect()) == [*range(200), 301]


def test_unknown_topic_is_refused_with_a_similar_name(spark: Any, log: Path) -> None:
    with pytest.raises(AnalysisException, match="did you mean 'sales'"):
        read(spark, log, messageTopic="sale")

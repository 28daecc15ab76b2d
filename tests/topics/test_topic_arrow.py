"""Messages as an Arrow table, by the schemas in the log."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import commitlog
from commitlog import topics
from commitlog.errors import InvalidOptionError, TopicNotFoundError, UndecodableError
from tests.topics.orders import Order, Refund


class Mixed(msgspec.Struct):
    value: int | str | list[int]


def test_table_has_a_struct_for_each_topic(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        log.append(b"no message")
        orders, refunds = commitlog.topic(log, Order), commitlog.topic(log, Refund, codec="msgpack")
        position = orders.append(Order(1), key=b"k", timestamp_ns=5)
        refunds.append(Refund(1))
        orders.append(Order(2))
        table = topics.to_arrow(log)
        assert table.column_names == [
            *("position", "sequence", "timestamp", "key", "topic", "message")
        ]
        assert table["topic"].to_pylist() == ["Order", "Refund", "Order"]
        first, second, third = table["message"].to_pylist()
        assert first["Order"]["amount"] == "12.50"
        assert (first["Order"]["id"], first["Refund"], third["Order"]["id"]) == (1, None, 2)
        assert second == {"Order": None, "Refund": {"order": 1}}
        assert table["position"][0].as_py() == position
        assert table["key"].to_pylist() == [b"k", None, None]
        assert topics.to_arrow(log, ["Refund"])["message"].to_pylist() == [{"Refund": {"order": 1}}]
        assert len(topics.to_arrow(log, start=table["position"][1].as_py())) == 2
        assert len(topics.to_arrow(log, end=table["position"][1].as_py())) == 1


def test_table_is_queried_by_fields(tmp_path: Path) -> None:
    import duckdb

    with commitlog.topic(tmp_path / "log", Order) as orders:
        orders.append_many([Order(n, "lamp" if n % 2 else "desk") for n in range(10)])
        found = topics.to_arrow(orders.log)
    assert isinstance(found, pa.Table)
    rows = duckdb.sql(
        'select count(*), max(message."Order".id) from found where message."Order".item = \'lamp\''
    )
    assert rows.fetchall() == [(5, 9)]


def test_polars_selects_messages_and_histories(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    with commitlog.open(tmp_path / "log") as log:
        orders, refunds = commitlog.topic(log, Order), commitlog.topic(log, Refund)
        orders.append_many([Order(n, "lamp" if n % 2 else "desk") for n in range(10)])
        position = log.last_position
        with orders.tailer(start=position) as tailer, tailer.reading():
            refunds.append(Refund(9))
        frame = polars.from_arrow(topics.to_arrow(log, history=True))
    order = polars.col("message").struct.field("Order")
    lamps = frame.filter(order.struct.field("item") == "lamp").select(order.struct.field("id"))
    assert lamps["id"].to_list() == [1, 3, 5, 7, 9]
    hops = frame.select(polars.col("history").struct.field("hops").drop_nulls().explode())["hops"]
    assert hops.struct.field("position").to_list() == [position]
    assert frame.filter(topic="Refund")["history"].struct.field("earlier").to_list() == [0]


def test_log_without_messages_is_an_empty_table(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        log.append(b"no message")
        assert topics.to_arrow(log).num_rows == 0


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["Order", "Refnd"], "the log has no topic 'Refnd': did you mean 'Refund'?"),
        (["xyz"], "the log has no topic 'xyz': it has Order, Refund"),
    ],
)
def test_unknown_topic_is_refused(tmp_path: Path, names: list[str], said: str) -> None:
    with commitlog.open(tmp_path / "log") as log:
        commitlog.topic(log, Order).append(Order(1))
        commitlog.topic(log, Refund).append(Refund(1))
        with pytest.raises(TopicNotFoundError) as caught:
            topics.to_arrow(log, names)
    assert caught.value.message == said
    assert caught.value.topic == names[-1]


def test_name_in_place_of_a_list_is_refused(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order) as orders:
        orders.append(Order(1))
        with pytest.raises(InvalidOptionError, match=r"list of names: use \['Order'\]"):
            topics.to_arrow(orders.log, "Order")
        with pytest.raises(InvalidOptionError, match=r"list of topics: use Topic\.tailer"):
            topics.tailer(orders)  # type: ignore[arg-type]


def test_messages_without_a_common_type_are_json(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Mixed) as mixed:
        mixed.append_many([Mixed(1), Mixed("a"), Mixed([1])])
        column = topics.to_arrow(mixed.log)["message"]
        assert [each["Mixed"] for each in column.to_pylist()] == [
            *('{"value": 1}', '{"value": "a"}', '{"value": [1]}')
        ]


def test_undecodable_message_raises(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order) as orders:
        number = orders.log.read(orders.append(Order(1))).type
        position = orders.log.append(b"{", type=number)
        with pytest.raises(UndecodableError) as caught:
            topics.to_arrow(orders.log)
        assert caught.value.position == position

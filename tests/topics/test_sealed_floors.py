"""Messages that are written without the keys of a sealed topic are refused by all its readers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog, topics
from commitlog.errors import UndecodableError
from commitlog.topics.authentication import Authentication
from commitlog.topics.catalog import FOLDER
from commitlog.topics.codec import codec_for
from commitlog.topics.decoding import MessageDecoder
from commitlog.topics.schema import SCHEMA_TYPE, Schema
from tests.topics.forged import forge, repeat
from tests.topics.orders import Order, Refund, records
from tests.topics.sealed import OLD, RING, orders_of
from tests.topics.test_sealed_copies import archived

pytest.importorskip("cryptography")
FORGED = b'{"id":9}'


@pytest.fixture(params=["log", "copy without topics", "archive"])
def mixed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a log with messages 0 (not sealed), 1 (sealed) and 9 (forged), each in a segment."""
    path = tmp_path / "log"
    with commitlog.topic(path, Order, segment_size="64KiB") as orders:
        orders.append(Order(0))
        orders.log.roll()
    with commitlog.topic(path, Order, keys=RING) as orders:
        orders.append(Order(1))
        orders.log.roll()
        orders.append(Order(1))
        forge(orders.log, "Order", FORGED)
        orders.log.roll()
        orders.log.append(b"other")
    if request.param == "copy without topics":
        shutil.rmtree(path / FOLDER)
    if request.param == "archive":
        with commitlog.open(path) as log:
            archived(log, tmp_path / "archive")
        return tmp_path / "archive"
    return path


def ids(tailer: Any) -> list[int]:
    return [order.id for order in tailer]


def test_tailer_refuses_forged_and_reads_earlier_messages(mixed: Path) -> None:
    with commitlog.topic(mixed, Order, keys=RING, mode="r") as orders:
        tailer = orders.tailer(on_undecodable="skip")
        assert ids(tailer) == [0, 1, 1]
        assert tailer.undecodable == 1
        tailer.seek("first")
        with pytest.raises(UndecodableError, match="not sealed, and the topic was sealed before"):
            list(orders.tailer())


def test_arrow_refuses_forged_and_reads_earlier_messages(mixed: Path) -> None:
    with commitlog.open(mixed, "r") as log:
        forged = [record.position for record in records(log) if record.value == FORGED]
        with pytest.raises(UndecodableError, match="not authentic") as caught:
            topics.to_arrow(log, keys=RING)
        assert [caught.value.position] == forged
        found = topics.to_arrow(log, keys=RING, end=forged[0])
        assert [each["Order"]["id"] for each in found["message"].to_pylist()] == [0, 1, 1]
        with pytest.raises(UndecodableError, match="not authentic"):
            topics.to_arrow(log, keys=RING, start=forged[0])


def test_verify_counts_forged_messages_as_refused(mixed: Path) -> None:
    with commitlog.open(mixed, "r") as log:
        found = Authentication(log, RING)
        assert (found.authentic, found.refused) == (2, 1)
        assert "it is not sealed" in found.problems[0]


def test_reader_without_keys_reads_what_is_not_sealed(mixed: Path) -> None:
    with commitlog.open(mixed, "r") as log:
        end = next(record.position for record in records(log) if record.value == FORGED)
        (row,) = topics.to_arrow(log, start=end)["message"].to_pylist()
        assert (row["Order"]["id"], row["Order"]["item"]) == (9, "lamp")  # the rest has defaults


def test_method_reader_refuses_forged_calls(tmp_path: Path) -> None:
    class Shop:
        def __init__(self) -> None:
            self.sales: list[int] = []

        def sold(self, number: int) -> None:
            self.sales.append(number)

    shop = Shop()
    with commitlog.open(tmp_path / "log") as log:
        commitlog.method_writer(log, Shop).sold(0)
    with commitlog.open(tmp_path / "log") as log:
        reader = commitlog.method_reader(log, shop, keys=RING)
        assert reader.run(timeout=0) == 1  # before the topic is sealed
        commitlog.method_writer(log, Shop, keys=RING).sold(1)
        position = forge(log, "sold", b"\x91\x09")
        with pytest.raises(UndecodableError, match="not sealed") as caught:
            reader.run(timeout=0)
        assert caught.value.position == position
        assert shop.sales == [0, 1]
        with commitlog.method_reader(log, shop, keys=RING) as reader:
            assert reader.read_one()
            assert reader.read_one()
            with pytest.raises(UndecodableError, match="not sealed"):
                reader.read_one()
        assert shop.sales == [0, 1, 0, 1]


def test_topic_sealed_from_its_first_message_never_takes_others(log: CommitLog) -> None:
    """A message that is put in front of all sealed ones is refused, too."""
    orders = orders_of(log)
    plain = Schema("Order", "json", codec_for(Order, None).form)
    log.append(plain.value, key=plain.key, type=SCHEMA_TYPE)
    log.append(FORGED, type=plain.number)
    orders.append(Order(1))
    tailer = orders.tailer(on_undecodable="skip")
    assert (ids(tailer), tailer.undecodable) == ([1], 1)


def test_earlier_message_repeated_behind_bound_ones_is_refused(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order, keys=RING) as orders:
        orders.append(Order(0))
    with commitlog.topic(tmp_path / "log", Order, keys=RING, seal_positions=True) as orders:
        orders.append(Order(1))
        repeat(orders.log)
        reading = orders_of(orders.log).tailer(on_undecodable="skip")
        assert (ids(reading), reading.undecodable) == ([0, 1], 1)
        with pytest.raises(UndecodableError, match="not sealed for its position"):
            topics.to_arrow(orders.log, keys=RING)
        assert Authentication(orders.log, RING).refused == 1


def test_forged_message_is_refused_after_retention(tmp_path: Path) -> None:
    """The first sealed schema is deleted, and nothing sealed is in front of the message."""
    path = tmp_path / "log"
    with commitlog.topic(path, Order, segment_size="64KiB") as orders:
        orders.append(Order(0))
    with commitlog.topic(path, Order, keys=RING) as orders:
        orders.append(Order(1))
        orders.log.roll()
        position = forge(orders.log, "Order", FORGED)
        orders.append(Order(2))
        for _ in range(3):
            orders.log.roll()
            orders.append(Order(3))
        orders.log.flush()
        orders.log.delete_before(position)
        assert orders.log.first_position > 0
        tailer = orders.tailer(on_undecodable="skip")
        assert (ids(tailer), tailer.undecodable) == ([2, 3, 3, 3], 1)


def test_earlier_messages_are_read_after_retention(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with commitlog.topic(path, Order, segment_size="64KiB") as orders:
        for number in range(4):
            orders.append(Order(number))
            orders.log.roll()
    with commitlog.topic(path, Order, keys=RING) as orders:
        orders.append(Order(4))
        orders.log.flush()
        orders.log.delete_before(2 * orders.log.segment_size)
        assert ids(orders.tailer()) == [2, 3, 4]
        found = Authentication(orders.log, RING)
        assert (found.authentic, found.refused) == (1, 0)


@pytest.mark.parametrize("is_skipped", [False, True])
def test_live_tailer_refuses_forged_messages(tmp_path: Path, is_skipped: bool) -> None:
    path = tmp_path / "log"
    with commitlog.topic(path, Order) as orders:
        orders.append(Order(0))
    with commitlog.topic(path, Order, keys=RING, mode="r") as live:
        tailer = live.tailer(on_undecodable="skip")
        assert tailer.read() == Order(0)
        with orders_of(commitlog.open(path)).log as log:
            orders_of(log).append(Order(1))
            log.flush()
            if is_skipped:  # the tailer reads no record of the sealed messages
                tailer.seek("end")
            forge(log, "Order", FORGED)
            log.flush()
            assert ids(tailer) == [1][is_skipped:]
            assert tailer.undecodable == 1


def test_live_tailer_refuses_repeats_once_a_topic_is_bound(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with commitlog.topic(path, Order, keys=RING) as orders:
        orders.append(Order(0))
    with commitlog.topic(path, Order, keys=RING, mode="r") as live:
        tailer = live.tailer(on_undecodable="skip")
        assert ids(tailer) == [0]
        with commitlog.topic(path, Order, keys=RING, seal_positions=True) as orders:
            orders.append(Order(1))
            repeat(orders.log)
            orders.log.flush()
            assert (ids(tailer), tailer.undecodable) == ([1], 1)


def test_schema_that_was_passed_first_counts_without_the_folder(mixed: Path) -> None:
    """The forged message is the first one that is decoded."""
    with commitlog.open(mixed, "r") as log:
        decoder = MessageDecoder(log, keys=RING)
        *passed, forged = (
            (at.type, at.value, at.position, at.key)
            for at in records(log, log.segment_size * 2)
            if at.type == SCHEMA_TYPE or at.value == FORGED
        )
        for record in passed:
            decoder.decode(*record)
        with pytest.raises(UndecodableError, match="not sealed"):
            decoder.decode(*forged)


def test_live_decoding_refuses_forged_messages(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with commitlog.topic(path, Order) as orders:
        orders.append(Order(0))
    with commitlog.open(path) as log:
        decoder = MessageDecoder(log, keys=RING)
        tailer = log.tailer()

        def decoded() -> list[Any]:
            each = [decoder.decode(at.type, at.value, at.position, at.key) for at in tailer]
            return [found.message["id"] for found in each if found is not None]

        assert decoded() == [0]
        orders_of(log).append(Order(1))
        assert decoded() == [1]
        forge(log, "Order", FORGED)
        with pytest.raises(UndecodableError, match="not sealed"):
            decoded()


@pytest.mark.parametrize("options", [{}, {"compress": "zstd"}, {"seal_keys": True}])
def test_other_topics_of_the_log_are_read(log: CommitLog, options: Any) -> None:
    refunds = commitlog.topic(log, Refund)
    orders = commitlog.topic(log, Order, keys=RING, **options)
    for number in range(3):
        orders.append(Order(number), key=b"lena")
        refunds.append(Refund(number))
    found = list(commitlog.topic(log, Refund, keys=RING).tailer())
    assert [refund.order for refund in found] == ids(orders.tailer()) == [0, 1, 2]


def test_unsealed_topic_has_plain_decoders(log: CommitLog) -> None:
    """So its messages are read as fast by readers that have keys."""
    orders = commitlog.topic(log, Order)
    orders.append(Order(1))
    tailer = commitlog.topic(log, Order, keys=RING).tailer()
    assert ids(tailer) == [1]
    assert not tailer._decoders.of_records


def test_forged_schema_hides_earlier_messages_only(tmp_path: Path) -> None:
    """A forged schema can make messages unreadable, which deleting them can, too."""
    path = tmp_path / "log"
    with commitlog.topic(path, Order) as orders:
        orders.append(Order(0))
    with commitlog.topic(path, Order, keys=RING) as orders:
        orders.append(Order(1))
        for since in (0, 1 << 62, -1, "0", None, True):
            layer = {"name": "aes-256-gcm", "since": since}
            schema = Schema("Order", "json", {}, layers=(layer,))
            orders.log.append(schema.value, key=schema.key, type=SCHEMA_TYPE)
        forge(orders.log, "Order", FORGED)
        tailer = orders.tailer(on_undecodable="skip")
        assert (ids(tailer), tailer.undecodable) == ([0, 1], 1)
        tailer.seek("first")
        assert (ids(tailer), tailer.undecodable) == ([1], 3)


def test_keys_of_the_environment_refuse_forged_messages(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMITLOG_KEYS", OLD)
    with commitlog.topic(mixed, Order, mode="r") as orders:
        tailer = orders.tailer(on_undecodable="skip")
        assert (ids(tailer), tailer.undecodable) == ([0, 1, 1], 1)

"""Messages sealed for their positions: read where they were appended, and refused elsewhere."""

from __future__ import annotations

import asyncio
import base64
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog, Record, topics
from commitlog.errors import (
    ConflictError,
    InvalidOptionError,
    RecordTypeError,
    UndecodableError,
)
from commitlog.topics.authentication import Authentication
from commitlog.topics.catalog import FOLDER
from commitlog.topics.data_key import DataKey
from commitlog.topics.schema import SCHEMA_TYPE, Schema
from tests.copies import copy_log
from tests.topics.orders import Order, Refund, records
from tests.topics.sealed import NEW, OLD, RING, messages

pytest.importorskip("cryptography")
KeyRing = topics.KeyRing
SEGMENT = "64KiB"


def binding(log: CommitLog | Path, message_class: type = Order, **options: Any) -> Any:
    chosen = {"keys": RING, "seal_positions": True, **options}
    return commitlog.topic(log, message_class, **chosen)


def ids(topic: Any) -> list[int]:
    return [order.id for order in topic.tailer()]


def put(log: CommitLog, record: Record, **changed: Any) -> int:
    """Append the bytes of a record, as a program that has no key can."""
    given = {"key": record.key, "type": record.type, **changed}
    return log.append(record.value, **given)


# --- messages that are read -----------------------------------------------------------------------


@pytest.fixture(params=[False, True])
def pool(request: pytest.FixtureRequest) -> Iterator[commitlog.TransientStorePool | None]:
    if not request.param:
        yield None
        return
    with commitlog.TransientStorePool(buffers=3, buffer_size=SEGMENT) as made:
        yield made


@pytest.mark.parametrize("options", [{}, {"seal_keys": True}, {"compress": "zstd"}])
def test_bound_messages_are_read_however_appended(
    tmp_path: Path, pool: commitlog.TransientStorePool | None, options: Any
) -> None:
    with binding(tmp_path / "log", segment_size=SEGMENT, pool=pool, **options) as orders:
        positions = [orders.append(Order(0)), orders.append(Order(1), key=b"lena", sync=True)]
        positions += [asyncio.run(orders.append_async(Order(2), key=b""))]
        positions += orders.append_many([Order(3), Order(4)], keys=[None, b"omar"]).tolist()
        positions += [orders.append(Order(5), expect=orders.log.count())]
        positions += orders.append_many([Order(6)] * 2, expect=orders.log.count()).tolist()
        positions += orders.append_many([Order(7, "x" * 300) for _ in range(900)]).tolist()
        orders.log.flush()  # a reader of a pooled log sees what is committed
        assert ids(orders) == [0, 1, 2, 3, 4, 5, 6, 6, *[7] * 900]
        assert [record.position for record in messages(orders.log)] == positions
        authentication = Authentication(orders.log, RING)
        assert (authentication.authentic, authentication.refused) == (908, 0)
        table = topics.to_arrow(orders.log, keys=RING)
        assert table["position"].to_pylist() == positions
    with commitlog.topic(tmp_path / "log", Order, keys=RING, mode="r") as orders:
        assert ids(orders) == [0, 1, 2, 3, 4, 5, 6, 6, *[7] * 900]


def test_bound_calls_and_outputs_are_read(tmp_path: Path) -> None:
    class Shop:
        def sold(self, number: int) -> None: ...

    class Service:
        def sold(self, number: int) -> None:
            shop.sold(-number)
            orders.append(Order(number), key=b"lena")
            orders.append_many([Order(number + 1), Order(number + 2)])

    with commitlog.open(tmp_path / "in") as source, binding(tmp_path / "out") as orders:
        calls = commitlog.method_writer(source, Shop, keys=RING, seal_positions=True)
        shop = commitlog.method_writer(orders.log, Shop, keys=RING, seal_positions=True)
        for number in (4, 8):
            calls.sold(number)
        with commitlog.method_reader(
            source, Service(), after_last_written=orders.log, keys=RING
        ) as reader:
            reader.run(timeout=0)
        assert ids(orders) == [4, 5, 6, 8, 9, 10]
        assert Authentication(orders.log, RING).authentic == 8
        moved = messages(source)[0]
        put(source, moved)
        assert Authentication(source, RING).refused == 1


# --- messages that are refused --------------------------------------------------------------------


def test_repeated_message_is_refused(log: CommitLog) -> None:
    orders = binding(log)
    orders.append(Order(1), key=b"lena")
    orders.append(Order(2))
    for record in messages(log):
        put(log, record)
    log.roll()
    put(log, messages(log)[0])
    tailer = orders.tailer(on_undecodable="skip")
    assert [order.id for order in tailer] == [1, 2]
    assert tailer.undecodable == 3
    assert Authentication(log, RING).refused == 3
    position = messages(log)[2].position
    with pytest.raises(UndecodableError, match="another log, topic, key or position") as caught:
        orders.tailer(start=position).read()
    assert caught.value.position == position
    with pytest.raises(UndecodableError, match="not authentic"):
        topics.to_arrow(log, keys=RING)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, list[Record]]:
    """Return a log without its last two messages, which are equally long, and these messages."""
    with binding(tmp_path / "log") as orders:
        orders.append(Order(1))
    copy_log(tmp_path / "log", tmp_path / "cut")
    with binding(tmp_path / "log", mode="a") as orders:
        orders.append(Order(2))
    shutil.rmtree(tmp_path / "cut")
    copy_log(tmp_path / "log", tmp_path / "cut")
    with binding(tmp_path / "log") as orders:
        head = len(records(orders.log))
        orders.append_many([Order(3), Order(4)])
        appended = records(orders.log)[head:]
    with commitlog.open(tmp_path / "cut") as log:
        for record in appended[:-2]:  # the schema and the data key
            assert put(log, record) == record.position
    return tmp_path / "cut", appended[-2:]


def test_swapped_messages_are_refused(pair: tuple[Path, list[Record]]) -> None:
    path, (third, fourth) = pair
    with binding(path) as orders:
        assert put(orders.log, fourth) == third.position
        assert put(orders.log, third) == fourth.position
        tailer = orders.tailer(on_undecodable="skip")
        assert [order.id for order in tailer] == [1, 2]
        assert tailer.undecodable == 2


def test_message_at_its_own_place_is_read(pair: tuple[Path, list[Record]]) -> None:
    path, (third, fourth) = pair
    with binding(path) as orders:
        assert put(orders.log, third) == third.position
        assert put(orders.log, fourth) == fourth.position
        assert ids(orders) == [1, 2, 3, 4]


def test_deleted_message_is_not_noticed(pair: tuple[Path, list[Record]]) -> None:
    path, (third, fourth) = pair
    with binding(path) as orders:
        assert put(orders.log, third, type=1) == third.position
        assert put(orders.log, fourth) == fourth.position
        assert ids(orders) == [1, 2, 4]
        assert Authentication(orders.log, RING).refused == 0


def test_earlier_message_is_refused_if_option_is_given(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order, keys=RING) as earlier:
        earlier.append(Order(1))
    with binding(tmp_path / "log") as orders:
        orders.append(Order(2))
        assert ids(commitlog.topic(orders.log, Order, keys=RING)) == [1, 2]
        tailer = orders.tailer(on_undecodable="skip")
        assert [order.id for order in tailer] == [2]
        assert tailer.undecodable == 1
        with pytest.raises(UndecodableError, match="not sealed for its position"):
            orders.tailer().read()


# --- what is refused at the call ------------------------------------------------------------------


def test_producer_is_refused_and_appends_nothing(log: CommitLog) -> None:
    orders = binding(log)
    with pytest.raises(InvalidOptionError, match="seal_positions=True, so producer= is refused"):
        orders.append(Order(1), producer="till", producer_sequence=1)
    with pytest.raises(InvalidOptionError, match="seal_positions=True, so producer= is refused"):
        asyncio.run(orders.append_async(Order(1), producer="till", producer_sequence=1))
    assert log.count() == 0


def test_unusable_choices_append_nothing(log: CommitLog) -> None:
    with pytest.raises(InvalidOptionError, match="seal_positions=True needs keys="):
        commitlog.topic(log, Order, seal_positions=True)
    orders = binding(log)
    with pytest.raises(RecordTypeError, match="the key must be bytes, not str"):
        orders.append(Order(1), key="lena")
    with pytest.raises(RecordTypeError, match="the key must be bytes, not str"):
        orders.append_many([Order(1)], keys=["lena"])
    with pytest.raises(ConflictError):
        orders.append(Order(1), expect=7)
    with pytest.raises(ConflictError):
        orders.append_many([Order(1), Order(2)], expect=7)
    assert log.count() == 0


def test_topic_that_binds_stays_so_in_every_handle(tmp_path: Path) -> None:
    with binding(tmp_path / "log", seal_positions=False) as orders:
        orders.append(Order(0))
    with binding(tmp_path / "log") as orders:
        orders.append(Order(1))
    shutil.rmtree(tmp_path / "log" / FOLDER)  # the records are the truth
    both = KeyRing.of_text(f"{OLD}\n{NEW}")
    with binding(tmp_path / "log", keys=both, seal_positions=False) as orders:
        orders.append(Order(2))
        orders.log.roll()
        orders.append(Order(3))
        assert ids(orders) == [0, 1, 2, 3]
        for record in messages(orders.log):
            put(orders.log, record)
        tailer = orders.tailer(on_undecodable="skip")
        # Behind the first bound message, those from before it are refused, too.
        assert [order.id for order in tailer] == [0, 1, 2, 3]
        assert tailer.undecodable == 4


# --- other appends in between ---------------------------------------------------------------------


def overtaken(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any], times: int) -> list[int]:
    """Do something before each of the next seals, after the end of the log was looked at; return
    the positions that messages are sealed for.
    """
    sealed = DataKey.seal_at
    asked: list[int] = []

    def hooked(self: DataKey, value: bytes, key: Any, position: int, nonce: bytes) -> bytes:
        asked.append(position)
        if len(asked) <= times:
            act()
        return sealed(self, value, key, position, nonce)

    monkeypatch.setattr(DataKey, "seal_at", hooked)
    return asked


@pytest.mark.parametrize("times", [0, 1, 7, 8, 100])
@pytest.mark.parametrize("is_begun", [False, True])
def test_overtaken_append_is_sealed_for_its_new_place(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch, times: int, is_begun: bool
) -> None:
    orders = binding(log)
    if is_begun:
        orders.append(Order(0))
    with commitlog.open(log.path) as other:
        asked = overtaken(monkeypatch, lambda: other.append(b"other"), times)
        position = orders.append(Order(1))
    assert position == asked[-1] == messages(log)[-1].position
    # After some attempts, a range is claimed, which nothing overtakes.
    assert len(asked) == min(times, 8) + 1
    assert ids(orders) == [0, 1][not is_begun :]
    assert len(set(asked)) == len(asked)


def test_overtaken_list_has_all_messages_once(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = binding(log)
    with commitlog.open(log.path) as other:
        overtaken(monkeypatch, lambda: other.append(b"other"), 1000)
        orders.append_many([Order(number, "x" * 200) for number in range(2000)])
        asyncio.run(orders.append_async(Order(2000)))
    assert ids(orders) == list(range(2001))


@pytest.mark.parametrize("is_expected", [False, True])
def test_rolled_segment_gives_a_new_place(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch, is_expected: bool
) -> None:
    orders = binding(log)
    orders.append(Order(0))
    expect = log.count() if is_expected else None
    with commitlog.open(log.path) as other:
        asked = overtaken(monkeypatch, other.roll, 2)
        position = orders.append(Order(1), expect=expect)
    assert position == asked[-1] == messages(log)[1].position > 2 * log.segment_size
    assert ids(orders) == [0, 1]


def test_overtaken_expectation_is_a_conflict(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = binding(log)
    orders.append(Order(0))
    end = log.count()
    with commitlog.open(log.path) as other:
        asked = overtaken(monkeypatch, lambda: other.append(b"other"), 1)
        with pytest.raises(ConflictError) as caught:
            orders.append(Order(1), expect=end)
    assert (caught.value.expected, caught.value.actual, len(asked)) == (end, end + 1, 2)
    assert ids(orders) == [0]
    orders.append(Order(1), expect=end + 1)
    assert ids(orders) == [0, 1]


@pytest.mark.parametrize("at", [1, 9])
def test_interrupted_seal_appends_nothing(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Before the append, and while a range is claimed."""
    orders = binding(log)
    orders.append(Order(0))

    def act() -> None:
        if len(asked) == at:
            raise KeyboardInterrupt
        other.append(b"other")

    with commitlog.open(log.path) as other, monkeypatch.context() as patch:
        asked = overtaken(patch, act, at)
        with pytest.raises(KeyboardInterrupt):
            orders.append(Order(1))
    orders.append(Order(2), sync=True)
    assert ids(orders) == [0, 2]
    assert log.count() == len(records(log))


def test_threads_append_at_once(tmp_path: Path, pool: commitlog.TransientStorePool | None) -> None:
    with binding(tmp_path / "log", segment_size=SEGMENT, pool=pool) as orders:

        def work(first: int) -> None:
            for number in range(first, first + 100):
                orders.append(Order(number, "x" * 200))
            orders.append_many([Order(number) for number in range(first + 100, first + 300)])

        threads = [threading.Thread(target=work, args=(each * 300,)) for each in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        orders.log.flush()
        assert sorted(ids(orders)) == list(range(1200))


def test_child_of_a_fork_appends(log: CommitLog, in_child: Callable[..., Any]) -> None:
    orders = binding(log)
    orders.append(Order(1))
    in_child(lambda: orders.append(Order(2)))
    orders.append(Order(3))
    assert ids(orders) == [1, 2, 3]


def test_dropped_message_has_no_position(tmp_path: Path) -> None:
    with binding(tmp_path / "log", on_lag="drop") as orders:
        tailer = orders.log.tailer("billing", required=True, max_lag=9000, visibility="appended")
        positions = [orders.append(Order(number, "x" * 200)) for number in range(100)]
        assert -1 in positions
        assert (orders.append_many([Order(1)] * 2) == -1).all()
        assert asyncio.run(orders.append_async(Order(1))) == -1
        appended = [number for number, position in enumerate(positions) if position >= 0]
        assert ids(orders) == appended
        assert tailer.dropped_records == 100 - len(appended) + 3


def test_layer_of_a_newer_release_is_refused(log: CommitLog) -> None:
    layer = {"name": "aes-256-gcm", "positions": 2}
    schema = Schema("Order", "json", {}, layers=(layer,))
    log.append(schema.value, key=schema.key, type=SCHEMA_TYPE)
    log.append(base64.b64decode("AAAA"), type=schema.number)
    with pytest.raises(UndecodableError, match="does not know the layers"):
        commitlog.topic(log, Refund, name="Order", codec="json").tailer().read()

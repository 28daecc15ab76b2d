"""Sealed topics: who reads them, what keeps them apart, and what damage does."""

from __future__ import annotations

import asyncio
import base64
import copy
import os
import pickle
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import topics
from commitlog.errors import (
    ConflictError,
    InvalidOptionError,
    IOFailureError,
    KeyUnavailableError,
    MissingExtraError,
    RecordTypeError,
    UndecodableError,
)
from commitlog.messages import sealer
from commitlog.messages.cipher import NONCE_BYTES
from commitlog.messages.data_key import HEAD_BYTES, ID_BYTES
from commitlog.messages.key_ring import VARIABLE
from commitlog.messages.schema import SCHEMA_TYPE, is_message_type
from commitlog.topics import KeyRing
from tests.messages.orders import Order, ended, records, run

pytest.importorskip("cryptography")
SEGMENT = "64KiB"
OLD = "2025:" + base64.b64encode(bytes(range(32))).decode()
NEW = "2026:" + base64.b64encode(bytes(range(32, 64))).decode()
RING = KeyRing.of_text(OLD)


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as opened:
        yield opened


def messages(log: commitlog.CommitLog) -> list[commitlog.Record]:
    return [record for record in records(log) if is_message_type(record.type)]


def data_keys(log: commitlog.CommitLog) -> list[commitlog.Record]:
    found = [record for record in records(log) if record.type == SCHEMA_TYPE]
    return [record for record in found if (record.key or b"").startswith(b"datakey:")]


def orders_of(log: commitlog.CommitLog, keys: KeyRing | None = RING) -> topics.Topic[Order]:
    return commitlog.topic(log, Order, keys=keys)


# --- appending and reading ------------------------------------------------------------------------


def test_sealed_messages_are_read_and_not_seen(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order, keys=RING) as orders:
        orders.append(Order(1, "secret lamp"), key=b"lena")
        orders.append_many([Order(2, "secret desk"), Order(3)], keys=[None, b"omar"])
        assert [order.id for order in orders.tailer()] == [1, 2, 3]
    with commitlog.topic(tmp_path / "log", Order, keys=RING, mode="r") as orders:
        tailer = orders.tailer()
        assert tailer.read() == Order(1, "secret lamp")
        assert tailer.record is not None
        assert tailer.record.key == b"lena"
    for path in (tmp_path / "log").rglob("*"):
        assert path.is_dir() or b"secret" not in path.read_bytes()


def test_async_appends_are_sealed(log: commitlog.CommitLog) -> None:
    orders = orders_of(log)

    async def append_and_read() -> list[Order]:
        for number in range(3):
            await orders.append_async(Order(number), key=b"k")
        return [each async for each in orders.tailer().follow(timeout=0)]

    assert asyncio.run(append_and_read()) == [Order(0), Order(1), Order(2)]


def test_topic_with_sealed_messages_stays_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with commitlog.topic(tmp_path / "log", Order) as orders:
        orders.append(Order(1))
    with commitlog.topic(tmp_path / "log", Order, keys=RING) as orders:
        orders.append(Order(2))
    with commitlog.topic(tmp_path / "log", Order) as orders:
        for act in (lambda: orders.append(Order(3)), lambda: orders.append_many([Order(3)])):
            with pytest.raises(KeyUnavailableError, match="give keys=") as caught:
                act()
            assert caught.value.path == orders.log.path
        assert len(messages(orders.log)) == 2
    monkeypatch.setenv(VARIABLE, OLD)
    with commitlog.topic(tmp_path / "log", Order) as orders:
        orders.append(Order(3))
        assert [order.id for order in orders.tailer()] == [1, 2, 3]
        assert len(messages(orders.log)[2].value) > HEAD_BYTES + len(messages(orders.log)[0].value)


def test_environment_seals_no_topic_by_itself(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, OLD)
    orders_of(log, None).append(Order(1))
    assert messages(log)[0].value.startswith(b"{")


def test_each_segment_is_read_alone(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order, keys=RING, segment_size=SEGMENT) as orders:
        for number in range(400):
            orders.append(Order(number, "x" * 200))
        orders.append_many([Order(number, "x" * 200) for number in range(400, 1000)])
        orders.append(Order(1000), expect=orders.log.count())
    found = []
    paths = sorted((tmp_path / "log").glob("*.seg"))
    for path in paths:
        with commitlog.open(path, "r") as log:
            if log.count():
                found += [order.id for order in orders_of(log).tailer()]
    assert found == list(range(1001))
    assert len(paths) > 4


def test_data_key_is_new_for_each_segment_and_handle(tmp_path: Path) -> None:
    for _ in range(2):
        with commitlog.topic(tmp_path / "log", Order, keys=RING, segment_size=SEGMENT) as orders:
            for number in range(300):
                orders.append(Order(number, "x" * 200))
    with commitlog.open(tmp_path / "log", "r") as log:
        used = [record.value[:ID_BYTES] for record in messages(log)]
        declared = [record.key for record in data_keys(log)]
    segments = len(list((tmp_path / "log").glob("*.seg")))
    assert len(set(used)) == len(declared) == len(set(declared))
    assert segments - 1 <= len(set(used)) <= segments + 2


def test_list_with_expect_has_its_data_key_before_it(log: commitlog.CommitLog) -> None:
    orders = orders_of(log)
    large = [Order(number, "x" * 3700) for number in range(2)]
    orders.append_many(large, expect=0)
    assert [record.type == SCHEMA_TYPE for record in records(log)] == [True, True, False, False]
    assert list(orders.tailer()) == large
    with pytest.raises(ConflictError):
        orders.append(Order(3), expect=0)
    orders.append(Order(3), expect=4)


def test_process_that_begins_a_segment_keeps_messages_readable(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order, keys=RING, segment_size=SEGMENT) as orders:
        orders.append(Order(1))
        with commitlog.open(tmp_path / "log") as other:
            other.roll()
        orders.append(Order(2))
        orders.append(Order(3))
        assert [order.id for order in orders.tailer()] == [1, 2, 3]
    path = sorted((tmp_path / "log").glob("*.seg"))[1]
    with commitlog.open(path, "r") as log:
        assert [order.id for order in orders_of(log).tailer()] == [2, 3]


def test_data_key_that_only_an_earlier_segment_has_is_found(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill between a message and the records of its new segment."""
    orders = orders_of(log)
    orders.append(Order(1))
    monkeypatch.setattr("commitlog.messages.appender.TopicAppender.declare_behind", lambda *_: None)
    log.roll()
    position = orders.append(Order(2))
    assert position >= log.segment_size
    assert len(data_keys(log)) == 1
    assert list(orders.tailer(start=position)) == [Order(2)]


def test_dropped_data_key_is_appended_again(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a pooled log whose appends are dropped while no buffer is free."""
    orders = orders_of(log)
    append_many = commitlog.CommitLog.append_many

    def dropping(self: commitlog.CommitLog, values: list[bytes], **options: Any) -> Any:
        given = {name: options[name][2:] for name in ("keys", "types")}
        positions = append_many(self, values[2:], **{**options, **given})
        return [-1, -1, *positions]

    def dropped(*_: Any, **__: Any) -> int:
        return -1

    with monkeypatch.context() as patch:
        patch.setattr(commitlog.CommitLog, "append_many", lambda *a, **o: _array(dropping(*a, **o)))
        patch.setattr(commitlog.CommitLog, "append", dropped)
        orders.append(Order(1))
    assert data_keys(log) == []
    orders.append(Order(2))
    assert list(orders.tailer()) == [Order(1), Order(2)]


def _array(positions: list[int]) -> Any:
    import numpy as np

    return np.array(positions, dtype=np.int64)


def test_outputs_with_a_history_are_sealed(tmp_path: Path) -> None:
    class Service:
        def sold(self, number: int) -> None:
            orders.append(Order(number), key=b"k")
            orders.append_many([Order(number + 1), Order(number + 2)])

    class Shop:
        def sold(self, number: int) -> None: ...

    with (
        commitlog.open(tmp_path / "in") as source,
        commitlog.topic(tmp_path / "out", Order, keys=RING) as orders,
    ):
        commitlog.method_writer(source, Shop).sold(4)
        with commitlog.method_reader(source, Service(), after_last_written=orders.log) as reader:
            assert reader.read_one()
        tailer = orders.tailer()
        for number in range(4, 7):
            assert tailer.read() == Order(number)
            assert tailer.history is not None
        assert len(data_keys(orders.log)) == 1


def test_methods_are_sealed(log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch) -> None:
    class Shop:
        total = 0

        def sold(self, item: str, amount: int) -> None:
            self.total += amount

    class Closed:
        async def closed(self) -> None: ...

    shop = commitlog.method_writer(log, Shop, keys=RING)
    shop.sold("secret", 3)
    commitlog.method_writer(log, Shop, keys=RING).sold("secret", amount=4)
    assert not any(b"secret" in record.value for record in messages(log))
    impl = Shop()
    with commitlog.method_reader(log, impl, keys=RING) as reader:
        assert reader.run(timeout=0) == 2
    assert impl.total == 7
    unknown: list[Any] = []
    with commitlog.method_reader(
        log, Closed(), on_unknown=lambda *call: unknown.append(call), keys=RING
    ) as reader:
        asyncio.run(reader.run_async(timeout=0))
    assert unknown[0] == ("sold", {"item": "secret", "amount": 3})
    with commitlog.method_reader(log, impl) as reader:
        for _ in range(2):
            with pytest.raises(KeyUnavailableError, match="2025") as caught:
                reader.read_one()
            assert caught.value.position == messages(log)[0].position
        monkeypatch.setenv(VARIABLE, OLD)
    with commitlog.method_reader(log, impl) as reader:
        assert reader.run(timeout=0) == 2


def test_fork_takes_a_new_data_key(log: commitlog.CommitLog) -> None:
    orders = orders_of(log)
    orders.append(Order(1))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            orders.append(Order(2))
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    orders.append(Order(3))
    assert [order.id for order in orders.tailer()] == [1, 2, 3]
    first, second, third = (record.value[:ID_BYTES] for record in messages(log))
    assert first == third != second


# --- nonces ---------------------------------------------------------------------------------------

WRITER = """
from commitlog.topics import KeyRing
ring = KeyRing.of_text(sys.argv[2])
with commitlog.topic(sys.argv[1], Order, keys=ring, segment_size="64KiB") as orders:
    for number in range(300):
        orders.append(Order(number, "x" * 100))
    orders.append_many([Order(number, "x" * 100) for number in range(300)])
    orders.log.flush()
    if len(sys.argv) > 3:
        os._exit(0)
"""


def sealed_heads(path: Path) -> list[bytes]:
    """The data key and the nonce of each message."""
    with commitlog.open(path, "r") as log:
        return [record.value[:HEAD_BYTES] for record in messages(log)]


def test_no_nonce_repeats_after_kills_copies_and_restores(tmp_path: Path) -> None:
    path, backup = tmp_path / "log", tmp_path / "backup"
    assert ended(run(WRITER, path, OLD, "killed")) == 0
    shutil.copytree(path, backup)
    together = [run(WRITER, path, OLD) for _ in range(2)]
    assert [ended(each) for each in together] == [0, 0]
    original = sealed_heads(path)
    shutil.rmtree(path)
    shutil.copytree(backup, path)  # the restored backup goes on where the lost log went on
    assert ended(run(WRITER, path, OLD)) == 0
    restored = sealed_heads(path)
    copied = sealed_heads(backup)
    assert len(original) == 1800
    assert len(restored) == 1200
    shared = set(copied)
    assert len(set(original)) == 1800
    assert len(set(restored)) == 1200
    assert set(original) & set(restored) == shared
    # A data key of one is not used by the other, so equal nonces would not matter either.
    keys = [{head[:ID_BYTES] for head in set(each) - shared} for each in (original, restored)]
    assert not keys[0] & keys[1]
    assert not keys[0] & {head[:ID_BYTES] for head in shared}


def test_failed_append_uses_its_nonce_up(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = orders_of(log)
    orders.append(Order(0))
    nonces: list[bytes] = []

    def failing(self: commitlog.CommitLog, value: bytes, **_: Any) -> int:
        nonces.append(value[ID_BYTES:HEAD_BYTES])
        raise IOFailureError("no room")

    monkeypatch.setattr(commitlog.CommitLog, "append", failing)
    for _ in range(20):
        with pytest.raises(IOFailureError):
            orders.append(Order(1), key=b"k")
    assert len(set(nonces)) == 20
    assert {len(nonce) for nonce in nonces} == {NONCE_BYTES}


def test_full_data_key_is_replaced(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealer, "MOST_MESSAGES", 10)
    orders = orders_of(log)
    for number in range(25):
        orders.append(Order(number))
    orders.append_many([Order(number) for number in range(25, 33)])
    used = [record.value[:ID_BYTES] for record in messages(log)]
    assert sorted(map(used.count, set(used))) == [5, 8, 10, 10]
    assert [order.id for order in orders.tailer()] == list(range(33))


def test_threads_seal_at_once(log: commitlog.CommitLog) -> None:
    orders = orders_of(log)

    def work(first: int) -> None:
        for number in range(first, first + 300):
            orders.append(Order(number, "x" * 300))

    threads = [threading.Thread(target=work, args=(each * 300,)) for each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(order.id for order in orders.tailer()) == list(range(1200))
    heads = [record.value[:HEAD_BYTES] for record in messages(log)]
    assert len(set(heads)) == 1200


# --- keys -----------------------------------------------------------------------------------------


def test_missing_key_is_named_and_the_tailer_stays(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    position = orders_of(log).append(Order(1))
    other = KeyRing.of_text(NEW)
    for ring, known in ((None, "none"), (other, "2026")):
        for choice in ("raise", "skip", "raw"):
            tailer = orders_of(log, ring).tailer("billing", on_undecodable=choice)  # type: ignore[call-overload]
            with tailer:
                for act in (tailer.read, lambda each=tailer: list(each)):
                    with pytest.raises(KeyUnavailableError, match=f"which has {known}") as caught:
                        act()
                    error = caught.value
                    assert (error.key_id, error.path) == ("2025", log.path)
                    assert error.position == tailer.position == position
                assert tailer.undecodable == 0
    monkeypatch.setenv(VARIABLE, OLD)
    with orders_of(log, None).tailer("billing") as tailer:
        assert list(tailer) == [Order(1)]


def test_wrong_key_of_the_right_id_is_named(log: commitlog.CommitLog) -> None:
    orders_of(log).append(Order(1))
    wrong = KeyRing.of_text(NEW.replace("2026", "2025"))
    with pytest.raises(KeyUnavailableError, match="'2025' does not open a data key") as caught:
        orders_of(log, wrong).tailer().read()
    assert caught.value.key_id == "2025"


def test_rotated_ring_reads_old_and_seals_with_the_new_key(tmp_path: Path) -> None:
    both = KeyRing.of_text(f"{OLD}\n{NEW}\n")
    assert both.key_ids == ("2025", "2026")
    for number, ring in enumerate((RING, both)):
        with commitlog.topic(tmp_path / "log", Order, keys=ring) as orders:
            orders.append(Order(number))
    with commitlog.topic(tmp_path / "log", Order, keys=both) as orders:
        assert [order.id for order in orders.tailer()] == [0, 1]
        position = messages(orders.log)[1].position
    with commitlog.topic(tmp_path / "log", Order, keys=KeyRing.of_text(NEW)) as orders:
        assert list(orders.tailer(start=position)) == [Order(1)]
        with pytest.raises(KeyUnavailableError, match="'2025' is not in the key ring"):
            orders.tailer().read()


def test_ring_of_a_service_wraps_and_unwraps(log: commitlog.CommitLog) -> None:
    calls: list[tuple[str, str]] = []

    def wrap(key_id: str, data_key: bytes) -> bytes:
        calls.append(("wrap", key_id))
        return data_key[::-1]

    def unwrap(key_id: str, wrapped: bytes) -> bytes:
        calls.append(("unwrap", key_id))
        return wrapped[::-1]

    ring = KeyRing("alias/orders", wrap, unwrap)
    orders = orders_of(log, ring)
    for number in range(3):
        orders.append(Order(number))
    assert len(list(orders.tailer())) == 3
    assert calls == [("wrap", "alias/orders"), ("unwrap", "alias/orders")]


def test_failing_service_appends_nothing(log: commitlog.CommitLog) -> None:
    def refuse(*_: Any) -> bytes:
        raise ConnectionError("the service is away")

    ring = KeyRing("k1", refuse, lambda *_: b"short")
    with pytest.raises(KeyUnavailableError, match="the service is away") as caught:
        orders_of(log, ring).append(Order(1))
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert log.count() == 0
    orders_of(log, KeyRing("k1", lambda _, key: key, refuse)).append(Order(1))
    with pytest.raises(KeyUnavailableError, match="unwrap must return 32 bytes"):
        orders_of(log, ring).tailer().read()


def test_ring_shows_ids_and_no_key(tmp_path: Path) -> None:
    ring = KeyRing.of_text(f"{OLD}\n{NEW}")
    assert repr(ring) == "<KeyRing 2025, 2026>"
    assert repr(KeyRing.of_environment()) == "<KeyRing without a key>"
    for act in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match=f"set {VARIABLE} in each process"):
            act(ring)
    file = tmp_path / "keys"
    file.write_text(f"{OLD}\n{NEW}\n")
    assert KeyRing.of_file(file).key_ids == ring.key_ids
    with pytest.raises(IOFailureError, match="cannot read the keys"):
        KeyRing.of_file(tmp_path / "none")


@pytest.mark.parametrize(
    "text",
    [
        "2025",
        "2025:c2hvcnQ=",
        f"{OLD}\n{OLD}",
        f"{OLD} *:*",
        OLD.removeprefix("2025"),
        f"{'x' * 65}{OLD[4:]}",
        OLD[:-1],
    ],
    ids=["no key", "short", "twice", "no base64", "no id", "long id", "truncated"],
)
def test_unusable_line_is_refused_without_its_text(text: str, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(InvalidOptionError, match=r"keys: key \d must be id:base64") as caught:
        KeyRing.of_file(file)
    assert OLD[5:20] not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_unusable_ring_is_refused(log: commitlog.CommitLog) -> None:
    def nothing(*_: Any) -> bytes:
        return b""

    for ids in (("a", "a"), ("a b",), "", ("é" * 65,)):
        with pytest.raises(InvalidOptionError, match="key ids must differ"):
            KeyRing(ids, nothing, nothing)
    with pytest.raises(InvalidOptionError, match=r"must be a topics\.KeyRing, not a str"):
        commitlog.topic(log, Order, keys=OLD)  # type: ignore[arg-type]
    with pytest.raises(RecordTypeError, match="the key must be bytes, not str"):
        orders_of(log).append(Order(1), key="lena")  # type: ignore[arg-type]
    with pytest.raises(RecordTypeError, match="the key must be bytes, not str"):
        orders_of(log).append_many([Order(1), Order(2)], keys=[b"a", "lena"])  # type: ignore[list-item]
    with pytest.raises(InvalidOptionError, match="2 keys for 1 messages"):
        orders_of(log).append_many([Order(1)], keys=[b"a", b"b"])
    assert log.count() == 0


# --- tampering ------------------------------------------------------------------------------------


def test_moved_message_is_refused(tmp_path: Path) -> None:
    """The data key goes with the message; only what is associated tells them apart."""
    with (
        commitlog.topic(tmp_path / "log", Order, keys=RING) as orders,
        commitlog.topic(tmp_path / "other", Order, keys=RING) as others,
    ):
        orders.append(Order(1), key=b"lena")
        others.append(Order(2))
        record = messages(orders.log)[0]
        declared = data_keys(orders.log)[0]
        keys = (b"omar", b"", None)
        for key in keys:
            orders.log.append(record.value, type=record.type, key=key)
        others.log.append(declared.value, type=SCHEMA_TYPE, key=declared.key)
        others.log.append(record.value, type=record.type, key=b"lena")
        copies = commitlog.topic(orders.log, Order, name="copies", keys=RING)
        copies.append(Order(3))
        number = messages(orders.log)[-1].type
        orders.log.append(record.value, type=number, key=b"lena")
        for topic, count in ((orders, 3), (others, 1), (copies, 1)):
            tailer = topic.tailer(on_undecodable="skip")
            assert len(list(tailer)) == 1
            assert tailer.undecodable == count
        with pytest.raises(UndecodableError, match="from another log, topic or key") as caught:
            others.tailer(start=messages(others.log)[1].position).read()
        assert caught.value.path == others.log.path


def test_every_flipped_bit_is_refused(log: commitlog.CommitLog) -> None:
    orders = orders_of(log)
    orders.append(Order(1), key=b"lena")
    record = messages(log)[0]
    bits = len(record.value) * 8
    for bit in range(bits):
        value = bytearray(record.value)
        value[bit // 8] ^= 1 << bit % 8
        log.append(bytes(value), type=record.type, key=b"lena")
    for size in range(len(record.value)):
        log.append(record.value[:size], type=record.type, key=b"lena")
    tailer = orders.tailer(on_undecodable="skip")
    assert list(tailer) == [Order(1)]
    assert tailer.undecodable == bits + len(record.value)


def test_changed_data_key_is_refused(log: commitlog.CommitLog) -> None:
    orders = orders_of(log)
    orders.append(Order(1))
    record, message = data_keys(log)[0], messages(log)[0]
    for change, error in (
        (record.value.replace(b'"format":1', b'"format":2'), "version 2"),
        (record.value.replace(b'"key_id"', b'"key"'), "record of its data key is damaged"),
        (b"{}", "record of its data key is damaged"),
    ):
        changed = _data_key_with(log, change)
        position = log.append(changed + message.value[ID_BYTES:], type=message.type)
        with pytest.raises(UndecodableError, match=error):
            orders.tailer(start=position).read()
    wrapped = base64.b64encode(b"x" * 60)
    changed = _data_key_with(log, b'{"format":1,"key_id":"2025","wrapped":"%s"}' % wrapped)
    position = log.append(changed + message.value[ID_BYTES:], type=message.type)
    with pytest.raises(KeyUnavailableError, match="sealed otherwise, or changed"):
        orders.tailer(start=position).read()
    position = log.append(b"unknown." + message.value[ID_BYTES:], type=message.type)
    with pytest.raises(UndecodableError, match="the log has no data key 756e6b6e6f776e2e"):
        orders.tailer(start=position).read()


def _data_key_with(log: commitlog.CommitLog, value: bytes) -> bytes:
    from commitlog.messages.data_key import id_of, key_of

    found = id_of(value)
    log.append(value, type=SCHEMA_TYPE, key=key_of(found))
    return found


def test_missing_package_is_named_with_its_extra(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders_of(log).append(Order(1))
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtraError, match=r"needs cryptography: .*\[sealed\]"):
        orders_of(log)
    with pytest.raises(MissingExtraError, match=r"\[sealed\]"):
        topics.to_arrow(log, keys=RING)


def test_table_has_sealed_messages(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders_of(log).append_many([Order(1), Order(2)], keys=[b"a", None])
    assert topics.to_arrow(log, keys=RING)["message"][1]["Order"]["id"].as_py() == 2
    with pytest.raises(KeyUnavailableError):
        topics.to_arrow(log)
    monkeypatch.setenv(VARIABLE, OLD)
    assert len(topics.to_arrow(log)) == 2

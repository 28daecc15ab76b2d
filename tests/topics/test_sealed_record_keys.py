"""Record keys of sealed topics: encrypted, found by their key, and read with the key ring."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog, topics
from commitlog.errors import (
    InvalidOptionError,
    IOFailureError,
    KeyUnavailableError,
    RecordTypeError,
    UndecodableError,
)
from commitlog.topics import KeyRing, Zstd
from commitlog.topics.authentication import Authentication
from commitlog.topics.catalog import FOLDER
from tests.topics.orders import Order, Refund
from tests.topics.sealed import NEW, OLD, RING, messages

pytest.importorskip("cryptography")
SECRET = b"DE02 1203 0000"


def sealing(log: CommitLog | Path, keys: KeyRing | None = RING, **options: Any) -> Any:
    return commitlog.topic(log, Order, keys=keys, **{"seal_keys": True, **options})


def read(topic: Any, **options: Any) -> list[tuple[int, bytes | None]]:
    tailer = topic.tailer(**options)
    return [(order.id, tailer.key) for order in tailer]


def stored(log: CommitLog) -> list[bytes | None]:
    return [record.key for record in messages(log)]


def test_sealed_keys_are_read_and_not_seen(tmp_path: Path) -> None:
    keys = [SECRET, b"", b"x" * 15, b"y" * 16, bytes(3), SECRET, None]
    with sealing(tmp_path / "log") as orders:
        for number, key in enumerate(keys[:3]):
            orders.append(Order(number), key=key)
        asyncio.run(orders.append_async(Order(3), key=keys[3]))
        orders.append(Order(4), key=bytearray(keys[4] or b""), producer="till", producer_sequence=1)
        orders.append_many([Order(5), Order(6)], keys=keys[5:])
        assert read(orders) == list(enumerate(keys))
        found = stored(orders.log)
        assert found[0] == found[5]
        assert found[6] is None
        assert len(set(found)) == 6
        assert [len(key or b"") for key in found[:4]] == [32, 32, 32, 48]
    with commitlog.topic(tmp_path / "log", Order, keys=RING, mode="r") as orders:
        assert read(orders) == list(enumerate(keys))
    for path in (tmp_path / "log").rglob("*"):
        assert path.is_dir() or SECRET not in path.read_bytes()


def test_seek_finds_sealed_and_clear_keys_of_all_topics(log: CommitLog) -> None:
    with commitlog.topic(log, Order, keys=RING) as clear:
        clear.append(Order(0), key=SECRET)
    orders = sealing(log)
    refunds = commitlog.topic(log, Refund, keys=RING, seal_keys=True)
    refunds.append(Refund(1), key=SECRET)
    orders.append(Order(2), key=b"other")
    orders.append(Order(3), key=SECRET)
    assert len(set(stored(log))) == 4
    tailer = topics.tailer([orders, refunds])
    found = []
    while tailer.seek(key=SECRET):
        found.append(tailer.read())
        assert tailer.key == SECRET
    assert found == [Order(0), Refund(1), Order(3)]
    position = tailer.position
    assert not tailer.seek(key=b"missing")
    assert tailer.position == position


def test_topic_with_sealed_keys_stays_so_in_every_handle(tmp_path: Path) -> None:
    with sealing(tmp_path / "log") as orders:
        orders.append(Order(0), key=SECRET)
    with sealing(tmp_path / "log", seal_keys=False) as orders:
        orders.append(Order(1), key=SECRET)
    shutil.rmtree(tmp_path / "log" / FOLDER)  # the records are the truth
    with sealing(tmp_path / "log", compress=Zstd(dictionary=b"")) as orders:
        orders.append(Order(2), key=SECRET)
        orders.append(Order(3), key=SECRET)
        orders.log.roll()
        orders.append(Order(4), key=SECRET)
        assert read(orders) == [(number, SECRET) for number in range(5)]
        assert len(set(stored(orders.log))) == 1
    with commitlog.topic(tmp_path / "log", Order) as orders:
        for key in (SECRET, None):
            with pytest.raises(KeyUnavailableError, match="give keys=") as caught:
                orders.append(Order(5), key=key)
            assert caught.value.path == orders.log.path


def test_handles_that_begin_at_once_agree_on_one_key(tmp_path: Path) -> None:
    logs = [commitlog.open(tmp_path / "log") for _ in range(4)]
    opened = [sealing(log) for log in logs]
    together = threading.Barrier(len(opened))

    def append(topic: Any, number: int) -> None:
        together.wait()
        topic.append(Order(number), key=SECRET)

    threads = [
        threading.Thread(target=append, args=(topic, number)) for number, topic in enumerate(opened)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(stored(logs[0]))) == 1
    assert len({record.type for record in messages(logs[0])}) == 1
    for log in logs:
        log.close()


def test_rotated_master_key_wraps_the_same_key(tmp_path: Path) -> None:
    both = KeyRing.of_text(f"{OLD}\n{NEW}")
    for number, ring in enumerate((RING, both, both, KeyRing.of_text(NEW))):
        with sealing(tmp_path / "log", ring) as orders:
            orders.append(Order(number), key=SECRET)
    with sealing(tmp_path / "log", both) as orders:
        assert read(orders) == [(number, SECRET) for number in range(4)]
        assert len(set(stored(orders.log))) == 1
        assert len({record.type for record in messages(orders.log)}) == 2
    with sealing(tmp_path / "log", KeyRing.of_text(NEW)) as orders:
        tailer = orders.tailer()
        assert tailer.seek(key=SECRET)
        tailer.seek(messages(orders.log)[1].position)
        assert tailer.seek(key=SECRET)
        assert (tailer.read(), tailer.key) == (Order(1), SECRET)


@pytest.mark.parametrize("ring", ["", NEW, NEW.replace("2026", "2025")])
def test_missing_or_wrong_key_is_named(log: CommitLog, ring: str) -> None:
    position = sealing(log).append(Order(1), key=SECRET)
    orders = commitlog.topic(log, Order, keys=KeyRing.of_text(ring))
    tailer = orders.tailer()
    for act in (lambda: tailer.seek(key=SECRET), tailer.read):
        with pytest.raises(KeyUnavailableError, match="2025") as caught:
            act()
        assert (caught.value.key_id, caught.value.path) == ("2025", log.path)
    assert caught.value.position == position
    with pytest.raises(KeyUnavailableError, match="2025"):
        topics.to_arrow(log, keys=KeyRing.of_text(ring))


def test_message_under_another_key_is_refused(log: CommitLog) -> None:
    orders = sealing(log)
    orders.append_many([Order(1), Order(2)], keys=[b"a", b"b"])
    first, second = messages(log)
    for key in (second.key, bytes(32), b"a", None):
        log.append(first.value, key=key, type=first.type)
    tailer = orders.tailer(on_undecodable="skip")
    assert list(tailer) == [Order(1), Order(2)]
    assert tailer.undecodable == 4
    assert Authentication(log, RING).refused == 4
    with pytest.raises(UndecodableError, match="not authentic"):
        topics.to_arrow(log, keys=RING)


def test_changed_key_of_a_raw_record_is_refused(log: CommitLog) -> None:
    orders = sealing(log)
    orders.append(Order(1), key=SECRET)
    (record,) = messages(log)
    log.append(record.value, key=bytes(32), type=record.type)
    tailer = orders.tailer(on_undecodable="raw")
    tailer.read()
    tailer.read()
    with pytest.raises(UndecodableError, match="record key is not authentic"):
        _ = tailer.key


def test_table_has_opened_keys(log: CommitLog) -> None:
    log.append(b"raw", key=b"raw")
    sealing(log).append_many([Order(1), Order(2)], keys=[SECRET, None])
    commitlog.topic(log, Refund).append(Refund(1), key=b"clear")
    table = topics.to_arrow(log, keys=RING)
    assert table["key"].to_pylist() == [SECRET, None, b"clear"]
    assert topics.to_arrow(log, ["Order"], keys=RING)["key"].to_pylist() == [SECRET, None]


def test_outputs_with_a_history_have_sealed_keys(tmp_path: Path) -> None:
    class Service:
        def sold(self, number: int) -> None:
            orders.append(Order(number), key=SECRET)
            orders.append_many([Order(number + 1), Order(number + 2)], keys=[SECRET, None])

    class Shop:
        def sold(self, number: int) -> None: ...

    with commitlog.open(tmp_path / "in") as source, sealing(tmp_path / "out") as orders:
        commitlog.method_writer(source, Shop).sold(4)
        with commitlog.method_reader(source, Service(), after_last_written=orders.log) as reader:
            assert reader.read_one()
        with source.tailer() as tailer, commitlog.topic(source, Refund) as refunds:
            refunds.append(Refund(7))
            with refunds.tailer().reading():
                orders.append(Order(7), key=SECRET)
            del tailer
        assert read(orders) == [(4, SECRET), (5, SECRET), (6, None), (7, SECRET)]
        assert len({key for key in stored(orders.log) if key}) == 1


def test_unusable_choices_are_refused(log: CommitLog) -> None:
    with pytest.raises(InvalidOptionError, match="seal_keys=True needs keys="):
        commitlog.topic(log, Order, seal_keys=True)
    with pytest.raises(RecordTypeError, match="the key must be bytes, not str"):
        sealing(log).append(Order(1), key="lena")
    with pytest.raises(RecordTypeError, match="the key must be bytes, not str"):
        sealing(log).append_many([Order(1)], keys=["lena"])
    assert log.count() == 0


def test_lock_that_another_process_keeps_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.topics.catalog._LOCK_WAIT_S", 0.01)
    with sealing(tmp_path / "log") as orders:
        fd = os.open(tmp_path / "log" / FOLDER, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            with pytest.raises(IOFailureError, match=r"declaring a schema .* stopped process"):
                orders.append(Order(1), key=SECRET)
        finally:
            os.close(fd)
        orders.append(Order(1), key=SECRET)
        assert read(orders) == [(1, SECRET)]

"""`log.stats().topics`: what compression and seals made of the messages that a handle appended."""

from __future__ import annotations

import asyncio
import threading

import msgspec
import pytest

import commitlog
from commitlog import CommitLog, topics
from commitlog.errors import RecordTooLargeError
from commitlog.stats import TopicStats
from commitlog.tail.batch import Batch
from commitlog.tail.tailer import Tailer
from commitlog.topics.data_key import HEAD_BYTES
from commitlog.topics.summary import summarized
from tests.topics.events import Event, events
from tests.topics.orders import Order, Refund
from tests.topics.sealed import RING, messages

pytest.importorskip("zstandard")
pytest.importorskip("cryptography")
SEAL_BYTES = HEAD_BYTES + 16


def test_compressed_messages_are_counted_before_and_after(log: CommitLog) -> None:
    written = events(20)
    topic = commitlog.topic(log, Event, compress="zstd")
    topic.append_many(written[:10])
    for each in written[10:19]:
        topic.append(each)
    asyncio.run(topic.append_async(written[19]))
    stats = log.stats().topics["Event"]
    assert stats.messages == 20
    assert stats.plain_bytes == sum(len(msgspec.json.encode(each)) for each in written)
    assert stats.value_bytes == sum(len(each.value) for each in messages(log))
    assert stats.ratio == stats.plain_bytes / stats.value_bytes > 1.5


def test_sealed_messages_grow_by_their_seal(log: CommitLog) -> None:
    orders = commitlog.topic(log, Order, keys=RING)
    orders.append_many([Order(1), Order(2)])
    stats = log.stats().topics["Order"]
    assert stats.value_bytes == stats.plain_bytes + 2 * SEAL_BYTES
    assert "topic Order: 2 messages, " in str(log.stats())


def test_topics_without_layers_are_not_listed(log: CommitLog) -> None:
    commitlog.topic(log, Refund).append(Refund(1))
    assert log.stats().topics == {}
    commitlog.topic(log, Order, compress="zstd")
    assert log.stats().topics == {"Order": TopicStats()}
    assert log.stats().topics["Order"].ratio == 1


def test_snapshot_does_not_change(log: CommitLog) -> None:
    orders = commitlog.topic(log, Order, keys=RING)
    before = log.stats().topics
    orders.append(Order(1))
    assert before["Order"].messages == 0


def test_topics_of_one_name_count_together(log: CommitLog) -> None:
    for number in range(2):
        commitlog.topic(log, Order, keys=RING).append(Order(number))
    assert log.stats().topics["Order"].messages == 2


def test_refused_message_counts_if_it_was_sealed(log: CommitLog) -> None:
    orders = commitlog.topic(log, Order, keys=RING)
    with pytest.raises(RecordTooLargeError):
        orders.append(Order(1, "x" * 9000))
    assert log.stats().topics["Order"].messages == 1
    assert messages(log) == []


def test_threads_lose_no_count(log: CommitLog) -> None:
    orders = commitlog.topic(log, Order, compress=topics.Zstd(dictionary=b""))

    def work() -> None:
        for number in range(500):
            orders.append(Order(number))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert log.stats().topics["Order"].messages == 2000


def test_summary_of_a_growing_log_ends(log: CommitLog, monkeypatch: pytest.MonkeyPatch) -> None:
    read, calls = Tailer.read_batch, iter(range(5))

    def read_and_append(tailer: Tailer) -> Batch:
        next(calls)  # raises StopIteration if the summary follows the end
        log.append(b"more")
        return read(tailer, 1)

    log.append_many([b"record"] * 3)
    monkeypatch.setattr(Tailer, "read_batch", read_and_append)
    assert summarized(log).records == 3


def test_outputs_of_a_pipeline_are_counted(log: CommitLog, tmp_path: object) -> None:
    class Service:
        def sold(self, number: int) -> None:
            orders.append_many([Order(number), Order(number + 1)])

    with commitlog.topic(f"{tmp_path}/out", Order, keys=RING) as orders:
        commitlog.method_writer(log, Service).sold(1)
        with commitlog.method_reader(log, Service(), after_last_written=orders.log) as reader:
            assert reader.run(timeout=0) == 1
        stats = orders.log.stats().topics["Order"]
        assert (stats.messages, stats.value_bytes) == (2, stats.plain_bytes + 2 * SEAL_BYTES)

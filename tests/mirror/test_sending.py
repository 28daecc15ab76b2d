"""A log to a real broker."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog
from commitlog.errors import InUseError, MirrorError
from commitlog.mirror import Repeats, from_kafka, to_kafka
from tests.mirror.kafka_server import KafkaServer
from tests.mirror.topics import are_ordered, header, records_of, rows_in, rows_of

pytestmark = pytest.mark.long

LIMIT_S = 60
MODES = pytest.mark.parametrize("id", [None, "exact"])


def filled(folder: Path, count: int = 300) -> CommitLog:
    log = commitlog.open(folder, segment_size="64KiB")
    log.append_many(
        [b"%d" % n for n in range(count)], keys=[b"k%d" % (n % 7) for n in range(count)]
    )
    log.flush()
    return log


def send(log: CommitLog, url: str, id: str | None = None, **options: object) -> None:
    """Mirror all that is durable."""
    log.flush()
    identity = None if id is None else f"{id}-{log.path}"
    with to_kafka(log, url, transactional_id=identity, **options) as mirror:  # type: ignore[arg-type]
        assert mirror.wait(log.flushed_position, timeout=LIMIT_S)
        assert mirror.lag == 0
        (flow,) = log.stats().flows
        assert (flow.lag_bytes, flow.lag_records, flow.error) == (0, None, None)


@MODES
def test_records_have_key_time_and_headers(
    kafka: KafkaServer, tmp_path: Path, id: str | None
) -> None:
    url = kafka.create(f"headers-{id}", 3)
    with filled(tmp_path / "log") as log:
        log.append(b"", key=b"")
        log.append(b"plain", type=7, timestamp_ns=1_700_000_000_123_456_789, headers={"a": b"1"})
        send(log, url, id)
        log.append(b"later")
        send(log, url, id)
        sent = records_of(kafka.address, f"headers-{id}")
        assert rows_of(sent) == rows_in(log)
        assert are_ordered(sent)
        typed = next(message for message in sent if message.value() == b"plain")
        record = log.read(int(header(typed, "commitlog-position") or 0))
        assert typed.key() is None
        assert header(typed, "a") == b"1"
        assert typed.timestamp()[1] == 1_700_000_000_123
        assert header(typed, "commitlog-timestamp-ns") == b"%d" % record.timestamp_ns
        assert header(typed, "commitlog-sequence") == b"301"
        assert header(typed, "commitlog-type") == b"7"
        assert header(typed, "commitlog-log") == log.identity.uuid.hex().encode()


def test_message_has_the_name_of_its_topic(kafka: KafkaServer, tmp_path: Path) -> None:
    msgspec = pytest.importorskip("msgspec")
    order = msgspec.defstruct("Order", [("item", str)])
    url = kafka.create("messages")
    with commitlog.open(tmp_path / "log") as log:
        commitlog.topic(log, order, name="orders").append(order("tea"))
        send(log, url)
        sent = records_of(kafka.address, "messages")
    assert [header(message, "commitlog-topic") for message in sent][-1] == b"orders"


def test_partition_takes_all_records(kafka: KafkaServer, tmp_path: Path) -> None:
    url = kafka.create("one-of-three", 3)
    with filled(tmp_path / "log") as log:
        send(log, url, partition=2)
        sent = records_of(kafka.address, "one-of-three")
        assert [message.partition() for message in sent] == [2] * 300
        assert rows_of(sent) == rows_in(log)
        with pytest.raises(MirrorError, match="has 3 partitions, from 0"):
            send(log, url, partition=3)


@MODES
def test_copy_without_tailer_goes_on_where_the_broker_is(
    kafka: KafkaServer, tmp_path: Path, id: str | None
) -> None:
    url = kafka.create(f"copy-{id}")
    with filled(tmp_path / "log") as log:
        send(log, url, id)
        for state in log.tailers():
            log.delete_tailer(state.name)
        log.append(b"last")
        send(log, url, id)
        assert rows_of(records_of(kafka.address, f"copy-{id}")) == rows_in(log)


def test_restored_log_is_refused(kafka: KafkaServer, tmp_path: Path) -> None:
    url = kafka.create("restored")
    path = tmp_path / "log"
    filled(path).close()
    shutil.copytree(path, tmp_path / "backup")
    with commitlog.open(path) as log:
        log.append_many([b"lost"] * 10)
        send(log, url)
    shutil.rmtree(path)
    (tmp_path / "backup").rename(path)
    with commitlog.open(path) as log:
        with pytest.raises(MirrorError, match="it was restored, or its last records were lost"):
            send(log, url)
        log.append_many([b"other"] * 20)
        with pytest.raises(MirrorError, match="the log was restored or copied, and written since"):
            send(log, url)


def test_topic_that_was_created_again_is_refused(kafka: KafkaServer, tmp_path: Path) -> None:
    url = kafka.create("again")
    with filled(tmp_path / "log") as log:
        send(log, url)
        (old,) = log.tailers()
        kafka.create_again("again")
        with pytest.raises(MirrorError, match=f"tailer '{old.name}' belongs to another topic"):
            send(log, url)
        log.delete_tailer(old.name)
        send(log, url)
        assert rows_of(records_of(kafka.address, "again")) == rows_in(log)


@MODES
def test_too_large_record_ends_the_mirror(
    kafka: KafkaServer, tmp_path: Path, id: str | None
) -> None:
    url = kafka.create(f"large-{id}", max_message_bytes="3000")
    with commitlog.open(tmp_path / "log") as log:
        log.append_many([b"before"] * 10)
        large = log.append(b"x" * 5000)
        behind = log.append(b"behind")
        log.append_many([b"behind"] * 10)
        with pytest.raises(MirrorError, match="raise that, lower batch.size") as caught:
            send(log, url, id, settings={"batch.size": 2000})
        assert caught.value.position == large
        (tailer,) = log.tailers()
        assert tailer.position == large  # what is before it was sent
        log.reset_tailer(tailer.name, behind)
        send(log, url, id, settings={"batch.size": 2000})
        sent, repeats = records_of(kafka.address, f"large-{id}"), Repeats()
    once = [each for each in sent if not repeats.has(each.partition(), each.headers())]
    assert [each.value() for each in once] == [b"before"] * 10 + [b"behind"] * 11
    assert id is None or once == sent


@MODES
def test_broker_that_is_away_is_waited_for(
    kafka: KafkaServer, tmp_path: Path, id: str | None
) -> None:
    url = kafka.create(f"away-{id}")
    settings = {} if id is None else {"transaction.timeout.ms": 1000}
    with (
        filled(tmp_path / "log") as log,
        to_kafka(log, url, transactional_id=id and "away", settings=settings) as mirror,
    ):
        assert mirror.wait(log.flushed_position, timeout=LIMIT_S)
        kafka.kill()
        log.append(b"meanwhile", sync=True)
        assert not mirror.wait(log.flushed_position, timeout=4)
        assert mirror.lag
        kafka.start()
        assert mirror.wait(log.flushed_position, timeout=LIMIT_S)
        assert rows_of(records_of(kafka.address, f"away-{id}")) == rows_in(log)


class Stuck:
    """A producer whose call for the place waits without an end, as librdkafka's can (its issue
    5456).
    """

    def __init__(self, producer: Any) -> None:
        self._producer, self.go_on, self.late = producer, threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def send_offsets_to_transaction(self, *arguments: Any) -> None:
        self.go_on.wait()
        try:
            self._producer.send_offsets_to_transaction(*arguments)
        finally:
            self.late.set()


def test_place_that_is_never_sent_is_given_up(
    kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.mirror.sending._CALL_S", 1.0)
    url = kafka.create("stuck")
    with (
        filled(tmp_path / "log") as log,
        to_kafka(log, url, transactional_id="stuck") as mirror,
    ):
        assert mirror.wait(log.flushed_position, timeout=LIMIT_S)
        sending: Any = mirror._flow
        stuck = sending._producer = Stuck(sending._producer)
        log.append(b"later", sync=True)
        assert mirror.wait(log.flushed_position, timeout=LIMIT_S)
        stuck.go_on.set()  # the old producer goes on, and is refused
        assert stuck.late.wait(LIMIT_S)
        log.append(b"last", sync=True)
        assert mirror.wait(log.flushed_position, timeout=LIMIT_S)
        assert rows_of(records_of(kafka.address, "stuck")) == rows_in(log)


def test_refused_credentials_are_one_clear_error(
    kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create("guarded")
    url = f"kafka://127.0.0.1:{kafka.sasl_port}/guarded"
    for key, value in {
        "SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SASL_MECHANISM": "PLAIN",
        "SASL_USERNAME": "mirror", "SASL_PASSWORD": "wrong",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"COMMITLOG_KAFKA_{key}", value)
    with filled(tmp_path / "log") as log:
        with pytest.raises(MirrorError, match="check COMMITLOG_KAFKA_SASL_USERNAME"):
            send(log, url, timeout="3s")
        monkeypatch.setenv("COMMITLOG_KAFKA_SASL_PASSWORD", "secret")
        send(log, url)


def test_records_go_to_a_broker_over_tls(
    kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create("tls")
    url = f"kafka://127.0.0.1:{kafka.tls_port}/tls"
    monkeypatch.setenv("COMMITLOG_KAFKA_SECURITY_PROTOCOL", "SSL")
    with filled(tmp_path / "log") as log:
        with pytest.raises(MirrorError, match="check COMMITLOG_KAFKA_SSL_CA_LOCATION"):
            send(log, url, timeout="3s")  # no one vouches for the certificate
        monkeypatch.setenv("COMMITLOG_KAFKA_SSL_CA_LOCATION", str(kafka.certificate))
        send(log, url, "tls")
        assert rows_of(records_of(kafka.address, "tls")) == rows_in(log)
    with commitlog.open(tmp_path / "copy") as copy, from_kafka(url, copy) as mirror:
        assert mirror.wait(log.tail_position, timeout=LIMIT_S)


def test_calls_that_do_not_return_are_bounded(
    kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.mirror.sending._stuck", threading.BoundedSemaphore(1))
    monkeypatch.setattr("commitlog.mirror.sending._CALL_S", 0.5)
    url = kafka.create("bounded")
    with (
        filled(tmp_path / "log") as log,
        to_kafka(log, url, transactional_id="bounded") as mirror,
    ):
        assert mirror.wait(log.flushed_position, timeout=LIMIT_S)
        sending: Any = mirror._flow
        stuck = sending._producer = Stuck(sending._producer)
        log.append(b"later", sync=True)
        with pytest.raises(MirrorError, match="do not return: begin the mirror in a new process"):
            mirror.wait(log.flushed_position, timeout=LIMIT_S)
        stuck.go_on.set()
        assert stuck.late.wait(LIMIT_S)
        send(log, url, "bounded")


def test_absent_topic_is_refused_and_not_created(kafka: KafkaServer, tmp_path: Path) -> None:
    with filled(tmp_path / "log") as log:
        for _ in range(2):
            with pytest.raises(MirrorError, match="create it with as many partitions"):
                send(log, kafka.url("absent"))
        assert log.tailers() == []


def test_second_mirror_of_a_name_is_refused(kafka: KafkaServer, tmp_path: Path) -> None:
    url = kafka.create("second")
    with filled(tmp_path / "log") as log, to_kafka(log, url), pytest.raises(InUseError):
        to_kafka(log, url)


def test_mirror_of_a_copied_directory_fences_the_other(
    kafka: KafkaServer, tmp_path: Path, until: Callable[..., None]
) -> None:
    url = kafka.create("fenced")
    filled(tmp_path / "log").close()
    with commitlog.open(tmp_path / "log") as log:
        with to_kafka(log, url, transactional_id="fenced") as mirror:
            mirror.wait(log.flushed_position, timeout=LIMIT_S)
            shutil.copytree(tmp_path / "log", tmp_path / "copy")
            with (
                commitlog.open(tmp_path / "copy") as copy,
                to_kafka(copy, url, transactional_id="fenced"),
            ):
                log.append(b"here", sync=True)
                until(lambda: mirror.error is not None)
            (flow,) = log.stats().flows
            assert flow.error == str(mirror.error)
        assert log.stats().flows == ()
        assert "another mirror has taken this transactional_id" in str(mirror.error)


def test_retention_waits_for_the_broker(kafka: KafkaServer, tmp_path: Path) -> None:
    url = kafka.create("held")
    with filled(tmp_path / "log", 10_000) as log:
        with to_kafka(log, url, start="first") as mirror:
            mirror.wait(log.flushed_position, timeout=LIMIT_S)
        (state,) = log.tailers()
        assert state.required
        log.append_many([b"x" * 100] * 5_000)
        log.flush()
        assert state.position is not None
        log.delete_before(log.tail_position)
        assert log.first_position <= state.position
        send(log, url)
        assert log.delete_before(log.tail_position)


def test_removed_log_ends_the_mirror(
    kafka: KafkaServer, tmp_path: Path, until: Callable[..., None]
) -> None:
    url = kafka.create("removed")
    with filled(tmp_path / "log"):
        pass
    log = commitlog.open(tmp_path / "log", "r")
    with to_kafka(log, url) as mirror:
        assert mirror.wait(log.flushed_position, timeout=LIMIT_S)
        shutil.rmtree(tmp_path / "log")
        until(lambda: mirror.error is not None)
    assert "the log was removed" in str(mirror.error)
    log.close()

"""Queues of the messages of a topic, and of pooled logs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import ReadOnlyError

msgspec = pytest.importorskip("msgspec")


class Mail(msgspec.Struct):
    to: str


class Other(msgspec.Struct):
    number: int


def test_queue_of_a_topic_takes_its_messages_alone(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        mails, others = commitlog.topic(log, Mail), commitlog.topic(log, Other)
        with commitlog.queue(topic=mails, name="sender") as queue:
            for number in range(100):
                others.append(Other(number))
            mails.append(Mail("ann"), key=b"k")
            log.append(b"plain")
            mails.append(Mail("bob"))
            assert [job.value for job in queue.taking(batch=5, timeout=0)] == [
                Mail("ann"),
                Mail("bob"),
            ]


def test_message_that_cannot_be_decoded_does_not_block(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        mails = commitlog.topic(log, Mail)
        mails.append(Mail("ann"))
        with log.tailer() as tailer:
            *_, record = tailer
        log.append(b"no message", type=record.type, key=b"k")
        mails.append(Mail("bob"))
        with commitlog.queue(topic=mails, name="sender") as queue:
            assert [job.value.to for job in queue.taking(timeout=0)] == ["ann", "bob"]
            (letter,) = queue.dead()
            assert (letter.value, letter.key) == (b"no message", b"k")
            assert "cannot be decoded" in letter.reason


def test_worker_of_a_pooled_log_is_another_process(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with (
        commitlog.TransientStorePool(buffers=2, buffer_size="64KiB", backing="anonymous") as pool,
        commitlog.open(path, pool=pool, segment_size="64KiB") as log,
    ):
        log.append(b"a")
        log.flush()
        pid = os.fork()
        if pid == 0:
            with commitlog.queue(path, "jobs", sync=True) as queue:
                with queue.take("30s") as job:
                    assert job.value == b"a"
                with pytest.raises(ReadOnlyError):
                    queue.put(b"b")
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        with commitlog.queue(log, "jobs") as queue:
            assert queue.take_many(1, 0) == []
            assert queue.stats().depth == 0

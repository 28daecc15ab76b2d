"""Sealed topics: what was moved or changed is refused."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import (
    KeyUnavailableError,
    UndecodableError,
)
from commitlog.topics.data_key import ID_BYTES
from commitlog.topics.schema import SCHEMA_TYPE
from tests.topics.orders import Order
from tests.topics.sealed import RING, data_keys, messages, orders_of

pytest.importorskip("cryptography")


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
    with pytest.raises(KeyUnavailableError, match="the key is wrong, or the bytes were changed"):
        orders.tailer(start=position).read()
    position = log.append(b"unknown." + message.value[ID_BYTES:], type=message.type)
    with pytest.raises(UndecodableError, match="the log has no data key 756e6b6e6f776e2e"):
        orders.tailer(start=position).read()


def _data_key_with(log: commitlog.CommitLog, value: bytes) -> bytes:
    from commitlog.topics.data_key import id_of, key_of

    found = id_of(value)
    log.append(value, type=SCHEMA_TYPE, key=key_of(found))
    return found

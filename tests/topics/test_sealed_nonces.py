"""Sealed topics: no nonce is used twice with a data key, and no data key in two places."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.errors import (
    IOFailureError,
)
from commitlog.topics import sealer
from commitlog.topics.cipher import NONCE_BYTES
from commitlog.topics.data_key import HEAD_BYTES, ID_BYTES
from tests.copies import copy_log
from tests.topics.orders import Order, ended, run
from tests.topics.sealed import OLD, RING, data_keys, messages, orders_of

pytest.importorskip("cryptography")
SEGMENT = "64KiB"


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
    copy_log(path, backup)
    together = [run(WRITER, path, OLD) for _ in range(2)]
    assert [ended(each) for each in together] == [0, 0]
    original = sealed_heads(path)
    shutil.rmtree(path)
    copy_log(backup, path)  # the restored backup goes on where the lost log went on
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


def test_data_key_is_new_for_each_segment_and_handle(tmp_path: Path) -> None:
    for _ in range(2):
        with commitlog.topic(tmp_path / "log", Order, keys=RING, segment_size=SEGMENT) as orders:
            for number in range(300):
                orders.append(Order(number, "x" * 200))
    with commitlog.open(tmp_path / "log", "r") as log:
        used = [record.value[:ID_BYTES] for record in messages(log)]
        declared = [record.key for record in data_keys(log)]
        # Files of segments that were made ahead have none.
        segments = len({record.position // log.segment_size for record in messages(log)})
    assert len(set(used)) == len(declared) == len(set(declared))
    assert segments <= len(set(used)) <= segments + 2


def test_fork_takes_a_new_data_key(log: commitlog.CommitLog, in_child: Callable[..., Any]) -> None:
    orders = orders_of(log)
    orders.append(Order(1))
    in_child(lambda: orders.append(Order(2)))
    orders.append(Order(3))
    assert [order.id for order in orders.tailer()] == [1, 2, 3]
    first, second, third = (record.value[:ID_BYTES] for record in messages(log))
    assert first == third != second

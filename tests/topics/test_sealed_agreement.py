"""A topic is sealed while no open log appends to it unsealed, so no such message is lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog
from commitlog.errors import InUseError, KeyUnavailableError, SchemaError
from commitlog.topics import KeyRing
from tests.topics.orders import Order, Refund, ended, run
from tests.topics.sealed import RING, messages, orders_of

pytest.importorskip("cryptography")

WRITER = """
with commitlog.topic(sys.argv[1], Order) as orders:
    if sys.argv[2] == "appends":
        orders.append(Order(0))
    print("begun", flush=True)
    sys.stdin.readline()
    try:
        orders.append(Order(9))
    except commitlog.CommitLogError as error:
        print(type(error).__name__, error, flush=True)
"""


def ids(log: CommitLog) -> list[int]:
    return [order.id for order in orders_of(log).tailer()]


def begun(path: Path, what: str) -> Any:
    program = run(WRITER, path, what, stdin=subprocess.PIPE)
    assert program.stdout is not None
    assert program.stdout.readline() == "begun\n"
    return program


def test_topic_is_not_sealed_while_another_process_appends(tmp_path: Path) -> None:
    path = tmp_path / "log"
    program = begun(path, "appends")
    with orders_of(commitlog.open(path)).log as log:
        orders = orders_of(log)
        with pytest.raises(InUseError, match="without keys="):
            orders.append(Order(1))
        assert [len(messages(log)), ended(program)] == [1, 0]  # it appends once more
        orders.append(Order(1))
        assert ids(log) == [0, 9, 1]


def test_killed_process_does_not_keep_a_topic_unsealed(tmp_path: Path) -> None:
    program = begun(tmp_path / "log", "appends")
    program.kill()
    program.communicate(timeout=60)
    with commitlog.topic(tmp_path / "log", Order, keys=RING) as orders:
        orders.append(Order(1))
        assert ids(orders.log) == [0, 1]


def test_process_that_opened_an_unsealed_topic_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    program = begun(path, "opens")
    with commitlog.topic(path, Order, keys=RING) as orders:
        orders.append(Order(1))
        shown, _ = program.communicate("\n", timeout=60)
        assert shown.startswith("SchemaError another handle has sealed topic 'Order'")
        orders.append(Order(2))
        assert ids(orders.log) == [1, 2]


@pytest.mark.parametrize("options", [{}, {"compress": "zstd"}])
def test_handle_does_not_seal_what_it_appends_to_unsealed(log: CommitLog, options: Any) -> None:
    plain = commitlog.topic(log, Order, **options)
    plain.append(Order(1))
    sealing = commitlog.topic(log, Order, keys=RING, **options)
    for _ in range(2):
        with pytest.raises(InUseError):
            sealing.append_many([Order(2)] * 2)
    plain.append(Order(3))
    commitlog.topic(log, Refund, keys=RING).append(Refund(1))  # another topic
    assert [order.id for order in plain.tailer()] == [1, 3]


def test_topic_is_not_bound_while_another_handle_seals_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with (
        commitlog.topic(path, Order, keys=RING) as sealing,
        commitlog.topic(path, Order, keys=RING) as late,
        commitlog.topic(path, Order, keys=RING, seal_positions=True) as binding,
    ):
        sealing.append(Order(0))
        with pytest.raises(InUseError, match="without seal_positions=True"):
            binding.append(Order(1))
        sealing.log.close()
        binding.append(Order(1))
        late.append(Order(2))  # binds, too
        assert ids(binding.log) == [0, 1, 2]
        assert [record.type for record in messages(binding.log)[1:]] == [
            messages(binding.log)[1].type
        ] * 2


def test_forked_child_keeps_its_topic_unsealed(tmp_path: Path) -> None:
    """It may append, also when its parent has closed the log."""
    path = tmp_path / "log"
    with commitlog.topic(path, Order) as orders:
        orders.append(Order(0))
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writes)
            os.read(reads, 1)
            os._exit(0)
        os.close(reads)
    with commitlog.topic(path, Order, keys=RING) as orders:
        with pytest.raises(InUseError):
            orders.append(Order(1))
        os.close(writes)
        os.waitpid(child, 0)
        orders.append(Order(1))
        assert ids(orders.log) == [0, 1]


def test_ring_that_cannot_seal_leaves_the_topic_unsealed(tmp_path: Path) -> None:
    def fails(key_id: str, data: bytes) -> bytes:
        raise OSError(f"{key_id} is away, with {len(data)} bytes")

    for ring in (KeyRing.of_text(""), KeyRing("2025", fails, fails)):
        with (
            commitlog.topic(tmp_path / "log", Order, keys=ring) as orders,
            pytest.raises(KeyUnavailableError),
        ):
            orders.append(Order(1))
    with commitlog.topic(tmp_path / "log", Order) as orders:
        orders.append(Order(2))
        assert len(messages(orders.log)) == 1
        assert [order.id for order in orders.tailer()] == [2]


def test_refused_handle_appends_nothing(tmp_path: Path) -> None:
    with (
        commitlog.topic(tmp_path / "log", Order) as plain,
        commitlog.topic(tmp_path / "log", Order, keys=RING) as sealing,
    ):
        sealing.append(Order(1))
        with pytest.raises(SchemaError, match="open the topic again"):
            plain.append(Order(2))
        with pytest.raises(SchemaError):
            plain.append_many([Order(2)] * 2)
        assert ids(sealing.log) == [1]
    with commitlog.topic(tmp_path / "log", Order, keys=RING) as again:
        again.append(Order(2))
        assert ids(again.log) == [1, 2]

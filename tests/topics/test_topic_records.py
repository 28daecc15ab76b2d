"""The schemas of a log are in its records: in each segment, after kills, for every process, in
archives; the folder `topics` is a copy of them.
"""

from __future__ import annotations

import itertools
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
import commitlog.keep
from commitlog.errors import SchemaError
from commitlog.topics import schema as schema_module
from commitlog.topics.schema import SCHEMA_TYPE
from tests.steps import killed_at
from tests.tools.cli.program import run as run_command
from tests.topics.orders import Order, Refund, ended, records, run, schema_positions

SEGMENT = 65536


def segments_without_schema(log: commitlog.CommitLog, number: int) -> set[int]:
    """Segments with a message of that type number before which they have no schema."""
    found, described = set(), set()
    for record in records(log):
        segment = record.position // SEGMENT
        if record.type == SCHEMA_TYPE and record.key == b"schema:%08x" % number:
            described.add(segment)
        elif record.type == number and segment not in described:
            found.add(segment)
    return found


def filled(log: commitlog.CommitLog, topic: Any, messages: int = 3000) -> int:
    """Append messages, alone and in lists; return their type number."""
    for number in range(0, messages, 10):
        topic.append(Order(number))
        topic.append_many([Order(number + more) for more in range(1, 10)])
    return log.read(log.last_position or 0).type


def test_each_segment_begins_its_messages_with_the_schema(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        orders, refunds = commitlog.topic(log, Order), commitlog.topic(log, Refund)
        for number in range(3000):
            orders.append(Order(number))
            refunds.append(Refund(number))
        log.roll()
        number = log.read(orders.append(Order(3000))).type
        other = log.read(refunds.append(Refund(3000))).type
        segments = {record.position // SEGMENT for record in records(log)}
        assert len(segments) > 3
        assert segments_without_schema(log, number) <= {max(segments)}  # after log.roll()
        assert segments_without_schema(log, other) <= {max(segments)}
        assert {position // SEGMENT for position in schema_positions(log)} == segments
        assert len(schema_positions(log)) <= 2 * len(segments) + 2


def test_lists_over_many_segments_have_schemas_first(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        number = filled(log, commitlog.topic(log, Order))
        topic = commitlog.topic(log, Order)
        topic.append_many([Order(n) for n in range(3000)], keys=[b"key"] * 3000)
        assert segments_without_schema(log, number) == set()


@pytest.mark.parametrize("many", [False, True])
def test_segment_that_another_writer_begins_gets_the_schema(tmp_path: Path, many: bool) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        orders = commitlog.topic(log, Order)
        orders.append(Order(1))
        with commitlog.open(tmp_path / "log") as other:
            other.roll()
            other.append(b"other")
        position = int(orders.append_many([Order(2)])[0]) if many else orders.append(Order(2))
        _, described = schema_positions(log)  # right behind the message
        assert position // SEGMENT == described // SEGMENT == 1
        orders.append(Order(3))
        assert len(schema_positions(log)) == 2


@pytest.mark.parametrize("size", [100, 3000, 8050])
def test_large_messages_have_schemas_first(tmp_path: Path, size: int) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        orders = commitlog.topic(log, Order)
        generator = random.Random(size)
        for number in range(200):
            orders.append(Order(number, "x" * generator.randrange(size)), key=b"key")
        found = log.read(orders.append(Order(200))).type
        assert segments_without_schema(log, found) == set()
        assert [order.id for order in orders.tailer()] == list(range(201))


def test_schema_outlives_the_segments_that_retention_deletes(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        filled(log, commitlog.topic(log, Order), 6000)
        log.flush()
        log.delete_before(log.tail_position)
        assert log.first_position > SEGMENT
        rest = len([record for record in records(log) if record.type != SCHEMA_TYPE])
    shutil.rmtree(tmp_path / "log" / "topics")
    with commitlog.topic(tmp_path / "log", Order, mode="r") as orders:
        assert len(list(orders.tailer())) == rest
        assert not (tmp_path / "log" / "topics").exists()


def test_each_segment_file_alone_can_be_decoded(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        filled(log, commitlog.topic(log, Order))
        total = len(list(commitlog.topic(log, Order).tailer()))
    found = 0
    for path in sorted((tmp_path / "log").glob("*.seg")):
        with commitlog.open(path, "r") as log:
            if log.count():
                found += len(list(commitlog.topic(log, Order).tailer()))
    assert found == total == 3000


def test_archived_messages_are_decoded(tmp_path: Path) -> None:
    archive = commitlog.Store(tmp_path / "archive")
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        filled(log, commitlog.topic(log, Order))
        log.roll()
        log.flush()
    commitlog.keep.archive_segments(str(tmp_path / "log"), archive)
    with commitlog.open(tmp_path / "archive", "r") as log:
        found = [order.id for order in commitlog.topic(log, Order).tailer()]
    assert found == list(range(len(found)))
    assert len(found) > 2000


# --- the folder -----------------------------------------------------------------------------------


def test_folder_is_made_again_from_the_records(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order) as orders:
        orders.append(Order(1))
    folder = tmp_path / "log" / "topics"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    shutil.rmtree(folder)
    with commitlog.topic(tmp_path / "log", Order) as orders:
        assert list(orders.tailer()) == [Order(1)]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert len(before) == 2


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format":1'])
def test_damaged_file_of_the_folder_is_replaced(tmp_path: Path, content: bytes) -> None:
    with commitlog.topic(tmp_path / "log", Order) as orders:
        orders.append(Order(1))
    (path,) = (tmp_path / "log" / "topics").glob("*.json")
    whole = path.read_bytes()
    path.write_bytes(content)
    with commitlog.topic(tmp_path / "log", Order) as orders:
        assert list(orders.tailer()) == [Order(1)]
        orders.append(Order(2))
    assert path.read_bytes() == whole


def test_deleted_schema_allows_another_class(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        commitlog.topic(log, Refund, name="shop").append(Refund(1))
    with commitlog.open(tmp_path / "log") as log:
        with pytest.raises(SchemaError):
            commitlog.topic(log, Order, name="shop")
        for _ in range(3):
            log.roll()
            log.append(b"other")
        log.flush()
        log.delete_before(log.tail_position)
        assert schema_positions(log) == []
        commitlog.topic(log, Order, name="shop").append(Order(1))
    assert len(list((tmp_path / "log" / "topics").glob("*.json"))) == 1


def test_two_schemas_of_one_number_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_module, "_NUMBER_MASK", 0)
    with commitlog.open(tmp_path / "log") as log:
        commitlog.topic(log, Order).append(Order(1))
        refunds = commitlog.topic(log, Refund)
        before = log.count()
        with pytest.raises(SchemaError, match="another schema of this log has the same type"):
            refunds.append(Refund(1))
        assert log.count() == before


def test_remove_deletes_the_folder(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path / "log", Order) as orders:
        orders.append(Order(1))
    assert run_command("remove", "--yes", str(tmp_path / "log")).returncode == 0
    assert not (tmp_path / "log").exists()


# --- processes and kills --------------------------------------------------------------------------

WRITER = """
log = commitlog.open(sys.argv[1], segment_size="64KiB")
orders = commitlog.topic(log, Order)
for number in range(int(sys.argv[2]), int(sys.argv[2]) + 2000):
    orders.append(Order(number))
log.close()
"""


def test_processes_that_create_one_topic_at_once_agree(tmp_path: Path) -> None:
    writers = [run(WRITER, tmp_path / "log", first) for first in (0, 2000, 4000)]
    assert [ended(writer) for writer in writers] == [0, 0, 0]
    with commitlog.topic(tmp_path / "log", Order, mode="r") as orders:
        assert sorted(order.id for order in orders.tailer()) == list(range(6000))
        log = orders.log
        types = {record.type for record in records(log)}
        assert len(types) == 2  # one for the schema, one for the messages
        assert {position // SEGMENT for position in schema_positions(log)} == {
            record.position // SEGMENT for record in records(log)
        }
    assert len(list((tmp_path / "log" / "topics").glob("*.json"))) == 1


def test_messages_of_another_process_are_read_by_an_open_tailer(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        tailer = commitlog.topic(log, Order).tailer()
        assert list(tailer) == []
        assert ended(run(WRITER, tmp_path / "log", 0)) == 0
        assert [order.id for order in tailer] == list(range(2000))


def test_kill_at_any_step_leaves_every_message_decodable(tmp_path: Path) -> None:
    for step in itertools.count(1):
        path = tmp_path / f"log{step}"

        def prepare(path: Path = path) -> Callable[[], object]:
            log = commitlog.open(path, segment_size=SEGMENT)

            def act() -> None:
                orders = commitlog.topic(log, Order)
                orders.append(Order(1))
                orders.append(Order(2))
                log.roll()
                orders.append(Order(3))
                orders.append(Order(4))

            return act

        was_killed = killed_at(step, prepare)
        for copied in (False, True):
            if copied:  # only what is in the records
                shutil.rmtree(path / "topics", ignore_errors=True)
            with commitlog.topic(path, Order) as orders:
                found = [order.id for order in orders.tailer()]
                assert found == [1, 2, 3, 4, 9][: len(found)], step
                if copied:
                    orders.append(Order(9))
                    number = orders.log.read(orders.log.last_position or 0).type
                    assert schema_positions(orders.log)[-1] // SEGMENT == (
                        (orders.log.last_position or 0) // SEGMENT
                    )
                    assert number != SCHEMA_TYPE
        if not was_killed:
            assert found == [1, 2, 3, 4]
            break
    assert step > 8


@pytest.mark.parametrize("seed", range(5))
def test_topic_of_a_killed_writer_is_readable(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    generator = random.Random(seed)
    last = -1
    for _ in range(3):
        writer = run(ENDLESS, tmp_path / "log", last + 1)
        assert writer.stdout is not None
        for _ in range(generator.randrange(1, 40)):
            acknowledged = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        writer.wait(60)
        writer.stdout.close()
        with commitlog.topic(tmp_path / "log", Order, mode="r") as orders:
            found = [order.id for order in orders.tailer()]
        assert found == list(range(len(found)))
        last = found[-1]
        assert last >= acknowledged


ENDLESS = """
orders = commitlog.topic(sys.argv[1], Order, segment_size="64KiB")
number = int(sys.argv[2])
while True:
    for _ in range(20):
        orders.append(Order(number))
        number += 1
    orders.append_many([Order(number + more) for more in range(50)])
    number += 50
    print(number - 1, flush=True)
"""

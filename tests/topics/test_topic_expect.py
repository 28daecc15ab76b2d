"""`expect=` of a topic: schema and messages are appended at that sequence, or not at all."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import ConflictError, RecordTooLargeError
from commitlog.topics.schema import SCHEMA_TYPE
from tests.topics.orders import Order, records, schema_positions

SEGMENT = 65536


def test_expected_end_appends_schema_and_message(log: commitlog.CommitLog) -> None:
    log.append(b"other")
    orders = commitlog.topic(log, Order)
    first = orders.append(Order(1), expect=1)
    second = orders.append(Order(2), key=b"key", timestamp_ns=5, expect=3)
    assert [record.type == SCHEMA_TYPE for record in records(log)] == [False, True, False, False]
    assert (log.read(first).sequence, log.read(second).sequence) == (2, 3)
    assert (log.read(second).key, log.read(second).timestamp_ns) == (b"key", 5)


def test_other_end_appends_no_schema_and_no_message(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    log.append(b"other")
    with pytest.raises(ConflictError) as caught:
        orders.append(Order(1), expect=0)
    assert (caught.value.expected, caught.value.actual) == (0, 1)
    with pytest.raises(ConflictError):
        orders.append_many([Order(1), Order(2)], expect=2)
    with pytest.raises(ConflictError):
        asyncio.run(orders.append_async(Order(1), expect=0))
    assert [record.value for record in records(log)] == [b"other"]
    orders.append(Order(1))
    assert list(orders.tailer()) == [Order(1)]


def test_next_sequence_counts_records_of_all_kinds(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    tailer = orders.tailer()
    assert tailer.next_sequence == 0
    for number in range(700):  # over some segments
        log.append(b"other" * 20)
        assert list(tailer) == []
        orders.append(Order(number), expect=tailer.next_sequence)
        assert list(tailer) == [Order(number)]
    assert len(schema_positions(log)) == log.tail_position // SEGMENT + 1 > 2
    assert tailer.next_sequence == log.count()


def test_list_at_the_end_of_a_segment_is_whole(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    many = [Order(number) for number in range(60)]
    for _ in range(30):
        end = log.count()
        positions = orders.append_many(many, expect=end)
        assert len({position // SEGMENT for position in positions.tolist()}) == 1
        assert schema_positions(log)[-1] // SEGMENT == positions[-1] // SEGMENT
    assert len(list(orders.tailer())) == 30 * 60
    assert log.tail_position > 2 * SEGMENT


@pytest.mark.parametrize("room", [8000, 9000])
def test_large_message_is_appended_whole_or_refused(log: commitlog.CommitLog, room: int) -> None:
    orders = commitlog.topic(log, Order)
    if room > log.largest_value:
        with pytest.raises(RecordTooLargeError):
            orders.append_many([Order(1, "x" * 4500), Order(2, "x" * 4500)], expect=0)
        assert log.count() == 0
        return
    orders.append(Order(1, "x" * room), expect=0)  # the schema does not fit beside it
    assert [record.type == SCHEMA_TYPE for record in records(log)] == [False, True]
    assert len(list(orders.tailer())) == 1


def test_concurrent_bookings_never_exceed_the_seats(tmp_path: Path) -> None:
    seats, path = 40, tmp_path / "log"
    commitlog.open(path, segment_size=SEGMENT).close()

    def book(first: int) -> None:
        with commitlog.topic(path, Order) as orders:
            tailer = orders.tailer(visibility="appended")
            taken = 0
            number = first
            while True:
                taken += len(list(tailer))
                if taken == seats:
                    return
                try:
                    orders.append(Order(number, "x" * 3000), expect=tailer.next_sequence)
                except ConflictError:
                    continue
                number += 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(book, range(0, 4000, 1000)))
    with commitlog.topic(path, Order, mode="r") as orders:
        found = [order.id for order in orders.tailer()]
    assert len(found) == len(set(found)) == seats

"""Views read the same records as a filter over all records, with lists and without."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog, Record
from commitlog._kernel.readers import Selection
from commitlog.errors import (
    CommitLogError,
    InvalidOptionError,
    RecordTypeError,
)
from commitlog.log.parts import parts_of
from commitlog.tail.postings import LogPostings
from tests.setups import BY_HAND, SEGMENT, Logs, Setup

COUNT = 4500


def filled(log: CommitLog, seed: int = 1, count: int = COUNT) -> None:
    """Append records of common, rare and unique types and keys, with headers, over segments."""
    chance = random.Random(seed)
    for number in range(count):
        log.append(
            b"value %d" % number,
            type=chance.choice([0, 0, 0, 1, 2, 3, 50, number]),
            key=chance.choice([None, b"", b"common", b"k%d" % (number % 90), b"u%d" % number]),
            timestamp_ns=1_000 + number,
            headers={"a": b"b"} if number % 50 == 0 else None,
            sync=False,
        )
    log.commit()
    log.flush()
    assert parts_of(log).writer.allocation.sealed_below() > 1


def seen(records: Iterator[Record] | list[Record]) -> list[tuple[Any, ...]]:
    return [(each.position, each.type, each.key, each.value, each.headers) for each in records]


SELECTIONS: list[dict[str, Any]] = [
    {"type": 0},
    {"type": 3},
    {"type": 50, "key": b"common"},
    {"type": 0, "key": b"k7"},
    {"key": b""},
    {"key": b"k7"},
    {"key": b"u%d" % (COUNT // 2)},
    {"key": b"nowhere"},
    {"type": 777_777},
]


def is_in(record: Record, type: int | None = None, key: bytes | None = None) -> bool:
    return (type is None or record.type == type) and (key is None or record.key == key)


def check_all(log: CommitLog, **options: Any) -> None:
    every = list(log.tailer(**options))
    for selection in SELECTIONS:
        expected = [each for each in every if is_in(each, **selection)]
        assert seen(log.view(**selection, **options)) == seen(expected), selection
        backward = log.view(**selection, direction="backward", **options)
        assert seen(backward) == seen(expected[::-1]), selection
        batch = log.view(**selection, **options).read_batch()
        assert batch.positions.tolist() == [each.position for each in expected]
        assert batch.sequences.tolist() == [each.sequence for each in expected]
        assert batch.headers == [each.headers for each in expected]
        assert batch.values() == [each.value for each in expected]


def test_view_reads_what_a_filter_reads(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, **BY_HAND)
    filled(log)
    reader = logs.open(mode="r")
    check_all(reader)  # without lists
    assert not list(Path(log.path).glob("*.pst"))
    check_all(log, visibility="appended")
    check_all(log)
    check_all(log, visibility="flushed")
    assert len(list(Path(log.path).glob("*.pst"))) > 1
    check_all(reader)


def test_seek_positions_and_directions_are_as_of_a_filter(logs: Logs) -> None:
    log = logs.open(**BY_HAND)
    filled(log, seed=5)
    every = list(log.tailer())
    chance = random.Random(3)
    for selection in (SELECTIONS[1], SELECTIONS[5], SELECTIONS[0]):
        wanted = [each for each in every if is_in(each, **selection)]
        tailer = log.view(**selection)
        for place in chance.sample(every, 60):
            tailer.direction = chance.choice(["forward", "backward"])
            tailer.seek(place.position)
            assert tailer.position == place.position
            got = seen(list(itertools.islice(tailer, 3)))
            if tailer.direction == "forward":
                rest = [each for each in wanted if each.position >= place.position]
            else:
                rest = [each for each in wanted if each.position < place.position][::-1]
            assert got == seen(rest[:3])
    tailer = log.view(type=3)
    tailer.seek(sequence=2000)
    assert tailer.read().sequence == min(  # type: ignore[union-attr]
        each.sequence for each in every if each.type == 3 and each.sequence >= 2000
    )
    assert tailer.seek(key=b"k7")
    assert is_in(tailer.read(), type=3, key=b"k7")  # type: ignore[arg-type]


def test_followed_view_yields_what_arrives(logs: Logs) -> None:
    log = logs.open(**BY_HAND)
    filled(log)
    tailer = log.view(type=3, start="end")
    assert tailer.read() is None
    follow = tailer.follow(timeout=60)
    for number in range(3 * SEGMENT // 40):
        log.append(b"%d" % number, type=number % 300)
        if number % 300 == 3:
            record = next(follow)
            assert (record.type, record.value) == (3, b"%d" % number)
    assert tailer.read(timeout=0.001, idle="block") is None


def test_named_view_goes_on_behind_what_it_read(logs: Logs) -> None:
    log = logs.open(**BY_HAND)
    filled(log)
    expected = [each.value for each in log.tailer() if each.type == 3]
    with log.view("mine", type=3) as tailer:
        first = list(itertools.islice(tailer.values(), 5))
        assert tailer.name == "mine"
    with log.view("mine", type=3) as tailer:
        again = tailer.read()
        assert again is not None
        assert again.value == expected[4]  # a loop that is left early yields its last record again
        with pytest.raises(ZeroDivisionError), tailer.reading() as record:
            1 // (record is None)
        rest = [record.value for record in tailer]
    assert [*first[:4], again.value, *rest] == expected
    with log.view("mine", type=3) as tailer:
        assert tailer.read() is None
        assert tailer.position == log.tail_position


def test_large_records_fill_batches_of_a_view(logs: Logs) -> None:
    log = logs.open(segment_size="64MiB", **BY_HAND)
    for number in range(40):
        log.append(bytes([number]) * (200 if number % 3 else 7 << 20), type=number % 2)
    tailer = log.view(type=1)
    got = []
    while len(batch := tailer.read_batch()):
        got += [value[0] for value in batch.values()]
    assert got == list(range(1, 40, 2))


# --- find -----------------------------------------------------------------------------------------


def test_find_returns_the_last_records_of_a_key(logs: Logs) -> None:
    log = logs.open(**BY_HAND)
    filled(log)
    every = [each for each in log.tailer() if each.key == b"k7"]
    assert seen(log.find(b"k7")) == seen(every[-1:])
    assert seen(log.find(b"k7", last=4)) == seen(every[-4:])
    assert seen(log.find(b"k7", last=None)) == seen(every)
    assert log.find(b"nowhere") == []
    assert seen(log.find(memoryview(b"k7"), type=0, last=None)) == seen(
        [each for each in every if each.type == 0]
    )


def test_find_stays_in_its_range_of_time(logs: Logs) -> None:
    log = logs.open(**BY_HAND)
    filled(log)
    every = [each for each in log.tailer() if each.key == b"k7"]
    for since, until in itertools.product((None, 0, 2500, 5000, 9**9), repeat=2):
        expected = [
            each
            for each in every
            if (since is None or each.timestamp_ns >= since)
            and (until is None or each.timestamp_ns < until)
        ]
        found = log.find(b"k7", since=since, until=until, last=None)
        assert seen(found) == seen(expected), (since, until)


def test_find_reads_no_segment_below_since(logs: Logs) -> None:
    log = logs.open(**BY_HAND)
    filled(log)
    log.find(b"nowhere", since=1_000 + COUNT - 10)
    assert not list(Path(log.path).glob("*.pst"))  # which a read would have built
    assert log.find(b"nowhere", since=1_000) == []
    assert (Path(log.path) / f"{0:020d}.pst").exists()


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda log: log.view(), InvalidOptionError),
        (lambda log: log.view(type=-1), InvalidOptionError),
        (lambda log: log.view(type=1 << 32), InvalidOptionError),
        (lambda log: log.view(type="1"), InvalidOptionError),
        (lambda log: log.view(key="text"), RecordTypeError),
        (lambda log: log.view(type=1, topic="a"), InvalidOptionError),
        (lambda log: log.view(topic=1), InvalidOptionError),
        (lambda log: log.view(type=1, direction="up"), InvalidOptionError),
        (lambda log: next(log.view(type=1).striding()), InvalidOptionError),
        (lambda log: log.view(type=1).search(lambda record: record.value, 1), InvalidOptionError),
        (lambda log: log.find(None), RecordTypeError),
        (lambda log: log.find(b"k", last=0), InvalidOptionError),
        (lambda log: log.find(b"k", last=True), InvalidOptionError),
        (lambda log: log.find(b"k", since="no time"), InvalidOptionError),
    ],
)
def test_wrong_arguments_raise(
    logs: Logs, call: Callable[[Any], object], error: type[CommitLogError]
) -> None:
    log = logs.open()
    with pytest.raises(error):
        call(log)


def test_view_of_a_closed_log_raises(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        tailer = log.view(type=1)
    with pytest.raises(commitlog.errors.ClosedError):
        log.view(type=1)
    with pytest.raises(commitlog.errors.ClosedError):
        log.find(b"k")
    with pytest.raises(commitlog.errors.ClosedError):
        tailer.read()


def test_find_ends_where_retention_deletes_meanwhile(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logs.open(**BY_HAND)
    filled(log)
    check_all(log)
    lacks, last = LogPostings.lacks, log.tail_position // SEGMENT
    kept: list[int] = []

    def lacks_after_deletion(self: LogPostings, number: int, selection: Selection) -> bool:
        if number < last and not kept:
            with commitlog.open(log.path) as other:
                kept.append(other.delete_before(last * SEGMENT))
        return lacks(self, number, selection)

    monkeypatch.setattr(LogPostings, "lacks", lacks_after_deletion)
    found = seen(log.find(b"common", last=None))
    remaining = seen([each for each in log.tailer() if each.key == b"common"])
    assert kept
    assert found[-len(remaining) :] == remaining

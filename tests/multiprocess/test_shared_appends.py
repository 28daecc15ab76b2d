"""Many processes append to one log: no record is lost or duplicated, each writer's order is kept,
and every reader sees the same order.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog
from tests.faults.child import Child, Link
from tests.multiprocess.readers import (
    LAST,
    LIMIT_S,
    READY,
    Seen,
    digest_of,
    read_to_last,
    seen_by,
    values_of,
)

Start = Callable[..., Child]
WRITERS = 8
_MARK = struct.Struct("<HI")
DONE, HALF = "D", "H"


def value_of(writer: int, index: int) -> bytes:
    """Return the record: 6 to 56 bytes, most of them its own pattern."""
    return _MARK.pack(writer, index) + bytes([(writer * 31 + index) % 251]) * (index * 7 % 51)


def append_all(link: Link, path: str, writer: int, count: int) -> None:
    """Append `count` records, singly and in batches; report when half and all of them are
    appended.
    """
    with commitlog.open(path, flush="none", segment_size=1 << 20) as log:
        link.wait()
        for first in range(0, count, 100):
            values = [value_of(writer, index) for index in range(first, min(first + 100, count))]
            if first // 100 % 5 == 4:
                log.append_many(values)
            else:
                for value in values:
                    log.append(value)
            if first <= count // 2 < first + 100:
                link.say(HALF, writer, first, log.tail_position)
        link.say(DONE, writer, count, log.stats().refused_claims)


def check_order(values: list[bytes], count: int) -> None:
    """Check that each writer's records are all there, once, in the order of their appends."""
    following = [0] * WRITERS
    for value in values:
        writer, index = _MARK.unpack_from(value)
        assert index == following[writer], (
            f"after record {following[writer] - 1} of writer {writer} comes {index}"
        )
        assert value == value_of(writer, index)
        following[writer] = index + 1
    assert following == [count] * WRITERS


EARLY = [("records", "r"), ("values", "a"), ("batches", "r")]


def append_and_compare(path: Path, count: int, start: Start) -> None:
    """Run writers and readers at once, then compare what each reader saw with the log."""
    with commitlog.open(path, flush="none", segment_size=1 << 20) as log:
        writers = [start(append_all, str(path), writer, count) for writer in range(WRITERS)]
        readers = [start(read_to_last, str(path), style, mode, "first") for style, mode in EARLY]
        for reader in readers:
            assert reader.hear(1)[0].kind == READY
        for writer in writers:
            writer.go_on()
        writers[0].hear(1, LIMIT_S)  # half of the records are appended
        late = [
            start(read_to_last, str(path), "values", "r", "first"),
            start(read_to_last, str(path), "batches", "r", "end"),
        ]
        begins = [reader.hear(1)[0].position for reader in late]
        for writer in writers[1:]:
            writer.hear(1, LIMIT_S)
        print("refused claims:", sum(writer.hear(1, LIMIT_S)[0].position for writer in writers))
        for writer in writers:
            writer.join()
        log.append(LAST)
        values = values_of(log)
        check_order(values, count)
        assert [seen_by(reader)[0::2] for reader in readers] == [
            (len(values), digest_of(values))
        ] * len(readers)
        check_rest(log, [seen_by(reader) for reader in late], begins)


def check_rest(log: CommitLog, seen: list[Seen], begins: list[int]) -> None:
    """Check that each reader saw the same order, from its start to the last record."""
    whole = [(record.position, record.value) for record in log.tailer()]
    end = next(position for position, value in whole if value == LAST)
    for reader, begin in zip(seen, begins, strict=True):
        rest = [value for position, value in whole if begin <= position < end]
        assert (reader.count, reader.digest) == (len(rest), digest_of(rest))


def test_eight_processes_append_and_every_reader_sees_one_order(path: Path, start: Start) -> None:
    append_and_compare(path, 1500, start)


@pytest.mark.long
def test_800_000_appends_by_8_processes_read_in_one_order(path: Path, start: Start) -> None:
    append_and_compare(path, 100_000, start)


def append_until_told(link: Link, path: str, writer: int) -> None:
    """Append until the log has its last record."""
    with commitlog.open(path, flush="none") as log, log.tailer(start="end") as tailer:
        for index in itertools.count():
            log.append(value_of(writer, index))
            if index == 200:
                link.say(HALF, writer, index, log.tail_position)
            if index % 100 == 0 and LAST in tailer.values():
                return


def test_readers_opened_amid_appends_see_the_same_later_order(path: Path, start: Start) -> None:
    """From the first record, from a record's position and from the end, in a writing and in a
    read-only process.
    """
    with commitlog.open(path, flush="none", segment_size=1 << 16) as log:
        writers = [start(append_until_told, str(path), writer) for writer in range(3)]
        for writer in writers:
            writer.hear(1)
        there = [record.position for record in itertools.islice(log.tailer(), 300)]
        places: list[str | int] = ["first", "end", there[150], there[-1]]
        readers = [
            start(read_to_last, str(path), "records", mode, place)
            for mode in ("r", "a")
            for place in places
        ]
        starts = [reader.hear(1)[0].position for reader in readers]
        assert starts[2:4] == [there[150], there[-1]]
        log.append(LAST)
        seen = [seen_by(reader) for reader in readers]
        for writer in writers:
            writer.join()
        check_rest(log, seen, starts)

"""Reader processes that report the number, the first position and a digest of the records read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import commitlog
from commitlog import CommitLog
from commitlog.tail.tailer import Tailer
from tests.faults.child import Child, Link, Report

SEEN, READY = "S", "R"
LIMIT_S = 600.0
LAST = b"the last record"  # after all other records: every reader ends here


class Seen(NamedTuple):
    """The report of a reader."""

    count: int
    first: int
    digest: int


def digest_of(values: Iterable[bytes]) -> int:
    """Return a number that depends on the values and their order."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(len(value).to_bytes(4, "little") + value)
    return int.from_bytes(digest.digest()[:7], "little")


def _records(tailer: Tailer) -> Iterator[bytes]:
    before = -1
    for record in tailer.follow(timeout=LIMIT_S):
        assert record.position > before
        before = record.position
        yield record.value


def _values(tailer: Tailer) -> Iterator[bytes]:
    while True:
        yield from tailer.values()
        record = tailer.read(timeout=LIMIT_S, idle="block")
        assert record is not None, "nothing came"
        yield record.value


def _batches(tailer: Tailer) -> Iterator[bytes]:
    while True:
        batch = tailer.read_batch(max_records=1000, timeout=LIMIT_S)
        assert len(batch), "nothing came"
        yield from batch.values()


STYLES = {"records": _records, "values": _values, "batches": _batches}


def read_to_last(link: Link, path: str, style: str, mode: str, start: str | int) -> None:
    """Read from `start` to the last record, and report the records before it."""
    with (
        commitlog.open(path, mode, flush="none")
        if mode == "a"
        else commitlog.open(path, mode) as log
    ):
        tailer = log.tailer(start=start)  # type: ignore[arg-type]
        link.say(READY, position=tailer.position or 0)
        link.say(SEEN, *_until_last(STYLES[style](tailer), tailer))


def _until_last(values: Iterator[bytes], tailer: Tailer) -> Seen:
    first = tailer.position or 0
    count = 0

    def counted() -> Iterator[bytes]:
        nonlocal count
        for value in values:
            if value == LAST:
                return
            count += 1
            yield value

    digest = digest_of(counted())
    return Seen(count, first, digest)


def seen_by(reader: Child) -> Seen:
    """Return the report of a reader that has ended."""
    report: Report = reader.hear(1, LIMIT_S)[0]
    assert report.kind == SEEN
    reader.join()
    return Seen(report.session, report.index, report.position)


def values_of(log: CommitLog) -> list[bytes]:
    """Return all values but the last."""
    values = list(log.tailer().values())
    assert values.pop() == LAST
    return values

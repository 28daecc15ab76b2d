"""Checks of a log that a cut left: its records, its readers, and what `verify` says."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import commitlog
from commitlog import CommitLog
from commitlog.errors import CommitLogError
from commitlog.keep import verify
from tests.faults.account import check_prefixes
from tests.faults.device.diary import Story
from tests.faults.writers import (
    APPENDED,
    OPENED,
    SEGMENT_SIZE,
    Mark,
    close_log,
    mark_of,
    open_log,
    value_of,
)

FLUSHED = "F"  # the records below a position are durable
DELETED = "D"  # the segments below a position are deleted
AFTER = 99  # the session of the records that a check appends
_MORE = 20
_EVEN_BYTES = 112
_POOLS: tuple[dict[str, str] | None, ...] = (None, {}, {"backing": "shm"})


def even_value(session: int, index: int) -> bytes:
    """Return a record whose frame takes a quarter of a sector for any mark: so the frames
    before a cut and those after it begin at the same positions.
    """
    return (b"=%d:%d:" % (session, index)).ljust(_EVEN_BYTES, b".")


@functools.lru_cache(8192)  # many images of a record have the same bytes
def _mark_of(value: bytes) -> Mark:
    if not value.startswith(b"="):
        return mark_of(value)
    mark = Mark(*map(int, value[1:].split(b":")[:2]))
    assert value == even_value(*mark), f"not a record of ours: {value!r}"
    return mark


class Found(NamedTuple):
    """A record that a reader found."""

    position: int
    sequence: int
    mark: Mark


def found_in(log: CommitLog) -> list[Found]:
    """Return the records of a log; each is one of ours, and the sequences have no gap."""
    with log.tailer() as tailer:
        found = [Found(each.position, each.sequence, _mark_of(each.value)) for each in tailer]
    first = found[0].sequence if found else 0
    assert [each.sequence for each in found] == list(range(first, first + len(found)))
    return found


def read(folder: Path) -> list[Found]:
    """Return the records that a reader finds who opens a log anew."""
    with commitlog.open(folder, "r") as log:
        return found_in(log)


def check_sound(folder: Path) -> None:
    """Fail if `verify` finds damage."""
    report = verify(folder)
    assert report.sound, report


def check_log(
    folder: Path, story: Story, compare: Callable[[list[Found], Story], int] | None = None
) -> int:
    """Check a log with the records of `writers.value_of`; return how many were acknowledged.

    Readers see the same before and after the first writer. `compare` is what compares the records
    with the story; by default `check_records`.
    """
    exists = story.last(OPENED) is not None
    before: list[Found] | None = None
    with suppress(() if exists else CommitLogError):
        check_sound(folder)
        before = read(folder)
    log, pool = open_log(str(folder), _POOLS[len(story.told) % 3], {})
    found = found_in(log)
    assert before is None or found == before, (
        f"a reader found {len(before)} records before the recovery, and {len(found)} after it"
    )
    count = (compare or check_records)(found, story)
    for index in range(_MORE):
        log.append(value_of(AFTER, index))
    log.commit()
    after = found_in(log)
    assert after[: len(found)] == found
    assert [each.mark for each in after[len(found) :]] == [Mark(AFTER, i) for i in range(_MORE)]
    close_log(log, pool)
    check_sound(folder)
    assert read(folder) == after
    return count


def check_records(found: list[Found], story: Story) -> int:
    """Check that the records are an exact prefix with all that was acknowledged; return the number
    of those. Only what a deletion covers may be missing, at the beginning.
    """
    flushed = max((report.position for report in story.kinds(FLUSHED)), default=0)
    deleted = max((report.position for report in story.kinds(DELETED)), default=0)
    deleting = max((report.position for report in story.whole if report.kind == DELETED), default=0)
    marks = {each.position: each.mark for each in found}
    first = found[0].position // SEGMENT_SIZE * SEGMENT_SIZE if found else deleted
    assert deleted <= first <= max(deleting, 0), (
        f"the log begins at {first}; the deletions end at {deleted} to {deleting}"
    )
    end = max(marks, default=-1)
    promised = 0
    for report in story.whole:
        if report.kind != APPENDED:
            continue
        mark = Mark(report.session, report.index)
        is_promised = report.position < flushed and report in story.set
        if report.position >= first and (is_promised or report.position <= end):
            assert marks.get(report.position) == mark, (
                f"{mark} was appended at {report.position} and "
                f"{'acknowledged' if is_promised else 'records behind it survived'}; the log has "
                f"{marks.get(report.position)} there, ends at {end}, and was flushed to {flushed}"
            )
            promised += is_promised
    if first == 0 or deleting == 0:
        check_prefixes(marks, set())
    return promised

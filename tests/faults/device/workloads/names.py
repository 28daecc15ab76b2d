"""Named tailers and producers: what a log keeps under a name."""

from __future__ import annotations

import random

import commitlog
from tests.faults.device.checks import FLUSHED, check_sound
from tests.faults.device.diary import Diary, Story
from tests.faults.device.workload import Place, Workload
from tests.faults.test_named_tailers import filled
from tests.faults.test_tailer_power_cut import Kept, act, acts, kept_in, outcomes
from tests.faults.writers import APPENDED, OPENED

DONE = "T"
_RECORDS, _ACTS, _NUMBERS, _REPEATED = 1000, 120, 300, 40


# --- named tailers --------------------------------------------------------------------------------


def _prepare(place: Place) -> None:
    filled(str(place.disk / "log"), _RECORDS).close()


def _act(diary: Diary, place: Place, number: int) -> None:
    """Create, move, declare, evict and delete a tailer; each is durable when the call returns."""
    with commitlog.open(place.disk / "log", flush="none") as log:
        for index, (kind, chosen) in enumerate(acts(0)):
            if index == _ACTS:
                return
            act(log, kind, chosen)
            diary.say(DONE, 0, index)


def _check_acts(place: Place, story: Story) -> int:
    done = sum(1 for _ in story.kinds(DONE))
    kept: Kept | None = None
    coming = acts(0)
    for _ in range(done):
        kept = outcomes(kept, *next(coming))[-1]
    check_sound(place.disk / "log")
    found, possible = kept_in(place.disk / "log"), outcomes(kept, *next(coming))
    assert found in possible, f"after {done} operations: {found} is none of {possible}"
    return done


def _read(diary: Diary, place: Place, number: int) -> None:
    """Read records with a tailer whose position is durable, from one and the next handle."""
    for turn in range(4):
        log = commitlog.open(place.disk / "log", flush="none")
        with log, log.tailer("a", durable=True) as tailer:
            for index in range(turn * 60, turn * 60 + 60):
                record = tailer.read()
                assert record is not None
                assert record.value == b"%d" % index
                diary.say(DONE, 0, index)


def _check_read(place: Place, story: Story) -> int:
    last = story.last(DONE)
    done = 0 if last is None else last.index + 1
    kept = kept_in(place.disk / "log")
    assert (kept is None and done == 0) or (kept is not None and kept.index in (done, done + 1)), (
        f"{done} records were read; the tailer is at {kept}"
    )
    return done


# --- producers ------------------------------------------------------------------------------------


def _produce(diary: Diary, place: Place, number: int) -> None:
    """Append numbers once or twice, each at its position, and roll now and then."""
    generator = random.Random(number)
    log = commitlog.open(place.disk / "log", segment_size="64KiB", flush="async", wait_for_log=60)
    diary.say(OPENED, number)
    for index in range(_NUMBERS):
        for _ in range(generator.choice([1, 1, 2])):
            position = _append(log, number, index, sync=generator.random() < 0.2)
        diary.say(APPENDED, number, index, position)
        if generator.random() < 0.1:
            diary.say(FLUSHED, number, index, log.flush())
        if generator.random() < 0.03:
            log.roll()


def _append(log: commitlog.CommitLog, name: int, index: int, *, sync: bool = False) -> int:
    value = b"%d %d " % (name, index) + b"." * (index * 7919 % 600)
    return log.append(value, producer=f"till {name}", producer_sequence=index, sync=sync)


def _check_producers(place: Place, story: Story) -> int:
    folder = place.disk / "log"
    if story.last(OPENED) is not None:
        check_sound(folder)
    with commitlog.open(folder, segment_size="64KiB") as log:
        found = _numbers(log)
        promised = _check_numbers(found, story)
        _repeat(log, found)
        log.flush()
        after = _numbers(log)
    check_sound(folder)
    assert found.items() <= after.items()
    assert len(after) == len(found) + 2  # the next number of each name
    return promised


def _numbers(log: commitlog.CommitLog) -> dict[tuple[int, int], int]:
    """Return the position of each number of each name; none may be there twice."""
    found: dict[tuple[int, int], int] = {}
    with log.tailer() as tailer:
        for record in tailer:
            name, index = map(int, bytes(record.value).split()[:2])
            assert (name, index) not in found, f"number {index} of {name} is there twice"
            found[name, index] = record.position
    return found


def _check_numbers(found: dict[tuple[int, int], int], story: Story) -> int:
    flushed = max((report.position for report in story.kinds(FLUSHED)), default=0)
    for name in (0, 1):
        indexes = [index for each, index in found if each == name]
        assert indexes == list(range(len(indexes)))
    end = max(found.values(), default=-1)
    promised = 0
    for report in story.whole:
        is_promised = report.position < flushed and report in story.set
        if report.kind == APPENDED and (is_promised or report.position <= end):
            assert found.get((report.session, report.index)) == report.position, report
            promised += is_promised
    return promised


def _repeat(log: commitlog.CommitLog, found: dict[tuple[int, int], int]) -> None:
    """Append the last numbers again, which adds nothing, and the next number, which is new."""
    for name in (0, 1):
        count = sum(1 for each, _ in found if each == name)
        for index in range(max(0, count - _REPEATED), count):
            assert _append(log, name, index) == found[name, index]
        assert _append(log, name, count) > max(found.values(), default=-1)


WORKLOADS = (
    Workload("tailer-changes", (_act,), _check_acts, _prepare),
    Workload("tailer-reads", (_read,), _check_read, _prepare),
    Workload("producers", (_produce, _produce), _check_producers),
)

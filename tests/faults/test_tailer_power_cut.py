"""Named tailers and power cuts: a change that was durable when its call returned survives; any
other change is present completely or not at all.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import commitlog
from commitlog import CommitLog, Tailer
from commitlog.errors import TailerNotFoundError
from commitlog.log.parts import parts_of
from commitlog.tail.tailer_file import Durable
from commitlog.tail.tailer_folder import FOLDER
from tests.faults.child import Child, Link, Report
from tests.faults.shim import Shim
from tests.faults.test_named_tailers import filled
from tests.steps import killed_at

Start = Callable[..., Child]
DONE, KILLED = "D", "K"
RECORDS = 20_000
# Bytes of reports that a child may be ahead: no child ends before the last cut, no matter how long
# the parent is delayed.
AHEAD = 4096
SHARES = [0.0, 0.0, 0.2, 0.5, 0.9, 1.0]


class Kept(NamedTuple):
    """The state of a tailer: the index of its next record, and its terms."""

    index: int
    required: bool = False
    max_lag: int | None = None


def kept_in(remains: Path) -> Kept | None:
    """Return the tailer of a log opened after a power cut; None if there is none."""
    with commitlog.open(remains) as log:
        states = log.tailers()
        assert [state.damage for state in states] in ([], [None])
        assert not (remains / FOLDER).exists() or os.listdir(remains / FOLDER) == [
            state.name for state in states
        ]
        if not states:
            return None
        with log.tailer("a") as tailer:
            record = tailer.read()
            assert record is not None
            return Kept(int(record.value), states[0].required, states[0].max_lag_bytes)


def cuts(
    child: Child, shim: Shim, log: Path, numbers: random.Random, *, count: int, most: int
) -> Iterator[tuple[list[Report], Path]]:
    """Cut the power `count` times at random moments; yield the child's reports and the remains each
    time.
    """
    reports: list[Report] = []
    for turn in range(count):
        reports += child.hear(numbers.randint(1, most))
        reports += child.pause()
        remains = log.with_name(f"cut-{turn}")
        shim.shadow.cut_power(log, remains, numbers, numbers.choice(SHARES))
        yield reports, remains
        child.resume()


# --- saved positions ------------------------------------------------------------------------------


def read_on(link: Link, path: str, way: str, durable: Durable) -> None:
    """Report the number of records read after each saved position."""
    with filled(path, RECORDS) as log, log.tailer("a", durable=durable) as tailer:
        WAYS[way](link, tailer)
        link.wait()


def _read(link: Link, tailer: Tailer) -> None:
    for index in range(RECORDS - 2):
        tailer.read()
        link.say(DONE, 0, index + 1)


def _read_in_context(link: Link, tailer: Tailer) -> None:
    for index in range(RECORDS - 2):
        with tailer.reading():
            pass
        link.say(DONE, 0, index + 1)


def _loop(link: Link, tailer: Tailer) -> None:
    for index, _ in enumerate(tailer):
        link.say(DONE, 0, index)
        if index == RECORDS - 2:
            return


WAYS: dict[str, Callable[[Link, Tailer], None]] = {
    "read": _read,
    "reading": _read_in_context,
    "loop": _loop,
}


@pytest.mark.parametrize("way", WAYS)
def test_durable_position_survives_power_cuts(
    path: Path, start: Start, shim: Shim, numbers: random.Random, way: str
) -> None:
    child = start(
        read_on, str(path), way, True, environment=shim.environment(shadow=True), ahead=AHEAD
    )
    for reports, remains in cuts(child, shim, path, numbers, count=12, most=100):
        kept = kept_in(remains)
        assert kept in (Kept(reports[-1].index), Kept(reports[-1].index + 1))


def test_position_after_a_power_cut_is_one_that_was_saved(
    path: Path, start: Start, shim: Shim, numbers: random.Random
) -> None:
    child = start(
        read_on, str(path), "read", False, environment=shim.environment(shadow=True), ahead=AHEAD
    )
    for reports, remains in cuts(child, shim, path, numbers, count=12, most=100):
        kept = kept_in(remains)
        assert kept is not None
        assert 0 <= kept.index <= reports[-1].index + 1


def read_what_is_not_flushed(link: Link, path: str) -> None:
    with filled(path, 50) as log, log.tailer("a", durable=True) as tailer:
        log.append_many([b"lost"] * 50)
        assert len(list(tailer)) == 100
        link.say(DONE)
        link.wait()


def append_in_its_place(link: Link, path: str) -> None:
    with commitlog.open(path, flush="none") as log:
        assert log.count() == 50
        log.append_many([b"new"] * 40)
        log.flush()
        link.say(DONE)
        link.wait()


def test_tailer_past_lost_records_moves_durably_before_appends(
    path: Path, start: Start, shim: Shim
) -> None:
    remains, rest = path.with_name("remains"), path.with_name("rest")
    child = start(read_what_is_not_flushed, str(path), environment=shim.environment(shadow=True))
    child.hear(1)
    shim.shadow.cut_power(path, remains, random.Random(0), 0.0)
    child.kill()
    shim.shadow.settle(remains)
    child = start(append_in_its_place, str(remains), environment=shim.environment(shadow=True))
    child.hear(1)
    shim.shadow.cut_power(remains, rest, random.Random(0), 0.0)
    with commitlog.open(rest) as log, log.tailer("a") as tailer:
        assert list(tailer.values()) == [b"new"] * 40


# --- operations on a tailer -----------------------------------------------------------------------


def acts(seed: int) -> Iterator[tuple[str, int]]:
    """Yield random operations on a tailer, each with a number."""
    numbers = random.Random(seed)
    there = False
    while True:
        kind = numbers.choice(
            ["open", "require", "release", "read", *(["evict", "reset", "delete"] if there else [])]
        )
        there = kind != "delete"
        yield kind, numbers.randrange(500)


def act(log: CommitLog, kind: str, number: int) -> None:
    position = parts_of(log).index.position_of(number)
    if kind == "evict":
        log.evict_tailer("a")
    elif kind == "reset":
        log.reset_tailer("a", position)
    elif kind == "delete":
        log.delete_tailer("a")
    elif kind == "require":
        log.tailer("a", start=position, required=True, max_lag=number + 1).close()
    elif kind == "release":
        log.tailer("a", start=position, required=False).close()
    else:
        with log.tailer("a", start=position, durable=True) as tailer:
            if kind == "read":
                tailer.read()


def outcomes(kept: Kept | None, kind: str, number: int) -> list[Kept | None]:
    """Return the states possible during an operation; the last is the one after it."""
    if kind == "delete":
        return [kept, None]
    old = kept or Kept(number)
    if kind == "evict":
        new = old._replace(required=False)
    elif kind == "reset":
        new = old._replace(index=number)
    elif kind == "require":
        new = old._replace(required=True, max_lag=number + 1)
    elif kind == "release":
        new = old._replace(required=False, max_lag=None)
    else:
        new = old._replace(index=old.index + (kind == "read"))
    return [kept, old, new]


def act_on(link: Link, path: str, seed: int) -> None:
    with filled(path, 1000) as log:
        for kind, number in acts(seed):
            act(log, kind, number)
            link.say(DONE)


def test_completed_tailer_operations_survive_power_cuts(
    path: Path, start: Start, shim: Shim, numbers: random.Random
) -> None:
    """Created, declared required or not, moved, evicted, reset, deleted: the state of the last
    completed operation or of the one under way.
    """
    seed = numbers.randrange(1 << 30)
    child = start(act_on, str(path), seed, environment=shim.environment(shadow=True))
    expected, done = acts(seed), 0
    kept: Kept | None = None
    coming = next(expected)
    for reports, remains in cuts(child, shim, path, numbers, count=100, most=3):
        for _ in range(len(reports) - done):
            kept = outcomes(kept, *coming)[-1]
            coming = next(expected)
        done = len(reports)
        assert kept_in(remains) in outcomes(kept, *coming)


def take_over(link: Link, path: str, way: str) -> None:
    """Kill the creator of a tailer at one of its steps; another process continues with it. Each
    step has its own log.
    """
    for step in itertools.count(1):
        log = filled(f"{path}-{step}", 10)

        def make(log: CommitLog = log) -> Callable[[], object]:
            child = commitlog.open(log.path, "r")
            return lambda: child.tailer("a")

        killed = killed_at(step, make)
        if way == "reset":
            try:
                log.reset_tailer("a", parts_of(log).index.position_of(5))
            except TailerNotFoundError:
                log.tailer("a", start=parts_of(log).index.position_of(5)).close()
        else:
            log.tailer("a", required=True).close()
        link.say(KILLED if killed else DONE, 0, step)
        link.wait()


@pytest.mark.parametrize(
    ("way", "expected"), [("require", Kept(0, required=True)), ("reset", Kept(5))]
)
def test_tailer_of_a_killed_creator_becomes_durable(
    path: Path, start: Start, shim: Shim, way: str, expected: Kept
) -> None:
    child = start(take_over, str(path), way, environment=shim.environment(shadow=True))
    for step in itertools.count(1):
        (report,) = child.hear(1)
        remains = path.with_name(f"cut-{step}")
        shim.shadow.cut_power(path.with_name(f"{path.name}-{step}"), remains, random.Random(0), 0.0)
        assert kept_in(remains) == expected
        child.go_on()
        if report.kind == DONE:
            assert step > 6
            break

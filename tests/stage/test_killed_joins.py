"""A join killed at each of its steps, and its completion killed in turn: readers find all of its
records or none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog.options import Options
from commitlog.repair.repair import repair
from commitlog.repair.verification import verify
from commitlog.stage.joining import join
from tests.length import every
from tests.stage.making import SIZE, append, batch_of, numbered, read_all, stage
from tests.steps import killed_at

MOST_STEPS = 60
NEW = numbered(1500, first=1000)


def prepared(tmp_path: Path, state: str) -> tuple[Path, list[bytes]]:
    """Create a log; return its path and records."""
    path, before = tmp_path / "log", numbered(10)
    if state == "joined before":
        join(path, stage(tmp_path / "before", batch_of(before)), options=Options(segment_size=SIZE))
    else:
        append(path, before)
        if state == "ahead at a border":
            with commitlog.open(path) as log:
                log.roll()
    return path, before


@pytest.mark.parametrize("state", ["in a segment", "joined before", "ahead at a border"])
@every(2)
def test_kill_at_each_step_of_a_join_leaves_all_or_nothing(
    tmp_path: Path, state: str, every: int
) -> None:
    outcomes = []
    for step in range(1 + len(state) % every, MOST_STEPS, every):
        place = tmp_path / f"{step}"
        path, before = prepared(place, state)
        staged = stage(place / "staged", batch_of(NEW))
        with commitlog.open(path, "r") as log:
            tailer = log.tailer()
            assert list(tailer.values()) == before

            def act(path: Path = path, staged: list = staged) -> Callable[[], object]:
                return lambda: join(path, staged, query="q", batch=0)

            died = killed_at(step, act)
            seen = list(tailer.values())
            assert seen in ([], NEW)
            assert read_all(path) == before + seen
            assert verify(path).sound
            # The driver starts over: it stages the batch again and joins it under the same name.
            repeated = join(
                path, stage(place / "again", batch_of(NEW)), query="q", batch=0
            ).repeated
            outcomes.append(repeated)
            assert seen + list(tailer.values()) == NEW
        append(path, [b"on"])
        assert read_all(path) == [*before, *NEW, b"on"]
        report = verify(path)
        assert report.sound
        assert report.records == len(before) + len(NEW) + 1
        if not died:
            # A kill before the note undoes the join, a later one leaves it to be finished.
            assert outcomes == sorted(outcomes)
            assert set(outcomes) == {False, True}
            assert step > 10
            return
    pytest.fail(f"a join takes more than {MOST_STEPS} steps")


@pytest.mark.parametrize("finisher", ["open", "repair"])
def test_repeated_crashes_while_finishing_join_complete_it(tmp_path: Path, finisher: str) -> None:
    path, before = prepared(tmp_path, "in a segment")
    staged = stage(tmp_path / "staged", batch_of(NEW))
    noted = 0
    while not (path / "joining").exists():
        noted += 1
        assert killed_at(noted, lambda: lambda: join(path, staged, query="q", batch=0))

    def finish() -> None:
        if finisher == "repair":
            repair(path)
        else:
            commitlog.open(path).close()

    for step in range(1, MOST_STEPS):
        if not killed_at(step, lambda: finish):
            break
        assert read_all(path) in (before, before + NEW)
    assert read_all(path) == before + NEW
    assert not (path / "joining").exists()
    assert join(path, stage(tmp_path / "again", batch_of(NEW)), query="q", batch=0).repeated

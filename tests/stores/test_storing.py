"""Storing: who may write to a store, and what comes next, as a machine without a store."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict

import pytest

from commitlog.stores import storing as rules
from commitlog.stores.contents import Contents
from commitlog.stores.own_sessions import OwnSessions
from commitlog.stores.store_gap import StoreGap
from commitlog.stores.store_session import StoreSession
from commitlog.stores.storing import Standing, Step, StoreEnd, StoreWhole, Storing, standing
from commitlog.stores.tail_object import TailObject, join

SIZE = 100
NONE = StoreSession(0, 0, 0, "")
PLAIN = StoreSession(0, 0, 0, "", promotion=True)
OWN = OwnSessions((("here", "last", "pending"),), restored="restored")


def part_of(first: int, stop: int, size: int = SIZE) -> TailObject:
    """Return a part whose digests are the offsets in its segment."""
    base = first // size * size
    return TailObject(0, first, stop, 1, (first - base, stop - base))


def done(step: Step) -> StoreGap | StoreWhole | TailObject:
    """Return what is reported of a step."""
    return part_of(step.first, step.stop) if isinstance(step, StoreEnd) else step


def session(epoch: int, session_id: str) -> StoreSession:
    return StoreSession(7, epoch, 50, session_id)


@pytest.mark.parametrize(
    ("newest", "promotion", "expected"),
    [
        (NONE, PLAIN, Standing.FIRST),
        (session(0, "last"), PLAIN, Standing.CONTINUES),
        (session(0, "pending"), PLAIN, Standing.CONTINUES),
        (session(0, "restored"), PLAIN, Standing.INHERITS),
        (session(0, "other"), PLAIN, Standing.FOREIGN),
        (session(0, ""), PLAIN, Standing.FOREIGN),
        (session(1, "last"), PLAIN, Standing.BEHIND),
        (session(0, "other"), session(1, "p"), Standing.ADVANCES),
        (NONE, session(1, "p"), Standing.ADVANCES),
        (session(1, "p"), session(1, "p"), Standing.PROMOTED),
        (session(1, "last"), session(1, "p"), Standing.CONTINUES),
        (session(1, "q"), session(1, "p"), Standing.FOREIGN),
        (session(2, "last"), session(1, "p"), Standing.BEHIND),
    ],
)
def test_standing_follows_from_the_newest_session(
    newest: StoreSession, promotion: StoreSession, expected: Standing
) -> None:
    assert standing(newest, promotion, OWN) is expected


def test_sealed_segments_come_before_the_end() -> None:
    storing = Storing(SIZE, next=0, first_in_parts=2)
    steps = []
    while step := storing.next_step(first_here=0, durable=250, is_sealed=storing.next < 2):
        steps.append(step)
        storing.did(done(step))
    assert steps == [StoreWhole(0), StoreWhole(1), StoreEnd(200, 250)]
    assert (storing.kept_position, storing.stored) == (200, 250)


def test_deleted_segments_are_a_gap_from_the_stored_end() -> None:
    storing = Storing(SIZE, next=1, stored=150)
    step = storing.next_step(first_here=4, durable=450, is_sealed=False)
    assert step == StoreGap(150, 400)
    storing.did(done(step))
    assert (storing.kept_position, storing.stored) == (400, 400)
    assert storing.next_step(first_here=4, durable=450, is_sealed=False) == StoreEnd(400, 450)


def test_segments_put_after_the_comparison_are_stored_again() -> None:
    storing = Storing(SIZE)
    storing.begin(0, Contents(dict.fromkeys(range(4), 9), {}, {}, {}, [], []), 250)
    assert (storing.next, storing.stored) == (2, 250)


def test_segments_that_parts_cover_are_no_gap() -> None:
    storing = Storing(SIZE, next=1, stored=450)
    step = storing.next_step(first_here=4, durable=450, is_sealed=False)
    assert step == StoreGap(400, 400)


def test_any_order_of_events_stores_all_and_keeps_what_is_not() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(300):
        storing = Storing(SIZE)
        durable, first, gone = 0, 0, 0
        for _ in range(60):
            durable += rng.randrange(0, 120)
            if rng.random() < 0.1:  # a deletion that asks no store
                first = gone = max(first, durable // SIZE - rng.randrange(1, 3))
            elif rng.random() < 0.5:  # retention, which asks
                first = max(first, min(storing.kept_position // SIZE, durable // SIZE - 1))
            step = storing.next_step(
                first_here=first, durable=durable, is_sealed=storing.next < durable // SIZE
            )
            if step is not None and rng.random() < 0.8:  # else it failed
                before = storing.stored
                storing.did(done(step))
                assert storing.stored >= before
                if isinstance(step, StoreGap):
                    assert step.stop <= gone * SIZE or step.start == step.stop
        for _ in range(200):
            step = storing.next_step(
                first_here=first, durable=durable, is_sealed=storing.next < durable // SIZE
            )
            if step is None:
                break
            storing.did(done(step))
        assert storing.stored == max(durable, first * SIZE)
        assert storing.next == max(durable // SIZE, first)


def contents(
    sizes: list[int], parts: dict[int, int], gaps: list[tuple[int, int]], reach: int = 0
) -> Contents:
    joined = {number: [TailObject(0, number * SIZE, stop)] for number, stop in parts.items()}
    stops = {number: max(stop, reach) for number, stop in parts.items()}
    found = [StoreGap(*gap) for gap in gaps]
    return Contents(dict.fromkeys(sizes, 1), joined, {}, stops, [], found)


@pytest.mark.parametrize(
    ("found", "first_here", "compared", "expected"),
    [
        (contents([], {}, []), 3, 0, (3, 300)),
        (contents([0, 1], {}, []), 0, 200, (2, 200)),
        (contents([0, 1], {2: 250}, []), 0, 250, (2, 250)),
        (contents([0, 1], {2: 250}, [], 280), 0, 250, (2, 250)),  # a hole behind 250
        (contents([0, 2], {}, []), 0, 300, (1, 300)),  # a segment is missing
        (contents([4, 5], {}, []), 0, 600, (6, 600)),  # the store's retention
    ],
)
def test_storing_begins_where_the_store_ends(
    found: Contents, first_here: int, compared: int, expected: tuple[int, int]
) -> None:
    storing = Storing(SIZE)
    storing.begin(first_here, found, compared)
    assert (storing.next, storing.stored) == expected


def test_gaps_part_what_logs_had_at_different_times() -> None:
    found = contents([0, 5, 6, 9], {1: 150, 7: 720, 10: 1020}, [(150, 500), (720, 900)])
    for before, numbers, end in (
        (None, [9, 10], 1020),
        (1000, [9, 10], 1020),
        (800, [9, 10], 1020),
        (720, [5, 6, 7], 720),
        (600, [5, 6, 7], 720),
        (150, [0, 1], 150),
        (10, [0, 1], 150),
    ):
        view = found.between_gaps(SIZE, before)
        assert (view.numbers, view.end(SIZE)) == (numbers, end)


def test_gap_without_anything_behind_it_hides_nothing() -> None:
    found = contents([0], {1: 150}, [(150, 500)])
    assert found.between_gaps(SIZE).numbers == [0, 1]


# --- all orders of appends, steps and failures ----------------------------------------------------


class Stored:
    """A store and the log that is stored there, in positions so small that all orders are tried."""

    SIZE = 4

    def __init__(self) -> None:
        self.storing = Storing(self.SIZE)
        self.parts: set[TailObject] = set()
        self.whole: set[int] = set()
        self.durable = 0

    def step(self, *, stops: int = 99, is_lost: bool = False) -> bool:
        """Do the next step; a part ends after so many bytes. If it is lost, the store has it, and
        the process was killed before it knew.
        """
        known = self.storing
        onward = known.next < self.durable // self.SIZE
        step = known.next_step(first_here=0, durable=self.durable, is_sealed=onward)
        if step is None:
            return False
        if isinstance(step, StoreEnd):
            part = part_of(step.first, min(step.stop, step.first + stops), self.SIZE)
            self.parts.add(part)
            if is_lost:
                self.begin(again=False)
                return True
            known.did(part)
            self.merge()
        else:
            assert isinstance(step, StoreWhole)
            assert step.number < known.first_in_parts or known.stored >= (step.number + 1) * 4
            self.whole.add(step.number)
            if is_lost:
                self.begin(again=False)
                return True
            known.did(step)
            self.delete(known.drop_covered())
        return True

    def merge(self) -> None:
        while parts := self.storing.mergeable():
            ends = [part.end for part in parts]
            assert [part.first for part in parts[1:]] == ends[:-1], "the parts do not join"
            whole = part_of(parts[0].first, ends[-1], self.SIZE)
            self.parts.add(whole)
            self.delete(self.storing.merged(whole))

    def delete(self, names: list[str]) -> None:
        before = self.covered()
        self.parts = {part for part in self.parts if part.name not in names}
        assert self.covered() == before, "a part was deleted that nothing covers"

    def covered(self) -> set[int]:
        """Return the positions that the store has."""
        found = {at for number in self.whole for at in range(number * 4, number * 4 + 4)}
        return found | {at for part in self.parts for at in range(part.first, part.end)}

    def begin(self, *, again: bool) -> None:
        """Begin anew with what a listing shows; `again`: another writer may still be at work."""
        objects = defaultdict(list)
        for part in self.parts:
            if part.first // 4 not in self.whole:
                objects[part.first // 4].append(part)
        parts = {number: join(objects[number], number * 4) for number in sorted(objects)}
        stops = {number: each[-1].stop for number, each in parts.items()}
        sizes = dict.fromkeys(sorted(self.whole), 1)
        found = Contents(sizes, parts, {}, stops, [], [])
        self.storing = Storing(self.SIZE)
        self.storing.begin(0, found, self.durable)
        first_open = max(self.storing.next, self.durable // self.SIZE)
        self.storing.resume(found, first_open, again=again)

    def check(self) -> None:
        assert set(range(self.storing.stored)) <= self.covered()
        assert set(range(self.storing.kept_position)) <= {
            at for number in self.whole for at in range(number * 4, number * 4 + 4)
        }


EVENTS = "one", "five", "step", "short", "lost", "restart", "again"


@pytest.mark.parametrize("first", EVENTS)
def test_every_order_keeps_what_is_stored(monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    monkeypatch.setattr(rules, "MERGED", 2)
    for events in itertools.product(EVENTS, repeat=4):
        world = Stored()
        world.durable = 3
        for event in (first, *events):
            match event:
                case "one" | "five":
                    world.durable += 1 if event == "one" else 5
                case "step" | "lost":
                    world.step(is_lost=event == "lost")
                case "short":
                    world.step(stops=1)
                case _:
                    world.begin(again=event == "again")
            world.check()
        while world.step():
            world.check()
        assert world.storing.stored == world.durable
        assert world.storing.next == world.durable // 4 == len(world.whole)

"""The rules of acknowledgement: events in, actions out."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from commitlog.network.replication.quota import (
    FOLLOWERS_LIMIT,
    Copied,
    Fenced,
    Promised,
    Quota,
    Refused,
)
from commitlog.recovery.epoch import EPOCH_GAP
from commitlog.recovery.lineage import Epoch, Lineage, Rank

FIRST = Lineage()
SECOND = Lineage((Epoch(1, 8192, "a" * 32),))


def copied(name: str, position: int, current: Lineage = FIRST, *, sent: int = 1 << 20) -> Copied:
    return Copied(name, current.rank, position, current, sent)


def test_copies_are_counted_by_their_names() -> None:
    quota = Quota()
    quota.on(copied("b", 4128))
    quota.on(copied("b", 8192))  # the same copy once more
    assert (quota.reached(1), quota.reached(2)) == (8192, 0)
    quota.on(copied("c", 4128))
    assert (quota.reached(1), quota.reached(2), quota.reached(3)) == (8192, 4128, 0)


@pytest.mark.parametrize("position", [4160, 4129, 1 << 62])
def test_position_that_was_not_sent_does_not_count(position: int) -> None:
    quota = Quota()
    refused = quota.on(copied("b", position, sent=4128))
    assert isinstance(refused, Refused)
    assert str(position) in refused.why
    assert quota.positions == {}


def test_acknowledgement_of_an_older_epoch_is_forgotten() -> None:
    quota = Quota()
    quota.on(copied("b", 8192))
    quota.on(copied("c", 8224, SECOND))
    assert quota.positions == {"c": 8224}
    assert quota.on(replace(copied("b", 1 << 16, SECOND), rank=FIRST.rank)) is None
    assert quota.positions == {"c": 8224}


def test_copy_below_the_start_of_the_epoch_counts_for_nothing() -> None:
    quota = Quota()
    quota.on(copied("b", 8160, SECOND))
    assert quota.reached(1) == 0


def test_later_epoch_fences_once() -> None:
    quota, later = Quota(), Rank(2, "b" * 32)
    assert quota.on(Promised(SECOND.rank, SECOND)) is None
    assert quota.on(Promised(later, SECOND)) == Fenced(later)
    assert quota.on(Promised(later, SECOND)) is None
    last = Rank(3, "c" * 32)
    assert quota.on(replace(copied("b", 8192, SECOND), rank=last)) == Fenced(last)
    assert quota.fence == last


@pytest.mark.parametrize(
    "rank",
    [
        Rank(EPOCH_GAP + 2, "b" * 32),
        Rank((1 << 63) - 1, "b" * 32),
        Rank(1, "a" * 32, (1 << 20) + 1),
    ],
)
def test_epoch_far_above_the_known_one_fences_nothing(rank: Rank) -> None:
    quota = Quota()
    for event in (
        Promised(rank, SECOND),
        replace(copied("b", 8192, SECOND), rank=rank),
    ):
        refused = quota.on(event)
        assert isinstance(refused, Refused)
    assert quota.fence is None


def test_invented_names_push_out_the_one_that_reported_first() -> None:
    quota = Quota()
    for number in range(FOLLOWERS_LIMIT):
        quota.on(copied(str(number), 4096))
    quota.on(copied("0", 8192))
    quota.on(copied("one more", 4096))
    assert len(quota.positions) == FOLLOWERS_LIMIT
    assert "1" not in quota.positions
    assert quota.reached(1) == 8192


def test_log_that_has_a_later_epoch_is_not_fenced_any_more() -> None:
    quota, later = Quota(), Rank(1, "0" * 32)
    quota.on(Promised(later, FIRST))
    quota.begin(FIRST.rank)
    assert quota.fence == later
    quota.begin(SECOND.rank)
    assert quota.fence is None
    quota.on(Promised(later, FIRST))
    quota.on(copied("b", 8192, SECOND))
    assert (quota.fence, quota.reached(1)) == (None, 8192)


EVENTS = [
    *(copied(name, position) for name in "bc" for position in (4128, 8192)),
    *(copied(name, position, SECOND) for name in "bc" for position in (8160, 8224)),
    copied("b", 8224, sent=8192),
    replace(copied("c", 8224, SECOND), rank=FIRST.rank),
    Promised(Rank(2, "b" * 32), SECOND),
]


def test_every_order_counts_the_last_sound_reports() -> None:
    for events in itertools.product(EVENTS, repeat=4):
        quota, known, rank = Quota(), dict[str, int](), Rank()
        for event in events:
            was_fenced = quota.fence is not None
            action = quota.on(event)
            if isinstance(event, Promised):
                assert isinstance(action, Fenced) != was_fenced
                continue
            if event.rank != event.current.rank:
                assert action is None
                continue
            assert isinstance(action, Refused) == (event.position > event.sent)
            if action is None and not was_fenced:
                known = known if event.rank == rank else {}
                rank = event.rank
                known[event.name] = event.position if event.position >= event.current.start else 0
        positions = sorted(known.values(), reverse=True)
        for copies in (1, 2, 3):
            assert quota.reached(copies) == (positions + [0] * 3)[copies - 1]

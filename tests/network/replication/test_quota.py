"""The rules of acknowledgement: events in, actions out."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from commitlog.network.replication.quota import (
    FOLLOWERS_LIMIT,
    Awaited,
    Copied,
    Dropped,
    Expired,
    Fenced,
    Promised,
    Quota,
    Reached,
    Refused,
    Tick,
)
from commitlog.recovery.epoch import EPOCH_GAP
from commitlog.recovery.lineage import Epoch, Lineage, Rank

FIRST = Lineage()
SECOND = Lineage((Epoch(1, 8192, "a" * 32),))


def copied(name: str, position: int, current: Lineage = FIRST, *, sent: int = 1 << 20) -> Copied:
    return Copied(name, current.rank, position, current, sent)


def test_wait_ends_when_enough_copies_have_it() -> None:
    quota = Quota()
    assert quota.on(Awaited(1, 4128, 2, math.inf)) == []
    assert quota.on(copied("b", 4128)) == []
    assert quota.on(copied("b", 8192)) == []  # the same copy once more
    assert quota.on(copied("c", 4096)) == []
    assert quota.on(copied("c", 4128)) == [Reached(1)]
    assert quota.on(Awaited(2, 4128, 2, math.inf)) == [Reached(2)]
    assert (quota.reached(1), quota.reached(2), quota.reached(3)) == (8192, 4128, 0)


def test_wait_expires_once_at_its_time() -> None:
    quota = Quota()
    quota.on(Awaited(1, 4128, 1, 10.0))
    quota.on(Awaited(2, 4128, 1, 10.0))
    quota.on(Dropped(2))
    assert quota.on(Tick(9.9)) == []
    assert quota.on(Tick(10.0)) == [Expired(1)]
    assert quota.on(Tick(11.0)) == []
    assert quota.on(copied("b", 4128)) == []


@pytest.mark.parametrize("position", [4160, 4129, 1 << 62])
def test_position_that_was_not_sent_does_not_count(position: int) -> None:
    quota = Quota()
    (refused,) = quota.on(copied("b", position, sent=4128))
    assert isinstance(refused, Refused)
    assert str(position) in refused.why
    assert quota.positions == {}


def test_acknowledgement_of_an_older_epoch_is_forgotten() -> None:
    quota = Quota()
    quota.on(copied("b", 8192))
    quota.on(copied("c", 8224, SECOND))
    assert quota.positions == {"c": 8224}
    assert quota.on(replace(copied("b", 1 << 16, SECOND), rank=FIRST.rank)) == []
    assert quota.positions == {"c": 8224}


def test_copy_below_the_start_of_the_epoch_counts_for_nothing() -> None:
    quota = Quota()
    quota.on(copied("b", 8160, SECOND))
    assert quota.reached(1) == 0


def test_later_epoch_fences_once() -> None:
    quota, later = Quota(), Rank(2, "b" * 32)
    quota.on(Awaited(1, 4128, 1, math.inf))
    assert quota.on(Promised(SECOND.rank, SECOND)) == []
    assert quota.on(Promised(later, SECOND)) == [Fenced(later)]
    assert quota.on(Promised(later, SECOND)) == []
    assert quota.on(replace(copied("b", 8192, SECOND), rank=Rank(3, "c" * 32))) == [
        Fenced(Rank(3, "c" * 32))
    ]
    assert quota.fence == Rank(3, "c" * 32)


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
        (refused,) = quota.on(event)
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


def test_random_reports_reach_only_what_enough_copies_have() -> None:
    numbers = random.Random(34)
    for _ in range(200):
        quota, known = Quota(), dict[str, int]()
        for _ in range(40):
            name, sent = numbers.choice("bcd"), numbers.randrange(128, 400) * 32
            position = numbers.choice([sent, sent + 32, sent - 31, sent - 64])
            actions = quota.on(copied(name, position, sent=sent))
            sound = position <= sent and position % 32 == 0
            assert sound == (actions == [])
            if sound:
                known[name] = position
            for copies in (1, 2, 3):
                assert sum(one >= quota.reached(copies) for one in known.values()) >= min(
                    copies, len(known)
                )

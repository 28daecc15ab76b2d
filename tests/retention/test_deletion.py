"""Which segments may be deleted: plain decisions."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.errors import InvalidOptionError
from commitlog.retention.deletion import Below, Deletion, Hold, Limits, OldestSegment, waived

MIB = 1 << 20
STORE = Hold("store", 3, "it is not stored yet")


def segment(number: int, **state: Any) -> OldestSegment:
    return OldestSegment(number, **{"disk_bytes": MIB, "sealed": True, "followed": True, **state})


def deleted(deletion: Deletion, segments: list[OldestSegment]) -> list[int]:
    going = itertools.takewhile(lambda each: deletion.decide(each) is not None, segments)
    return [each.number for each in going]


def test_hold_keeps_its_segment_and_all_later_ones() -> None:
    deletion = Deletion(Below(9), [STORE])
    assert deleted(deletion, [segment(number) for number in range(9)]) == [0, 1, 2]
    assert (deletion.stopped_by, deletion.complete) == ("it is not stored yet", False)
    assert deletion.stopping == STORE


def test_lowest_of_several_holds_stops_the_deletion() -> None:
    holds = [STORE, Hold("tailers", 1, "a tailer reads it"), Hold("copies", 2, "not copied")]
    deletion = Deletion(Below(9), holds)
    assert deleted(deletion, [segment(number) for number in range(9)]) == [0]
    assert deletion.stopped_by == "a tailer reads it"


def test_copy_to_an_archive_waits_for_durability_only() -> None:
    held = segment(0, followed=False, holders=["tailer 1"])
    assert Deletion(Below(9), [Hold("tailers", 0, "no")], copies_only=True).decide(held) is not None
    durable = Deletion(Below(9), [Hold("flush", 0, "it is not durable yet")], copies_only=True)
    assert durable.decide(held) is None
    assert durable.stopped_by == "it is not durable yet"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"sealed": False}, "it is not sealed yet"),
        ({"followed": False}, "it is the last sealed segment, which always stays"),
        ({"holders": ["a view"]}, "it is held by a view"),
    ],
)
def test_segment_in_use_stays(state: dict[str, Any], reason: str) -> None:
    deletion = Deletion(Below(9), [])
    assert deletion.decide(segment(0, **state)) is None
    assert (deletion.stopped_by, deletion.complete) == (reason, False)


def test_caller_that_waits_is_not_stopped_by_holders() -> None:
    assert Deletion(Below(9), [], waits=True).decide(segment(0, holders=["a view"])) == "position"


def test_unsealed_segment_has_no_age_and_says_so() -> None:
    limits = Limits(0, 0, oldest_ns=1 << 62, closed=None)
    deletion = Deletion(limits, [])
    assert deletion.decide(segment(0, sealed=False)) is None
    assert (deletion.stopped_by, deletion.complete) == ("it is not sealed yet", True)
    assert deletion.decide(segment(0)) is None
    assert "its age is not known" in deletion.stopped_by
    assert deletion.decide(segment(0, rolled_ns=1)) == "max_age"


def test_limits_of_size_count_each_deletion() -> None:
    deletion = Deletion(Limits(2 * MIB, MIB, None, closed=None), [])
    segments = [segment(number) for number in range(9)]
    reasons = [deletion.decide(each) for each in segments[:3]]
    assert reasons == ["min_free", "max_bytes", None]
    assert (deletion.stopped_by, deletion.complete) == (
        "the remaining segments are within every limit",
        True,
    )


@given(
    held=st.lists(st.integers(0, 12), max_size=4),
    below=st.integers(0, 12),
    sealed=st.integers(0, 12),
)
def test_deletion_is_a_prefix_below_every_hold(held: list[int], below: int, sealed: int) -> None:
    holds = [Hold("store", number, "held") for number in held]
    deletion = Deletion(Below(below), holds)
    segments = [
        segment(number, sealed=number < sealed, followed=number + 1 < sealed)
        for number in range(12)
    ]
    stop = max(0, min([below, sealed - 1, *held]))
    assert deleted(deletion, segments) == list(range(stop))


@pytest.mark.parametrize("force", ["flush", "tailers", ["store", "disk"], 1, None])
def test_only_store_and_copies_can_be_waived(force: object) -> None:
    with pytest.raises(InvalidOptionError, match="force must be some of store, copies"):
        waived(force)
    assert waived("store") == {"store"}
    assert waived(("store", "copies")) == {"store", "copies"}

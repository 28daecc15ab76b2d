"""What a follower decides, without files, sockets and threads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from commitlog.errors import FencedError, IOFailureError, ReplicationError
from commitlog.network.remote.wire import RefusedError
from commitlog.network.replication.following import Copy, Cut, Following, Leave, Log
from commitlog.recovery.lineage import Epoch, Lineage, Rank
from commitlog.segment.identity import Identity

URL = "tcp://a:1/a"
IDENTITY = Identity.new(1 << 20, "coarse")
FIRST, SIZE = 4096, 32  # where records begin, and of one record
EPOCHS = {number: Rank(number, f"{number:x}" * 32) for number in range(1, 6)}


def at(records: int) -> int:
    """Return the position behind so many records."""
    return FIRST + SIZE * records


def lineage(*starts: int) -> Lineage:
    """Return the lineage of a log with one promotion at each position."""
    ranks = [EPOCHS[number + 1] for number in range(len(starts))]
    return Lineage(
        tuple(Epoch(r.number, start, r.id) for r, start in zip(ranks, starts, strict=True))
    )


def copy(known: Lineage, end: int = at(4), durable: int = 0) -> Copy:
    return Copy(IDENTITY, replace(known, follows=URL), end, durable)


def log(known: Lineage, end: int = at(9)) -> Log:
    return Log(IDENTITY, known, 0, end)


def following() -> Following:
    return Following(URL, "/copy")


def described(copy: Copy, log: Log, *, waits: bool = True) -> Cut | Leave | None:
    return following().described(copy, log, waits=waits)


def error_of(found: Cut | Leave | None) -> str:
    assert isinstance(found, Leave)
    assert isinstance(found.error, FencedError)
    return found.error.message


def test_meeting_goes_on_to_the_frames_and_the_count() -> None:
    decides, known = following(), log(lineage(0))
    assert decides.described(copy(lineage(0)), known, waits=True) is None
    assert decides.compared(None) is None
    assert decides.joined(known, lineage(0)) is None


def test_different_frames_end_the_meeting() -> None:
    assert "different records from position 4160" in error_of(following().compared(4160))


def test_log_that_was_promoted_meanwhile_is_met_again() -> None:
    found = following().joined(log(lineage(0)), lineage(0, at(4)))
    assert isinstance(found, Leave)
    assert isinstance(found.error, ConnectionError)
    assert following().failed(found.error) is None


def test_other_log_and_primary_may_not_become_a_copy() -> None:
    decides, other = following(), replace(log(lineage(0)), identity=Identity.new(1 << 20, "coarse"))
    for found in (decides.described(copy(lineage()), other, waits=True),):
        assert isinstance(found, Leave)
        assert isinstance(found.error, ReplicationError)
    assert isinstance(decides.refusal(copy(lineage()), other), ReplicationError)
    primary = Copy(IDENTITY, lineage(0))
    assert isinstance(decides.refusal(primary, log(lineage(0))), FencedError)
    assert decides.refusal(primary, log(lineage(0, at(1)))) is None
    assert decides.refusal(copy(lineage(0)), log(lineage())) is None  # meeting it decides


def test_promise_is_kept_and_fences_only_once_it_has_begun() -> None:
    promised = lineage().promising(EPOCHS[2], changes=False)
    assert described(copy(promised), log(lineage())) == Leave()
    assert "has promised epoch 2" in error_of(
        described(copy(promised), log(lineage()), waits=False)
    )
    begun = lineage().fenced(EPOCHS[2])
    assert described(copy(begun), log(lineage())) == Leave(told=EPOCHS[2])
    assert described(copy(promised), log(lineage(at(4), at(4)))) is None


def test_copy_of_a_later_epoch_tells_its_old_primary() -> None:
    found = described(copy(lineage(0, at(2))), log(lineage(0)))
    assert "has promised epoch 2" in error_of(found)
    assert isinstance(found, Leave)
    assert found.told == EPOCHS[2]


def test_copy_knows_a_recovery_that_its_primary_forgot() -> None:
    restarted = lineage(0).restarted(at(2))
    assert "a recovery of its primary" in error_of(described(copy(restarted), log(lineage(0))))


def test_records_beside_those_of_a_later_epoch_are_cut() -> None:
    assert described(copy(lineage()), log(lineage(at(2)))) == Cut(at(2))
    assert described(copy(lineage(), end=at(2)), log(lineage(at(2)))) is None


def test_primary_that_recovered_below_durable_records_is_older() -> None:
    restarted = log(lineage(0).restarted(at(2)))
    assert described(copy(lineage(0), durable=at(2)), restarted) == Cut(at(2))
    assert "an older state" in error_of(described(copy(lineage(0), durable=at(3)), restarted))


def test_log_that_ends_before_its_copy_has_lost_records() -> None:
    assert "has lost records" in error_of(described(copy(lineage()), log(lineage(), end=at(3))))
    assert described(copy(lineage()), log(lineage(), end=at(4))) is None
    full = copy(lineage(), end=(1 << 20) + FIRST)
    assert described(full, log(lineage(), end=1 << 20)) is None  # a full segment


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (ConnectionResetError("reset"), None),
        (TimeoutError("late"), None),
        (RefusedError("the token is wrong"), ReplicationError),
        (FencedError("promoted", path="/copy"), FencedError),
        (IOFailureError("disk", path="/copy"), IOFailureError),  # an `OSError`, too
        (ValueError("a fault"), IOFailureError),
    ],
)
def test_only_failures_of_the_network_are_tried_again(
    error: Exception, final: type[Exception] | None
) -> None:
    assert type(following().failed(error)) is (final or type(None))


def test_pauses_double_until_records_come_in_every_order() -> None:
    for turns in itertools.product([False, True], repeat=8):
        decides, before = following(), 0.025
        for has_copied in turns:
            pause_s = decides.pause_s(has_copied=has_copied)
            assert pause_s == (0.05 if has_copied else min(2 * before, 2.0))
            before = pause_s


# --- all orders of ordinary events ----------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """A log as its files are: its records, and how many of them are durable.

    `followed` is how many of them its primary had durably; a copy has only durable ones.
    """

    lineage: Lineage = field(default=Lineage())
    records: tuple[int, ...] = ()
    durable: int = 0
    followed: int = 0


@dataclass(frozen=True)
class World:
    """A primary, a copy of it, and a backup of the primary that may be restored."""

    machines: tuple[Machine, Machine]
    backup: Machine | None = None
    made: int = 0  # records
    is_restored: bool = False

    def having(self, which: int, new: Machine) -> World:
        machines = (new, self.machines[1]) if which == 0 else (self.machines[0], new)
        return replace(self, machines=machines)


def events(world: World) -> Iterator[World]:
    """Yield what may happen next."""
    for which, one in enumerate(world.machines):
        if one.lineage.follows is None:
            appended = replace(one, records=(*one.records, world.made))
            yield replace(world.having(which, appended), made=world.made + 1)
            yield world.having(which, replace(one, durable=len(one.records)))
            kept = one.records[: one.durable]  # a power cut; the recovery is noted
            known = one.lineage.restarted(at(len(kept)))
            yield world.having(which, replace(one, records=kept, lineage=known))
        elif (number := one.lineage.number + 1) <= 2:
            known = one.lineage.promoted(at(len(one.records)), EPOCHS[number])
            yield world.having(which, replace(one, lineage=known, followed=0))
        yield met(world, which)
    yield replace(world, backup=replace(world.machines[0], durable=len(world.machines[0].records)))
    if world.backup is not None:
        yield replace(world.having(0, world.backup), is_restored=True)


def met(world: World, which: int) -> World:
    """Let a machine follow the other one, and copy a record, if nothing is against it."""
    own, other = world.machines[which], world.machines[1 - which]
    theirs = Log(IDENTITY, other.lineage, 0, at(len(other.records)))
    decides = following()
    for _ in range(2):
        known = Copy(IDENTITY, own.lineage, at(len(own.records)), at(own.followed))
        if own.lineage.follows is None and decides.refusal(known, theirs) is not None:
            return world
        found = decides.described(known, theirs, waits=True)
        if not isinstance(found, Cut):
            break
        if own.lineage.promotion == other.lineage.promotion:
            assert found.position >= at(own.followed), "what was durable at the primary is cut"
        own = cut(own, found.position)
    assert not isinstance(found, Cut), "the copy would be cut again and again"
    pairs = zip(own.records, other.records, strict=False)
    differs = next((at(n) for n, (mine, its) in enumerate(pairs) if mine != its), None)
    found = found or decides.compared(differs)
    if found is not None:
        assert world.is_restored or found == Leave() or "promised" in error_of(found)
        return world.having(which, own)
    assert own.lineage.promised <= other.lineage.rank, "a copy follows below its promise"
    count = len(own.records)
    assert own.records == other.records[:count], "the copy is no prefix of its log"
    records = other.records[: count + 1]
    followed = own.followed
    if other.lineage.follows is None:
        followed = max(followed, min(other.durable, len(records)))
    adopted = own.lineage.adopted(other.lineage, URL)
    return world.having(which, Machine(adopted, records, len(records), followed))


def cut(own: Machine, position: int) -> Machine:
    left = max(position - FIRST, 0) // SIZE
    assert left < len(own.records), "nothing is to be cut"
    return Machine(own.lineage.reached(position), own.records[:left], left, min(own.followed, left))


def test_copy_stays_a_prefix_in_every_order_of_events() -> None:
    first = Machine(), Machine(Lineage(follows=URL))
    known = {World(first)}
    last = set(known)
    for _ in range(7):
        last = {after for world in last for after in events(world)} - known
        known |= last
    assert len(known) > 5000

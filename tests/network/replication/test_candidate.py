"""The decisions of a promotion, without files, sockets and threads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from commitlog.errors import InvalidOptionError, ReplicationError
from commitlog.network.replication.candidate import Candidate
from commitlog.network.replication.promise import Asked, Standing, standing_of
from commitlog.network.replication.promotion_steps import (
    Action,
    Answer,
    Ask,
    Begin,
    CatchUp,
    CaughtUp,
    Compare,
    Compared,
    Described,
    Own,
    Promised,
    Refuse,
    Wanted,
)
from commitlog.recovery.epoch import EPOCH_GAP, NUMBER_LIMIT
from commitlog.recovery.lineage import Epoch, Lineage, Member, Rank
from commitlog.segment.identity import Identity

END = 8192
IDENTITY = Identity.new(1 << 20, "coarse")
GONE = "it is out of reach"
FIRST = Rank(1, "f" * 32)


def member(name: str) -> Member:
    return Member(name * 32, name)


def log(name: str, known: str = "abc", require: int = 1, *, copy: bool = True) -> Lineage:
    """Return the lineage of a log that knows others, as a copy or as their primary."""
    return Lineage(
        follows="tcp://a:1/a" if copy else None,
        require=require,
        member=member(name).id,
        members=tuple(member(each) for each in known),
        copies=max(len(known) - 1, 0),
    )


def own(lineage: Lineage, end: int = END, **rest: str) -> Own:
    return Own(lineage, standing_of(lineage, end, IDENTITY), "here", **rest)


def answer(lineage: Lineage, end: int = END) -> Answer:
    return Answer(lineage, standing_of(lineage, end, IDENTITY), f"at {lineage.member}")


def promised(action: Action, answers: Mapping[str, Answer]) -> Promised:
    assert isinstance(action, Ask)
    return Promised({url: (each.rank, answers[url].standing) for url, each in action.asked.items()})


NOTHING = Wanted()


def decided(own: Own, answers: Mapping[str, Answer | str], wanted: Wanted = NOTHING) -> Action:
    """Return what becomes of a promotion whose logs promise, if they answer."""
    candidate = Candidate(own, replace(wanted, urls=tuple(answers)))
    action = candidate.on(Described(answers))
    if isinstance(action, Ask):
        there = {url: each for url, each in answers.items() if isinstance(each, Answer)}
        action = candidate.on(promised(action, there))
    return compared(candidate, action)


def compared(candidate: Candidate, action: Action, found: int | None = None) -> Action:
    """Return what becomes of a promotion whose logs have the same records, or others."""
    while isinstance(action, Compare):
        action = candidate.on(Compared(dict.fromkeys(action.ends, found)))
    return action


def test_returned_primary_counts_the_copies_that_it_had() -> None:
    refused = decided(own(log("a", copy=False)), {"c": GONE})
    assert isinstance(refused, Refuse)
    assert "1 of 2 copies that are needed promise" in refused.why
    assert "the log counts 2 copies, among them b, c" in refused.why
    assert isinstance(decided(own(log("a", copy=False)), {}), Refuse)
    begun = decided(own(log("a", copy=False)), {"c": answer(log("c"))})
    assert isinstance(begun, Begin)
    assert begun.lineage.copies == 2


def test_log_without_required_copies_counts_those_that_are_named() -> None:
    assert isinstance(decided(own(log("b", require=0)), {}), Begin)
    assert isinstance(decided(own(log("b", require=0)), {"c": GONE, "d": GONE}), Refuse)


def test_copies_that_only_another_log_knows_are_counted() -> None:
    refused = decided(own(log("b")), {"c": answer(log("c", "abcd"))})
    assert isinstance(refused, Refuse)
    assert "2 of 3 copies" in refused.why
    answers = {"c": answer(log("c", "abcd")), "d": answer(log("d", "abcd"))}
    begun = decided(own(log("b")), answers)
    assert isinstance(begun, Begin)
    assert {each.name for each in begun.lineage.members} == set("abcd")


def test_old_primary_that_is_named_is_counted_once() -> None:
    answers = {"a": answer(log("a", copy=False)), "c": answer(log("c"))}
    begun = decided(own(log("b")), answers)
    assert isinstance(begun, Begin)
    assert begun.lineage.copies == 2


def test_copy_that_no_log_counts_yet_is_counted_when_named() -> None:
    assert isinstance(decided(own(log("b")), {"c": answer(log("c")), "d": GONE}), Refuse)


def test_operator_says_how_many_copies_are_left() -> None:
    wanted = Wanted(copies=1)
    begun = decided(own(log("d", "abd")), {}, wanted)
    assert isinstance(begun, Begin)
    assert begun.lineage.copies == 1
    assert [each.name for each in begun.lineage.members] == ["d"]
    assert isinstance(decided(own(log("d", "abd")), {}), Refuse)


@pytest.mark.parametrize("copies", [0, 1, 65, True, "2", 2.5])
def test_wrong_number_of_copies_is_refused(copies: int) -> None:
    with pytest.raises(InvalidOptionError, match="copies must be an int from 2"):
        decided(own(log("b")), {"c": answer(log("c"))}, Wanted(copies=copies))


def test_old_file_counts_what_is_named() -> None:
    older = Lineage(follows="tcp://a:1/a", require=1, member="9" * 32)
    assert isinstance(decided(own(older), {"c": answer(log("c", ""))}), Begin)
    assert isinstance(decided(own(older), {"c": GONE}), Refuse)


def test_records_of_the_same_epoch_are_copied() -> None:
    candidate = Candidate(own(log("b"), END - 800), Wanted(("c", "d")))
    answers = {"c": answer(log("c", "abcd")), "d": answer(log("d", "abcd"), END - 80)}
    compare = candidate.on(promised(candidate.on(Described(answers)), answers))
    assert isinstance(compare, Compare)
    assert set(compare.ends.values()) == {END - 800}
    assert candidate.on(Compared({"c": None, "d": None})) == CatchUp("c", END)
    again = candidate.on(CaughtUp(own(log("b"))))
    assert isinstance(again, Compare)  # what was copied may not be what another log has
    begun = compared(candidate, again)
    assert isinstance(begun, Begin)
    assert begun.lineage.epochs[-1].start == END
    assert {each.state for each in begun.asked.values()} == {"begun"}


def test_failed_copying_withdraws_the_promises() -> None:
    candidate = Candidate(own(log("b"), END - 800), Wanted(("c",)))
    answers = {"c": answer(log("c"))}
    compared(candidate, candidate.on(promised(candidate.on(Described(answers)), answers)))
    refused = candidate.on(CaughtUp(own(log("b"), END - 800), "no route"))
    assert isinstance(refused, Refuse)
    assert "copying it failed: no route" in refused.why
    assert refused.asked["c"].state == "withdrawn"


@pytest.mark.parametrize(
    ("answers", "begins"),
    [
        ({"c": 4160}, False),
        ({"c": 4160, "d": None}, False),
        ({"c": 4160, "d": None, "e": None}, False),
        ({"c": "no route", "d": None, "e": None}, True),
        ({"c": None, "d": None, "e": None}, True),
    ],
)
def test_logs_with_other_records_do_not_count(
    answers: dict[str, int | str | None], begins: bool
) -> None:
    """An acknowledged record is on two of these logs, and the promoted one may be the wrong one."""
    known = "b" + "".join(answers)
    there = {each: answer(log(each, known)) for each in answers}
    candidate = Candidate(own(log("b", known), END + 800), Wanted(tuple(answers)))
    compare = candidate.on(promised(candidate.on(Described(there)), there))
    assert compare == Compare(dict.fromkeys(answers, END))
    action = candidate.on(Compared(answers))
    assert isinstance(action, Begin if begins else Refuse)
    if isinstance(action, Refuse):
        assert "c: it has other records than this log from position 4160 on" in action.why
        assert {each.state for each in action.asked.values()} == {"withdrawn"}
    forced = Candidate(own(log("b", known), END), Wanted(tuple(answers), waived={"promises"}))
    forced.on(promised(forced.on(Described(there)), there))
    assert isinstance(forced.on(Compared(answers)), Begin)


def test_records_of_epochs_that_one_lacks_are_not_compared() -> None:
    knows = replace(log("b"), epochs=(Epoch(1, END - 800, "e" * 32),))
    candidate = Candidate(own(knows), Wanted(("c",)))
    answers = {"c": answer(log("c"))}
    action = candidate.on(promised(candidate.on(Described(answers)), answers))
    assert action == Compare({"c": END - 800})


def test_log_of_a_later_epoch_is_not_copied_from() -> None:
    later = replace(log("c"), epochs=(Epoch(1, 4096, "e" * 32),))
    refused = decided(own(log("b")), {"c": answer(later)})
    assert isinstance(refused, Refuse)
    assert "in epoch 1" in refused.why


def test_records_beyond_an_unknown_epoch_are_not_copied() -> None:
    """The own log knows an epoch that starts below them, and has no record of it yet."""
    knows = replace(log("b"), epochs=(Epoch(1, END, "e" * 32),))
    refused = decided(own(knows, END - 800), {"a": answer(log("a", copy=False), END + 800)})
    assert isinstance(refused, Refuse)
    assert "what only the other copy has" in refused.why


def test_store_with_more_than_the_others_refuses() -> None:
    refused = decided(own(log("b"), behind_store="the store has more"), {"c": answer(log("c"))})
    assert isinstance(refused, Refuse)
    assert "the store has more" in refused.why
    assert isinstance(
        decided(
            own(log("b"), behind_store="the store has more"),
            {"c": answer(log("c"))},
            Wanted(waived=frozenset({"store"})),
        ),
        Begin,
    )


@pytest.mark.parametrize("number", [EPOCH_GAP + 1, (1 << 63) - 1])
def test_epoch_that_is_too_far_away_is_not_believed(number: int) -> None:
    far = Rank(number, "e" * 32)
    refused = decided(
        own(log("b")), {"c": answer(replace(log("c"), epochs=(Epoch(number, 0, far.id),)))}
    )
    assert isinstance(refused, Refuse)
    assert f"it knows epoch {number}, too far from epoch 0 here" in refused.why
    begun = decided(own(replace(log("a", "", copy=False), fence=far)), {})
    assert isinstance(begun, Begin)
    assert begun.lineage.number == 1
    with pytest.raises(ReplicationError, match="too far above epoch 0"):
        Asked(far).answered(log("c"))


def test_number_of_an_epoch_has_a_limit() -> None:
    assert Rank.after([Rank(NUMBER_LIMIT - 1)]).number == NUMBER_LIMIT
    with pytest.raises(ReplicationError, match="no epoch has a number above"):
        Rank.after([Rank(NUMBER_LIMIT)])


# --- what is promised -----------------------------------------------------------------------------


def test_promise_is_kept_for_the_first_of_two_promotions() -> None:
    first, second = Rank(1, "a" * 32), Rank(1, "b" * 32)
    known = Asked(first, before=Rank()).answered(log("c"))
    assert known.fence == first
    assert Asked(second, before=Rank()).answered(known) is known
    assert Asked(first, before=Rank()).answered(known) == known


def test_lower_promotion_takes_no_promise_away() -> None:
    lower, higher = Rank(1, "a" * 32), Rank(2, "b" * 32)
    known = Asked(higher).answered(log("c"))
    assert Asked(lower).answered(known) is known
    assert Asked(lower, state="begun").answered(known) is known


def test_log_that_counts_more_copies_by_now_does_not_promise() -> None:
    before = log("c")
    asked = Asked(FIRST, before=Rank(), copies=before.copies)
    assert asked.answered(before).fence == FIRST
    more = log("c", "abcd")
    assert asked.answered(more) is more


def test_promotion_that_has_asked_for_nothing_withdraws_nothing() -> None:
    refused = decided(own(log("b")), {"c": GONE})
    assert isinstance(refused, Refuse)
    assert refused.asked == {}


def test_withdrawn_promise_gives_back_the_one_before() -> None:
    first, second = Rank(1, "a" * 32), Rank(2, "b" * 32)
    once = Asked(first, before=Rank()).answered(log("c"))
    twice = Asked(second, before=first).answered(once)
    assert Asked(second, before=first, state="withdrawn").answered(twice) == once
    only = Asked(first, before=Rank(), state="withdrawn").answered(twice)
    assert (only.fence, only.earlier) == (second, ())
    assert Asked(second, before=first, state="withdrawn").answered(only) == log("c")
    assert Asked(first, before=Rank(), state="withdrawn").answered(once) == log("c")


def test_promise_of_an_epoch_that_has_begun_is_not_withdrawn() -> None:
    known = Asked(FIRST, before=Rank()).answered(log("c"))
    begun = Asked(FIRST, state="begun").answered(known)
    assert begun.begun
    assert Asked(FIRST, before=Rank(), state="withdrawn").answered(begun) == begun
    later = Asked(Rank(2, "a" * 32), before=FIRST).answered(begun)
    assert not later.begun


# --- two promotions at once -----------------------------------------------------------------------


class Cluster:
    """Logs in memory, some of which are promoted at the same time, step by step."""

    def __init__(self, names: str, require: int) -> None:
        self.logs = {name: log(name, "a" + names, require) for name in names}
        self.locked: set[str] = set()
        self.begun: dict[str, Rank] = {}
        self.refused: set[str] = set()
        self.untold: set[str] = set()  # open for their own promotion when a promise was withdrawn

    def standing(self, name: str) -> Standing:
        return standing_of(self.logs[name], END, IDENTITY)

    def asked(self, name: str, asked: Asked) -> tuple[Rank, Standing] | str:
        if name in self.locked:
            if asked.state == "withdrawn":
                self.untold.add(name)
            return "it is open"
        self.logs[name] = asked.answered(self.logs[name])
        return self.logs[name].promised, self.standing(name)

    def promote(self, name: str, order: str) -> Iterator[None]:
        """Promote a log; each request to another one is a step."""
        self.locked.add(name)
        candidate = Candidate(own(self.logs[name]), Wanted(tuple(order)))
        described: dict[str, Answer | str] = {}
        for other in order:
            yield
            described[other] = answer(self.logs[other])
        action = candidate.on(Described(described))
        if isinstance(action, Ask):
            answers = {}
            for other, each in action.asked.items():
                yield
                answers[other] = self.asked(other, each)
            action = candidate.on(Promised(answers))
        action = compared(candidate, action)
        yield
        assert isinstance(action, Begin | Refuse)
        if isinstance(action, Begin):
            self.logs[name] = action.lineage
            self.begun[name] = action.lineage.rank
        else:
            self.refused.add(name)
        for other, each in action.asked.items():
            yield
            self.asked(other, each)
        self.locked.discard(name)

    def check(self) -> None:
        """No log holds back a winner because of a promotion that was refused."""
        highest = max(self.begun.values(), default=Rank())
        ranks = set(self.begun.values()) | {Rank()}
        for name, known in self.logs.items():
            assert known.promised <= highest or name in self.untold
            assert not (known.begun and known.fence not in ranks)


@pytest.mark.parametrize(
    ("names", "require", "every"),
    [
        ("bcd", 2, 5),
        ("bcd", 1, 29),
        ("bcde", 2, 997),
        pytest.param("bcd", 2, 1, marks=pytest.mark.long),
        pytest.param("bcd", 1, 1, marks=pytest.mark.long),
        pytest.param("bcde", 2, 7, marks=pytest.mark.long),
    ],
)
def test_refused_promotion_does_not_fence_the_winner(names: str, require: int, every: int) -> None:
    """In each order of the steps of two promotions, or in some of them."""
    others = {name: "".join(each for each in names if each != name) for name in "bc"}
    steps = 3 * (len(names) - 1) + 2
    outcomes = set()
    orders = itertools.combinations(range(2 * steps), steps)
    for chosen in itertools.islice(orders, 0, None, every):
        world = Cluster(names, require)
        runs = {name: world.promote(name, others[name]) for name in "bc"}
        for turn in range(2 * steps):
            next(runs["b" if turn in chosen else "c"], None)
        for run in runs.values():
            list(run)
        world.check()
        outcomes.add((frozenset(world.begun), frozenset(world.refused)))
    assert (frozenset("b"), frozenset("c")) in outcomes
    assert (frozenset("c"), frozenset("b")) in outcomes

"""Candidate: the decisions of a promotion, as a state machine without I/O.

Events go in, actions come out; `promotion` executes them. First all other logs are asked what they
have (`Described`), and nothing is changed. Then they are asked to promise the epoch (`Promised`),
and what they have is compared with the own log (`Compared`). What only another log has is copied
from it (`CaughtUp`). Then the epoch begins, or the promises are withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from commitlog.base.units import whole_of
from commitlog.errors import InvalidOptionError
from commitlog.extension import Lineage, Member, Rank
from commitlog.network.replication.promise import Asked, Standing, State, lost_at
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
    Doubt,
    Event,
    Own,
    Promised,
    Refuse,
    Wanted,
)


@dataclass(frozen=True)
class _Rule:
    """How many promises a promotion needs, and how many copies acknowledge in its epoch.

    Attributes
    ----------
    logs : int
        How many there are: the copies and a primary.
    require : int
        0: as before.
    needed : int
        How many logs have to promise the epoch, the promoted one among them.
    changes : bool
        The epoch has another `require`, or a promised epoch may have had.
    is_equal : bool
        The copies must have as many records as the promoted one.
    """

    logs: int
    require: int
    needed: int
    changes: bool = False
    is_equal: bool = False


class Candidate:
    """Decide whether a log is promoted.

    Parameters
    ----------
    own : Own
        The log, which no follower and no writer has open.
    wanted : Wanted
        What the operator asks for.
    """

    def __init__(self, own: Own, wanted: Wanted) -> None:
        self._own = own
        self._wanted = wanted
        self._answers: dict[str, Answer] = {}
        self._problems: dict[str, str] = {}
        self._standings: dict[str, Standing] = {}
        self._rank = Rank()
        self._rule = _Rule(1, 0, 1)
        self._uncaught = ""
        self._has_asked = False
        self._can_catch_up = False
        self._compared: dict[str, int] = {}  # up to where a log has the same frames
        self._differs = False

    def on(self, event: Event) -> Action:
        """Return what to do after an event; raise `InvalidOptionError` if two URLs name one log, or
        a number is none that this log can have.
        """
        match event:
            case Described():
                return self._on_described(event)
            case Promised():
                return self._on_promised(event)
            case Compared():
                return self._on_compared(event)
            case CaughtUp():
                self._own, self._uncaught = event.own, event.problem or self._uncaught
                return self._decide(can_catch_up=not event.problem)

    # --- events -----------------------------------------------------------------------------------

    def _on_described(self, event: Described) -> Action:
        for url, answer in event.answers.items():
            if isinstance(answer, str):
                self._problems[url] = answer
            elif not self._own.lineage.believes(answer.lineage.promised):
                number = answer.lineage.promised.number
                self._problems[url] = (
                    f"it knows epoch {number}, too far from epoch {self._own.lineage.number} here"
                )
            else:
                self._answers[url] = answer
                self._standings[url] = answer.standing
        self._refuse_twins()
        self._rule = self._counted()
        known = [answer.lineage.promised for answer in self._answers.values()]
        self._rank = Rank.after([self._own.lineage.promised, self._own.claimed, *known])
        if not self._wanted.urls:
            return self._decide(can_catch_up=False)
        found = self._doubts(can_catch_up=True)
        if self._ahead_in_epoch():
            found.pop("store", None)  # the other log may have what the store has
        if self._refused(found):
            return self._refusal(found)
        self._has_asked = True
        return Ask(self._told("asked"))

    def _on_promised(self, event: Promised) -> Action:
        for url, answer in event.answers.items():
            if isinstance(answer, str):
                self._problems[url] = answer
            else:
                promised, self._standings[url] = answer
                if promised != self._rank:
                    self._problems[url] = (
                        f"it has promised epoch {promised.number} to another promotion, or counts "
                        "more copies since it was asked"
                    )
        return self._decide(can_catch_up=True)

    def _on_compared(self, event: Compared) -> Action:
        for url, found in event.answers.items():
            if isinstance(found, str):
                self._problems[url] = found
            elif found is not None:
                self._differs = True
                self._problems[url] = (
                    f"it has other records than this log from position {found} on, and the same "
                    "epochs: one of the two was restored from a backup or is a clone. Promote the "
                    "log that is right"
                )
        return self._decide(can_catch_up=self._can_catch_up)

    # --- decisions --------------------------------------------------------------------------------

    def _decide(self, *, can_catch_up: bool) -> Action:
        self._can_catch_up = can_catch_up
        found = self._doubts(can_catch_up=can_catch_up)
        if self._has_asked and self._may_go_on(found) and (ends := self._uncompared()):
            self._compared |= ends
            return Compare(ends)
        if can_catch_up and (url := self._ahead_in_epoch()) and self._may_go_on(found):
            return CatchUp(url, self._standings[url].position)
        if self._refused(found):
            return self._refusal(found)
        new = self._own.lineage.promoted(
            self._own.standing.position,
            self._rank,
            self._rule.require,
            others=self._members() if self._wanted.copies is None else self._answering(),
            copies=self._rule.logs - 1,
        )
        return Begin(new, "; ".join(found.values()), self._told("begun"))

    def _may_go_on(self, found: Mapping[Doubt, str]) -> bool:
        """Whether nothing refuses the promotion but what the log can still get."""
        return not set(self._refused(found)) - {"store"}

    def _uncompared(self) -> dict[str, int]:
        """Return the logs with frames that were not compared yet, and up to where both have them,
        in epochs that both know.
        """
        own, ends = self._own, {}
        for url, answer in self._answers.items():
            parted = own.lineage.parted(answer.lineage)
            both = min(own.standing.position, self._standings[url].position)
            end = both if parted is None else min(both, parted)
            if url not in self._problems and end > self._compared.get(url, 0):
                ends[url] = end
        return ends

    def _refused(self, found: Mapping[Doubt, str]) -> list[Doubt]:
        return [name for name in found if name not in self._wanted.waived]

    def _refusal(self, found: Mapping[Doubt, str]) -> Refuse:
        return Refuse(
            f"not promoted: {'; '.join(found.values())}; correct that, or promote with force "
            f"{', '.join(found)}, and lose what is named",
            self._told("withdrawn") if self._has_asked else {},
        )

    def _doubts(self, *, can_catch_up: bool) -> dict[Doubt, str]:
        """Return what may be lost, by the answers so far."""
        behind = self._behind() if self._rule.is_equal else ""
        found: dict[Doubt, str] = {
            "restored": self._own.restored,
            "promises": self._missing(),
            "copies": self._ahead(can_catch_up=can_catch_up) or behind or self._lost(),
            "store": self._own.behind_store,
        }
        return {name: text for name, text in found.items() if text}

    def _missing(self) -> str:
        """Return that fewer logs than are needed have answered, or an empty text."""
        urls, rule = self._wanted.urls, self._rule
        promise = 1 + len([url for url in urls if url not in self._problems])
        # If a log has other records, this one may be the wrong one, as if it were restored.
        needed = rule.needed + (self._differs and not self._own.restored)
        if promise >= needed:
            return ""
        problems = [f"{url}: {self._problems[url]}" for url in urls if url in self._problems]
        names = [each.name for each in self._members() if each.name]
        listed = f", among them {', '.join(names)}" if names else ""
        counted = f"; the log counts {rule.logs - 1} copies{listed}"
        return (
            f"{promise} of {needed} copies that are needed promise the epoch, so acknowledged "
            "records that only the others have would be lost, and the old primary could go on "
            f"acknowledging ({'; '.join(problems) or 'name all of them'}{counted}: if some of them "
            "are gone for good, say how many are left with copies=, --copies)"
        )

    def _has_rest(self, url: str) -> bool:
        """Whether a log has what follows the own one: records of the last epoch that both reach,
        and none beyond the start of an epoch that only one of them knows.
        """
        standing = self._standings[url]
        parted = self._own.lineage.parted(self._answers[url].lineage)
        same = standing.reached == self._own.standing.reached
        return same and (parted is None or parted >= standing.position)

    def _ahead_in_epoch(self) -> str:
        """Return the log that has most of what follows the own one; an empty text if none has."""
        own = self._own.standing
        ends = {
            standing.position: url
            for url, standing in self._standings.items()
            if url not in self._problems and self._has_rest(url)
        }
        most = max(ends, default=0)
        return ends[most] if most > own.position else ""

    def _ahead(self, *, can_catch_up: bool) -> str:
        """Return which logs have more than the own one, and cannot be copied from."""
        own = self._own.standing
        why = f"; copying it failed: {self._uncaught}" if self._uncaught else ""
        return self._others(
            lambda url, other: other > own and not (can_catch_up and self._has_rest(url)),
            f"what only the other copy has would be lost; promote it{why}",
        )

    def _lost(self) -> str:
        """Return which logs show that the own one is an older state."""
        own = self._own.lineage
        found = {
            url: (lost_at(own, answer.lineage, answer.durable), answer.durable)
            for url, answer in self._answers.items()
        }
        return "; ".join(
            f"this log diverged at {start} from {url}, and its primary had all records below "
            f"{durable} durably: this log has an older state, from a backup or a snapshot"
            for url, (start, durable) in found.items()
            if start is not None
        )

    def _behind(self) -> str:
        """Return which logs have less than the own one."""
        return self._others(
            lambda _, other: other < self._own.standing,
            "a greater require counts with what each copy has; let it follow until it has caught "
            "up",
        )

    def _others(self, counts: Callable[[str, Standing], bool], why: str) -> str:
        own = self._own.standing
        return "; ".join(
            f"{url} ends at {other.position} in epoch {other.reached.number}, and this copy at "
            f"{own.position} in epoch {own.reached.number}: {why}"
            for url, other in self._standings.items()
            if url not in self._problems and counts(url, other)
        )

    def _told(self, state: State) -> dict[str, Asked]:
        """Return what to ask the logs that have answered, or to tell them later."""
        return {
            url: Asked(
                self._rank,
                self._rule.changes,
                answer.lineage.promised,
                answer.lineage.copies,
                state,
            )
            for url, answer in self._answers.items()
        }

    def _refuse_twins(self) -> None:
        urls = {self._own.place: "this copy", self._own.lineage.member: "this copy"}
        for url, answer in self._answers.items():
            for known in (answer.place, answer.lineage.member):
                if known and known in urls:
                    raise InvalidOptionError(
                        f"{url} names the same copy as {urls[known]}, or a clone of it: name each "
                        "other copy once"
                    )
            urls |= {answer.place: url, answer.lineage.member: url}

    def _answering(self) -> list[Member]:
        """Return the other logs that have answered, with their names."""
        known = {each.id: each for each in self._own.lineage.members}
        ids = [answer.lineage.member for answer in self._answers.values()]
        return [known.get(each, Member(each)) for each in ids if each]

    def _members(self) -> list[Member]:
        """Return the other logs that are known to any log that has answered."""
        own = self._own.lineage
        lists = [own.members, *(answer.lineage.members for answer in self._answers.values())]
        told = {each.id: each for known in lists for each in known}
        for gone in (own.member, self._own.former):
            told.pop(gone, None)
        found = {each.id: each for each in self._answering()} | told
        return list(found.values())[: Lineage.COPIES_LIMIT]

    def _counted(self) -> _Rule:
        """Return the rule, from what the operator names and from what the logs know.

        An acknowledged record is on the primary and on `require` copies. Of all logs, so many as
        there are less `require` have at least one of these among them: see docs/replication.md.
        """
        own, wanted = self._own.lineage, self._wanted
        named = len(wanted.urls) + (own.follows is not None)
        known = max(len(self._members()), own.copies)
        known = max([known, *(answer.lineage.copies for answer in self._answers.values())])
        copies = known if self._are_all_known() else max(named, known)
        if not own.require:  # no append has waited for its copies
            copies = named
        if wanted.copies is not None:
            copies = _checked_copies(wanted.copies, named)
        require = self._checked_require(copies)
        changed = require if own.require and require != own.require else None
        if changed is not None or own.changing:
            is_equal = (changed or 64) > own.require
            return _Rule(copies + 1, changed or 0, copies + 1, changes=True, is_equal=is_equal)
        needed = max(copies + 1 - (own.require or require or 1), 1)
        # A restored log may lack what it acknowledged, so its own promise does not count.
        return _Rule(copies + 1, 0, needed + bool(self._own.restored))

    def _are_all_known(self) -> bool:
        """Whether each log that is named is one of `_members`, and so is the primary.

        Otherwise a log that is named may be a copy that no list has, and the primary of this copy
        counts beside those that are named.
        """
        ids = [answer.lineage.member for answer in self._answers.values()]
        return bool(self._own.lineage.members) and len(ids) == len(self._wanted.urls) and all(ids)

    def _checked_require(self, copies: int) -> int | None:
        own, require = self._own.lineage, self._wanted.require
        most = max(copies, 1)
        if require is not None and (whole_of(require) is None or not 1 <= require <= most):
            raise InvalidOptionError(
                f"require must be an int from 1 to the number of copies, {most}, not {require!r}"
            )
        if own.require and own.follows is not None and require not in (None, own.require):
            raise InvalidOptionError(
                f"{own.require} copies acknowledge the records of this log, and every log must "
                f"promise to change that to {require}: promote the copy without require, or the "
                "primary, closed, with all of its copies"
            )
        return require


def _checked_copies(copies: object, named: int) -> int:
    found = whole_of(copies)
    if found is None or not max(named, 1) <= found <= Lineage.COPIES_LIMIT:
        raise InvalidOptionError(
            f"copies must be an int from {max(named, 1)}, as many as are named with this one, to "
            f"{Lineage.COPIES_LIMIT}, not {copies!r}"
        )
    return found

"""StoreSession: the right to write to a store, claimed by an object that is put once.

Sessions are numbered from 1 without a gap. A promotion begins one, and so does each handle that
stores a log, before its first object. What a session stores counts only up to the start of each
later one. So a writer that lost the store sees it by one request for the next number, and what it
put too late reaches no reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import BinaryIO

from commitlog.base.failpoint import failpoint
from commitlog.base.host import host
from commitlog.errors import CorruptSegmentError, FencedError, InvalidOptionError
from commitlog.stores.target import Target, reading

_NAME = re.compile(r"^([0-9]{10})\.epoch$")
_SIZE_LIMIT = 4096
_MOST = 10**10  # as many as ten digits name
_CLAIMS_MOST = 100  # sessions that may begin while a promotion claims one
_KEPT = 1000
_RETIRED_MOST = 100  # at a time


@dataclass(frozen=True)
class StoreSession:
    """One session of a store.

    Attributes
    ----------
    number : int
        1 for the first one of a store; 0 stands for the writers before it.
    epoch : int
        The epoch of its writer: a later session never has a lower one.
    start : int
        Where it goes on: what earlier sessions stored behind this position does not count.
    id : str
        32 random hexadecimal digits, or those of the promotion.
    promotion : bool
        A promotion began it.
    epoch_start : int
        Where the epoch of that promotion starts. A promotion that gives up records of the store
        has its `start` where the store stops to have the records of the log.
    """

    number: int
    epoch: int
    start: int
    id: str
    promotion: bool = False
    epoch_start: int = 0

    @property
    def name(self) -> str:
        return f"{self.number:010d}.epoch"

    @classmethod
    def of(cls, epoch: int, start: int) -> StoreSession:
        """Return a session with a new id, which has no number yet."""
        return cls(0, epoch, start, host.random(16).hex())

    def claim_behind(self, target: Target, newest: StoreSession) -> StoreSession:
        """Claim the number behind the newest session.

        Raises
        ------
        FencedError
            Another writer has claimed it.
        """
        claimed = replace(self, number=newest.number + 1)
        text = json.dumps(asdict(claimed)).encode()
        placed = claimed.number < _MOST and target.put(
            claimed.name, partial(_write, text), replace=False
        )
        # If it is there, this writer put it and the answer was lost, or another writer did.
        found = claimed if placed else read_session(target, claimed.number)
        if found is None or found.id != self.id:
            raise fenced(target, claimed.number)
        failpoint("session claimed")
        return found

    def refuse_later(self, target: Target) -> None:
        """Raise `FencedError` if a later session is claimed."""
        if read_session(target, self.number + 1) is not None:
            raise fenced(target, self.number + 1)


def _write(text: bytes, file: BinaryIO) -> None:
    file.write(text)


def refuse_unconditional(target: Target, newest: StoreSession) -> None:
    """Refuse a store that replaces an object although it was asked not to.

    The newest session is put as it is, so such a store is not changed.
    """
    if not newest.number:
        return
    path = target.path_of(newest.name)
    with reading(path), target.open(newest.name) as file:
        text = file.read(_SIZE_LIMIT)
    if target.put(newest.name, partial(_write, text), replace=False):
        raise InvalidOptionError(
            "the store has no conditional put: it replaced an object although If-None-Match "
            "forbids that, so two machines could mix their records there. Use another store, or "
            "Store(..., single_writer=True) if only one machine ever stores this log",
            path=path,
        )


def begin_epoch(target: Target, promotion: StoreSession) -> None:
    """Claim a session for a promotion, which has no number yet.

    Raises
    ------
    FencedError
        The store has this epoch, of another promotion, or a later one.
    """
    for _ in range(_CLAIMS_MOST):
        newest = newest_session(target)
        if newest.epoch == promotion.epoch and newest.id == promotion.id:
            return
        if newest.epoch >= promotion.epoch:
            raise fenced_by_epoch(target, newest.epoch)
        try:
            promotion.claim_behind(target, newest)
        except FencedError:  # the log of the epoch before was just opened, or promoted elsewhere
            continue
        return
    raise fenced(target, newest.number + 1)


def newest_session(target: Target) -> StoreSession:
    """Return the last session, also if no listing shows it yet; number 0 if there is none."""
    with reading(target.name):
        number = max(sessions_in(target.names()), default=0)
    newest = read_session(target, number) if number else None
    while (onward := read_session(target, number + 1)) is not None:
        newest, number = onward, number + 1
    return newest or StoreSession(number, 0, 0, "")


def promotions(target: Target) -> list[StoreSession]:
    """Read the promotions of a store, ascending."""
    with reading(target.name):
        numbers = sorted(sessions_in(target.names()))
    found = [read_session(target, number) for number in numbers]
    # Earlier releases claimed each epoch that they passed over, with the same id.
    last = {each.id: each for each in found if each is not None and each.promotion}
    return list(last.values())


def sessions_in(names: Iterable[str]) -> list[int]:
    """Return the numbers of the sessions among the names of a store."""
    return [int(match[1]) for name in names if (match := _NAME.match(name))]


def retire(target: Target, newest: StoreSession, oldest_needed: int) -> None:
    """Delete sessions that nothing needs any more.

    Promotions stay, the last 1000 sessions, and those from the oldest one on that a part names. A
    part counts only if the session behind its own is listed, so one that a writer of a deleted
    session puts does not.
    """
    least = min(newest.number - _KEPT, oldest_needed)
    if least <= 0:
        return
    with reading(target.name):
        old = sorted(each for each in sessions_in(target.names()) if each < least)
    found = [read_session(target, number) for number in old[:_RETIRED_MOST]]
    target.delete([each.name for each in found if each is not None and not each.promotion])


def read_session(target: Target, number: int) -> StoreSession | None:
    """Read a session; None if it is not claimed."""
    name = StoreSession(number, 0, 0, "").name
    path = target.path_of(name)
    try:
        with reading(path), target.open(name) as file:
            text = file.read(_SIZE_LIMIT)
    except FileNotFoundError:
        return None
    try:
        found = _parsed(json.loads(text))
    except (ValueError, RecursionError):
        found = None
    if found is None or found.number != number:
        raise CorruptSegmentError(
            f"{name} is damaged, or of a newer release: restore it from another copy of the store",
            path=path,
        )
    return found


def _parsed(content: object) -> StoreSession | None:
    if not isinstance(content, dict):
        return None
    if content.keys() == {"number", "start", "id"}:  # of an earlier release: promotions only
        of_epoch = {"epoch": content["number"], "epoch_start": content["start"], "promotion": True}
        content = {**content, **of_epoch}
    if content.keys() != {each.name for each in fields(StoreSession)}:
        return None
    numbers = content["number"], content["epoch"], content["start"], content["epoch_start"]
    sound = all(type(each) is int and 0 <= each < 1 << 63 for each in numbers)
    sound = sound and type(content["id"]) is str and type(content["promotion"]) is bool
    return StoreSession(**content) if sound else None


def fenced(target: Target, number: int) -> FencedError:
    return FencedError(
        f"another writer has claimed session {number} of the store: a copy of this directory was "
        "opened, or the log was restored and went on elsewhere. Use that log, or stop its writer "
        "and run `commitlog promote --store` here",
        path=target.name,
    )


def foreign(target: Target, number: int) -> FencedError:
    return FencedError(
        f"this directory did not begin session {number} of the store, the newest one: it is a copy "
        "of the log, was restored from a backup, or another machine went on; nothing is stored. "
        "Restore the log from the store, or stop the other writer and run `commitlog promote "
        "--store` here, or use a new target",
        path=target.name,
    )


def fenced_by_epoch(target: Target, epoch: int) -> FencedError:
    return FencedError(
        f"another log has claimed epoch {epoch} of the store: follow that log, or run "
        "`commitlog promote --store` to make this one the primary",
        path=target.name,
    )

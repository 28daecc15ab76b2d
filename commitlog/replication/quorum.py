"""Quorum: the other copies of a log, which a promotion asks to promise its epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from commitlog.errors import CommitLogError, InvalidOptionError, ReplicationError
from commitlog.recovery import lineage
from commitlog.recovery.lineage import Rank
from commitlog.remote.wire import FAILURES, number_of
from commitlog.replication.primary import Access, Primary
from commitlog.replication.replica import Standing, standing_of
from commitlog.segment import identity as identities

_MEMBERS_LIMIT = 64


class _Member:
    """One copy, and what it has answered."""

    def __init__(self, primary: Primary) -> None:
        self.primary = primary
        self.copy_id = ""
        self.known = Rank()
        self.standing = Standing(Rank(), 0)
        self.problem: str | None = None

    def describe(self, uuid: bytes, timeout_s: float) -> None:
        """Ask for the state of the copy, and change nothing."""
        url = self.primary.url
        with self.primary.connect(timeout_s) as client:
            said = self.primary.describe(client, timeout_s)
        identity = identities.parse(str(said.get("identity")), url)
        if identity.uuid != uuid:
            raise ReplicationError(f"{url} is another log: name the copies of this one")
        try:
            theirs = lineage.parse(said)
        except ValueError as error:
            raise ReplicationError(f"{url} sent an unusable lineage: {error}") from None
        self.copy_id = str(said.get("copy"))
        self.known = theirs.promised
        end = number_of(said, "end", url)
        self.standing = standing_of(theirs, end, identity.segment_size)

    def fence(self, rank: Rank, timeout_s: float, *, changes: bool) -> None:
        """Ask the copy to promise an epoch."""
        with self.primary.connect(timeout_s) as client:
            promised, self.standing = self.primary.fence(client, rank, timeout_s, changes=changes)
        if promised != rank:
            raise ReplicationError(f"it has promised epoch {promised.number} to another promotion")


class Quorum:
    """The other copies, asked at the same time.

    Parameters
    ----------
    urls : iterable of str
        The URLs of the copies.
    access : Access
        How to connect to them.
    timeout_s : float
        How long a copy may take to answer.
    """

    def __init__(self, urls: Iterable[str], access: Access, timeout_s: float) -> None:
        self.members = [_Member(access.primary(url)) for url in urls]
        if len(self.members) > _MEMBERS_LIMIT:
            raise InvalidOptionError(f"a log has at most {_MEMBERS_LIMIT} other copies")
        self._timeout_s = timeout_s

    def ask(self, uuid: bytes, own_id: str) -> list[Rank]:
        """Ask all copies for their state; return the highest rank that each one knows."""
        self._each(lambda member: member.describe(uuid, self._timeout_s))
        urls = {own_id: "this copy"}
        for member in self.members:
            if member.problem is None:
                if member.copy_id in urls:
                    raise InvalidOptionError(
                        f"{member.primary.url} names the same copy as {urls[member.copy_id]}: "
                        "name each other copy once"
                    )
                urls[member.copy_id] = member.primary.url
        return [member.known for member in self.members]

    def fence(self, rank: Rank, *, changes: bool) -> None:
        """Ask all copies to promise an epoch, which changes how many copies acknowledge, or not."""
        self._each(lambda member: member.fence(rank, self._timeout_s, changes=changes))

    def missing(self, needed: int) -> str:
        """Return that fewer than the needed copies have answered, or an empty text."""
        problems = [
            f"{member.primary.url}: {member.problem}"
            for member in self.members
            if member.problem is not None
        ]
        promise = 1 + len(self.members) - len(problems)
        if promise >= needed:
            return ""
        return (
            f"{promise} of {needed} copies that are needed promise the epoch, so acknowledged "
            "records that only the others have would be lost, and the old primary could go on "
            f"acknowledging ({'; '.join(problems) or 'name them all'})"
        )

    def ahead(self, standing: Standing) -> str:
        """Return which copies have more records than a log of this standing, or an empty text."""
        return self._others(
            lambda other: other > standing,
            standing,
            "what only the other copy has would be lost; promote it",
        )

    def behind(self, standing: Standing) -> str:
        """Return which copies have fewer records than a log of this standing, or an empty text."""
        return self._others(
            lambda other: other < standing,
            standing,
            "a greater require counts with what each copy has; let it follow until it has caught "
            "up",
        )

    def _others(self, counts: Callable[[Standing], bool], own: Standing, why: str) -> str:
        return "; ".join(
            f"{member.primary.url} ends at {member.standing.position} in epoch "
            f"{member.standing.reached.number}, and this copy at {own.position} in epoch "
            f"{own.reached.number}: {why}"
            for member in self.members
            if member.problem is None and counts(member.standing)
        )

    def _each(self, act: Callable[[_Member], None]) -> None:
        def asked(member: _Member) -> None:
            try:
                act(member)
                member.problem = None
            except CommitLogError as error:
                member.problem = error.message
            except FAILURES as error:
                member.problem = str(error)

        if self.members:
            with ThreadPoolExecutor(len(self.members), "commitlog promote") as threads:
                list(threads.map(asked, self.members))

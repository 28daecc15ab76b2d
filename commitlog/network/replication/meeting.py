"""Meeting: compare a copy and the log that it is to follow, before any record is copied."""

from __future__ import annotations

import os
from typing import Any

from commitlog.errors import FencedError, ReplicationError
from commitlog.extension import Epochs, Lineage, LockedLog, Member
from commitlog.network.remote.channel import SILENCE_S, Channel
from commitlog.network.remote.wire import number_of
from commitlog.network.replication.chunk_stream import ChunkStream
from commitlog.network.replication.comparison import first_difference
from commitlog.network.replication.primary import Primary
from commitlog.network.replication.promise import lost_at
from commitlog.network.replication.replica import Replica
from commitlog.types import Identity


class ForkedLogError(Exception):
    """The copy has records beside those of its primary, from a position on."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def prepare(primary: Primary, client: Channel, said: dict[str, Any], path: str, name: str) -> None:
    """Create the copy, or check that the directory holds one of this log."""
    url = primary.url
    identity = Identity.parse(str(said.get("identity")), url)
    theirs = primary.lineage_of(said)
    known = Epochs.at(path)
    if known is None:
        LockedLog.create(path, identity, Lineage().adopted(theirs, url))
    else:
        _check_log(said, url, path, known[0].uuid)
        if known[1].follows is None and known[1].rank >= theirs.rank:
            raise FencedError(
                f"the log in this directory is a primary of epoch {known[1].number}, and "
                f"{url} has epoch {theirs.number}: follow a log of a higher epoch",
                path=path,
            )
    start = number_of(said, "first", url)
    if known is None or not _has_segments(path):
        with primary.stream(name, theirs.rank, start, [], members=theirs.members) as stream:
            _begin(stream, url, path, identity)


def _begin(stream: ChunkStream, url: str, path: str, identity: Identity) -> None:
    while chunk := stream.next():
        if chunk.header:
            try:
                LockedLog.begin(path, identity, chunk.number, chunk.header)
            except ValueError as error:
                raise ReplicationError(f"{url} sent {error}", path=path) from error
            return
    raise ReplicationError(f"{url} was closed before it sent a segment: follow again", path=path)


def meet(
    primary: Primary,
    client: Channel,
    said: dict[str, Any],
    replica: Replica,
    name: str,
    *,
    waits: bool = False,
) -> bool:
    """Compare lineages and ends; adopt the primary's lineage, or raise. `ForkedLogError`: the copy
    has to be cut first.

    If the follower `waits`, return False while a fenced copy meets a primary of a lower epoch:
    the new primary may come to the same address.
    """
    _check_log(said, primary.url, replica.log.path, replica.log.identity.uuid)
    theirs = primary.lineage_of(said)
    known = replica.identify()
    promised = known.promised
    if promised > theirs.rank:
        # A promise alone fences no primary: its epoch may never begin.
        if known.rank > theirs.rank or known.begun:
            primary.acknowledge(client, name, promised, replica.position)
        if waits and replica.is_fenced:
            return False
        if promised[:2] == theirs.rank[:2]:
            raise FencedError(
                f"this copy knows a recovery of its primary that {primary.url} does not: the "
                "server has an older state of the log; promote the copy, or restore the server",
                path=replica.log.path,
            )
        raise FencedError(
            f"this copy has promised epoch {promised.number}, and {primary.url} does not "
            f"know it, but has epoch {theirs.number}: follow the log that was promoted last",
            path=replica.log.path,
        )
    replica.follows_primary = fit(primary, client, said, replica).follows is None
    counting = primary.join(client, Member(known.member, name))
    if counting.rank != theirs.rank:
        raise ConnectionError("the log has another epoch by now")
    with replica.lock:
        replica.adopt(replica.lineage.adopted(counting, primary.url))
    return True


def _check_log(said: dict[str, Any], url: str, path: str, uuid: bytes) -> None:
    if Identity.parse(str(said.get("identity")), url).uuid != uuid:
        raise ReplicationError(
            f"{url} is another log than the one in this directory: choose an empty or a new "
            "directory",
            path=path,
        )


def fit(primary: Primary, client: Channel, said: dict[str, Any], replica: Replica) -> Lineage:
    """Compare epochs, ends and frames of a copy and a log that it can go on with; return the
    lineage of the log.
    """
    url, path, ours = primary.url, replica.log.path, replica.lineage
    theirs = primary.lineage_of(said)
    parted = ours.parted(theirs)
    if parted is not None and replica.position > parted:
        _refuse_older(url, theirs, replica)
        raise ForkedLogError(parted)  # the primary has a later epoch: its records are kept
    end = max(number_of(said, "end", url), number_of(said, "first", url))
    if replica.position > replica.log.identity.past_header(end):
        raise FencedError(
            f"this copy ends at {replica.position}, and {url} at {end}: the server has "
            "lost records; promote the copy, or restore the server",
            path=path,
            position=end,
        )
    _compare(primary, client, replica)
    return theirs


def _refuse_older(url: str, theirs: Lineage, replica: Replica) -> None:
    """Refuse a primary that recovered below records that were durable there."""
    durable = replica.followed.position
    start = lost_at(theirs, replica.lineage, durable)
    if start is not None:
        raise FencedError(
            f"{url} recovered at {start}, and had all records below {durable} durably before: it "
            "has an older state, restored from a backup or a snapshot. Promote this copy; or, to "
            "lose what only it has, remove it and follow again",
            path=replica.log.path,
            position=start,
        )


def _compare(primary: Primary, client: Channel, replica: Replica) -> None:
    """Refuse a log that has other frames than the copy, where their epochs are the same."""
    log = replica.log
    position = first_difference(
        replica.digests,
        lambda ends: primary.digests(client, ends, SILENCE_S),
        log.segment_numbers(),
        replica.position,
        log.identity.segment_size,
    )
    if position is not None:
        raise FencedError(
            f"this copy and {primary.url} have different records from position {position} on, and "
            "the same epochs: one of the two was restored from a backup or is a clone. Keep the "
            "log that is right: promote this copy, or remove it and follow again",
            path=log.path,
            position=position,
        )


def holds_copy(path: str) -> bool:
    """Return whether a directory holds a copy of another log, with at least one segment."""
    known = Epochs.at(path)
    return known is not None and known[1].follows is not None and _has_segments(path)


def _has_segments(path: str) -> bool:
    return any(name.endswith(".seg") for name in os.listdir(path))

"""Meeting: compare a copy and the log that it is to follow, before any record is copied."""

from __future__ import annotations

import os

from commitlog.errors import ReplicationError
from commitlog.extension import Epochs, Lineage, LockedLog, Member
from commitlog.network.remote.channel import SILENCE_S, Channel
from commitlog.network.replication.chunk_stream import ChunkStream
from commitlog.network.replication.comparison import first_difference
from commitlog.network.replication.following import Copy, Cut, Following, Leave, Log
from commitlog.network.replication.primary import Primary
from commitlog.network.replication.replica import Replica
from commitlog.types import Identity


def prepare(following: Following, primary: Primary, log: Log, path: str, name: str) -> None:
    """Create the copy, or check that the directory holds one of this log."""
    known, theirs = Epochs.at(path), log.lineage
    if known is None:
        LockedLog.create(path, log.identity, Lineage().adopted(theirs, primary.url))
    elif (error := following.refusal(Copy(*known), log)) is not None:
        raise error
    if known is None or not _has_segments(path):
        with primary.stream(name, theirs.rank, log.first, [], members=theirs.members) as stream:
            _begin(stream, primary.url, path, log.identity)


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
    following: Following,
    primary: Primary,
    client: Channel,
    log: Log,
    replica: Replica,
    *,
    name: str,
    waits: bool,
) -> Cut | Leave | None:
    """Let a copy adopt the lineage of its log, or return what to do before; raise if it may not
    follow the log.
    """
    found = following.described(replica.copy(), log, waits=waits)
    found = found or following.compared(difference(primary, client, replica))
    if found is None:
        replica.follows_primary = log.lineage.follows is None
        counting = primary.join(client, Member(replica.identify(), name))
        found = following.joined(log, counting)
        if found is None:
            with replica.lock:
                replica.adopt(replica.lineage.adopted(counting, primary.url))
    if isinstance(found, Leave):
        if found.told is not None:
            primary.acknowledge(client, name, found.told, replica.position)
        if found.error is not None:
            raise found.error
    return found


def difference(primary: Primary, client: Channel, replica: Replica) -> int | None:
    """Return the position of the first frame of a copy that the log does not have, or None."""
    log = replica.log
    return first_difference(
        replica.digests,
        lambda ends: primary.digests(client, ends, SILENCE_S),
        log.segment_numbers(),
        replica.position,
        log.identity.segment_size,
    )


def holds_copy(path: str) -> bool:
    """Return whether a directory holds a copy of another log, with at least one segment."""
    known = Epochs.at(path)
    return known is not None and known[1].follows is not None and _has_segments(path)


def _has_segments(path: str) -> bool:
    return any(name.endswith(".seg") for name in os.listdir(path))

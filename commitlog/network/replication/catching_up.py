"""Catching up: a log that is to be promoted copies what only another one has."""

from __future__ import annotations

from commitlog.base.host import host
from commitlog.errors import ReplicationError
from commitlog.network.remote.channel import Channel
from commitlog.network.replication.following import Cut, Following, Leave, Log
from commitlog.network.replication.meeting import difference
from commitlog.network.replication.primary import Primary
from commitlog.network.replication.replica import Replica


def catch_up(path: str, other: Primary, position: int, limit_s: float) -> None:
    """Copy the records of the same epoch up to a position from a log that has promised the
    promotion, and so gets no more; end with a `ReplicationError` if none comes for so long.
    """
    replica = Replica(path, checked=True)
    try:
        with other.connect(limit_s) as client:
            log = other.describe(client, limit_s)
            _check(replica, other, client, log, position)
        begun = log.lineage.rank, replica.position, replica.unsealed()
        with other.stream("a promotion", *begun, members=log.lineage.members) as stream:
            last_s, before = host.monotonic(), replica.position
            while replica.position < position:
                chunk = stream.next()
                if chunk is None:
                    raise ReplicationError(f"{other.url} was closed before it sent all records")
                with replica.lock:
                    replica.write(chunk)
                if replica.position > before:
                    last_s, before = host.monotonic(), replica.position
                elif host.monotonic() - last_s > limit_s:
                    raise ReplicationError(f"{other.url} sent no record for {limit_s:g} s")
    finally:
        replica.close()


def _check(replica: Replica, other: Primary, client: Channel, log: Log, position: int) -> None:
    """Refuse a log that does not have the records of this one, and more up to a position."""
    following = Following(other.url, replica.log.path)
    found = following.fitted(replica.copy(), log)
    found = found or following.compared(difference(other, client, replica))
    if isinstance(found, Leave) and found.error is not None:
        raise found.error
    parted = replica.lineage.parted(log.lineage)
    if isinstance(found, Cut) or (parted is not None and parted < position):
        raise ReplicationError(f"{other.url} diverged at {parted}")

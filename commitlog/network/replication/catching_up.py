"""Catching up: a log that is to be promoted copies what only another one has."""

from __future__ import annotations

from commitlog.base.host import host
from commitlog.errors import ReplicationError
from commitlog.network.replication.meeting import ForkedLogError, fit
from commitlog.network.replication.primary import Primary
from commitlog.network.replication.replica import Replica


def catch_up(path: str, other: Primary, position: int, limit_s: float) -> None:
    """Copy the records of the same epoch up to a position from a log that has promised the
    promotion, and so gets no more; end with a `ReplicationError` if none comes for so long.
    """
    replica = Replica(path, checked=True)
    try:
        with other.connect(limit_s) as client:
            said = other.describe(client, limit_s)
            theirs = fit(other, client, said, replica)
        parted = replica.lineage.parted(theirs)
        if parted is not None and parted < position:
            raise ForkedLogError(parted)
        begun = theirs.rank, replica.position, replica.unsealed()
        with other.stream("a promotion", *begun, members=theirs.members) as stream:
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
    except ForkedLogError as fork:
        raise ReplicationError(f"{other.url} diverged at {fork.position}") from None
    finally:
        replica.close()

"""SideCopies: a thread of a follower that copies the side logs of its log.

They are not compared by epochs: what they say counts only as far as the records of the log are
those that they name. So a side log that differs from its copy replaces it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil

from commitlog.base.path import translate_errors
from commitlog.base.service import Service
from commitlog.base.side_logs import NEW, put_in_place, side_logs
from commitlog.errors import (
    CommitLogError,
    CorruptRecordError,
    CorruptSegmentError,
    FencedError,
    NotALogError,
    PositionError,
    ReplicationError,
)
from commitlog.extension import Lineage, LockedLog
from commitlog.network.remote.channel import SILENCE_S, Channel
from commitlog.network.remote.wire import FAILURES
from commitlog.network.replication.comparison import first_difference
from commitlog.network.replication.primary import Primary
from commitlog.network.replication.replica import Replica
from commitlog.network.replication.wire import Chunk, Side

_logger = logging.getLogger("commitlog.replication")
_EVERY_S = 0.2
_RETRY_S = 1.0
_FAILURES: tuple[type[Exception], ...] = (*FAILURES, CommitLogError)
# Of a copy that cannot go on: it is made anew.
_LOST = (
    CorruptRecordError,
    CorruptSegmentError,
    FencedError,
    NotALogError,
    PositionError,
    ReplicationError,
)


class SideCopies(Service):
    """Copy the side logs while the log itself is copied.

    Parameters
    ----------
    primary : Primary
        The server of the log.
    replica : Replica
        The copy of the log.
    """

    def __init__(self, primary: Primary, replica: Replica) -> None:
        super().__init__(f"commitlog follow beside {replica.log.path}")
        self._primary = primary
        self._replica = replica
        self._rank = replica.lineage.rank
        self._path = replica.log.path
        self._copies: dict[str, Replica] = {}
        self._client: Channel | None = None
        self._is_lost = False

    def run(self) -> None:
        try:
            while not self.ending.is_set():
                try:
                    with self._primary.connect() as self._client:
                        while not self.ending.is_set():
                            self._round(self._client)
                            self._is_lost = False
                            self.ending.wait(_EVERY_S)
                except _FAILURES as error:
                    self._report(error)
                self.ending.wait(_RETRY_S)
        finally:
            for each in self._copies.values():
                each.close()

    def join(self, timeout_s: float) -> bool:
        self.ending.set()
        if self._client is not None:
            self._client.cancel()
        return super().join(timeout_s)

    def _report(self, error: Exception) -> None:
        quiet = self._is_lost or self.ending.is_set()
        _logger.log(
            logging.INFO if quiet else logging.WARNING,
            "%s: the queues are not copied now, and are when that is possible: %s",
            self._path,
            error,
        )
        self._is_lost = True

    def _round(self, client: Channel) -> None:
        found = self._primary.sides(client, SILENCE_S)
        if found.sides is None or found.rank != self._rank:
            return
        for folder in side_logs(self._path):
            if folder not in found.sides:
                self._remove(folder)
        # Letters come before the state that needs them.
        sides = {folder: side for folder, side in sorted(found.sides.items()) if side is not None}
        for folder, side in sides.items():
            self._update(client, folder, side)
        # A job that the log has already is in the copy before its delayed job is deleted.
        if self._replica.position >= found.flushed:
            for folder, side in sides.items():
                self._copies[folder].log.remove_before(side.first)

    def _update(self, client: Channel, folder: str, side: Side) -> None:
        path = os.path.join(self._path, folder)
        copy = self._copies.get(folder)
        if copy is not None:
            try:
                if self._is_of(copy, side):
                    self._read(client, folder, side, copy)
                    return
            except _LOST:
                self._copies.pop(folder).close()  # and the connection may be within an answer
                raise
        with contextlib.suppress(*_LOST, FileNotFoundError):
            if copy is None and self._begins(client, folder, side, path):
                self._update(client, folder, side)
                return
        self._replace(client, folder, side, path)

    def _begins(self, client: Channel, folder: str, side: Side, path: str) -> bool:
        """Open a copy that is there already; return whether it can go on."""
        copy = self._copies[folder] = Replica(path)
        try:
            numbers, size = copy.log.segment_numbers(), side.identity.segment_size
            same = self._is_of(copy, side) and (
                first_difference(
                    copy.digests,
                    lambda ends: self._primary.digests(client, ends, SILENCE_S, folder),
                    numbers,
                    copy.position,
                    size,
                )
                is None
            )
        except BaseException:
            self._copies.pop(folder).close()
            raise
        if not same:
            self._copies.pop(folder).close()
        return same

    def _is_of(self, copy: Replica, side: Side) -> bool:
        """Return whether a copy may be of a side log that reaches so far."""
        first, end = side.first * side.identity.segment_size, side.identity.past_header(side.end)
        return copy.log.identity.uuid == side.identity.uuid and first <= copy.position <= end

    def _read(self, client: Channel, folder: str, side: Side, copy: Replica) -> None:
        if copy.position < side.end:
            copy.check_in_place()
            unsealed = copy.unsealed()
            for chunk in self._primary.side_chunks(client, folder, copy.position, unsealed):
                copy.write(chunk)

    def _replace(self, client: Channel, folder: str, side: Side, path: str) -> None:
        """Copy a side log whole beside what there is of it, then put the copy in its place."""
        if folder in self._copies:
            self._copies.pop(folder).close()
        new = path + NEW
        with translate_errors(path, "copy the queue"):
            shutil.rmtree(new, ignore_errors=True)
            os.makedirs(os.path.dirname(path), exist_ok=True)
        LockedLog.create(new, side.identity, Lineage())
        copy: Replica | None = None
        first = side.first * side.identity.segment_size
        try:
            for chunk in self._primary.side_chunks(client, folder, first, []):
                if copy is None:
                    self._begin_copy(new, side, chunk)
                    copy = Replica(new)
                copy.write(chunk)
        finally:
            if copy is not None:
                copy.close()
        if copy is None or side.identity.past_header(copy.position) < side.end:
            raise ReplicationError(
                f"{self._primary.url} ended before it had sent all of {folder}", path=path
            )
        with translate_errors(path, "put the copy of the queue in its place"):
            put_in_place(path)
        self._copies[folder] = Replica(path)

    def _begin_copy(self, new: str, side: Side, chunk: Chunk) -> None:
        try:
            LockedLog.begin(new, side.identity, chunk.number, chunk.header)
        except (ValueError, OverflowError) as error:
            raise ReplicationError(f"{self._primary.url} sent {error}", path=new) from error

    def _remove(self, folder: str) -> None:
        """Remove the copy of a side log that the log has no more."""
        if folder in self._copies:
            self._copies.pop(folder).close()
        shutil.rmtree(os.path.join(self._path, folder), ignore_errors=True)

"""Served: one log of a server, and its answers to followers, readers and promotions."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

from commitlog import CommitLog
from commitlog import open as open_log
from commitlog.base.host import host
from commitlog.errors import (
    CommitLogError,
    CorruptSegmentError,
    IOFailureError,
    PositionError,
    ReplicationError,
)
from commitlog.extension import Lineage, Member, Rank, view_of
from commitlog.network.remote.update import text_of
from commitlog.network.remote.wire import RefusedError, number_of
from commitlog.network.replication import wire
from commitlog.network.replication.acknowledgements import Acknowledgements
from commitlog.network.replication.digests import Digests
from commitlog.network.replication.followed_mark import FollowedMark
from commitlog.network.replication.permits import Permit
from commitlog.network.replication.promise import Asked, Promise, Standing
from commitlog.network.replication.quota import Copied, Promised
from commitlog.network.replication.reading import Reading
from commitlog.network.replication.side_sources import SideSources
from commitlog.network.replication.tailer_leases import TailerLeases

_logger = logging.getLogger("commitlog.replication")
_FOLLOWER = "the follower"
_PROMOTION = "the promotion"
_SLEEP_S = 0.02  # in the kernel; a flush ends it
_FLUSH_S = 0.1  # between two flushes that readers ask for


class Served:
    """A log that is served, what its followers acknowledge, and the tailers of its readers.

    Parameters
    ----------
    log : CommitLog
        The log, opened for reading.
    promise : Promise
        Has the log promise an epoch.
    ahead : bool
        Send committed records while the log flushes them. Then each recovery of the log has to be
        in its file `epoch`.
    renews : bool
        If the log is removed, and another one is created at its path, serve that one.
    """

    def __init__(
        self, log: CommitLog, promise: Promise, *, ahead: bool = False, renews: bool = False
    ) -> None:
        self.ahead = ahead
        self._renews = renews
        self._renewing = host.lock()
        self._path = os.path.realpath(log.path)  # the working directory may change
        self.acknowledged = Acknowledgements(log.path)
        self.stopping = host.event()
        self._promise = promise
        self._asked_s = 0.0  # when a reader asked for a flush
        self._streams: dict[int, Member] = {}  # by the thread that sends
        self._sides = SideSources(self._path)
        self._take_log(log)

    def _take_log(self, log: CommitLog) -> None:
        """Serve a log from now on."""
        self.log, self.view, self.leases = log, view_of(log), TailerLeases(log)
        self._digests = Digests(self.view)
        # Position, size and digest of the last frames that were sent to any follower.
        self._sent: tuple[int, int, int] | None = None
        # With the version of its file; both at once, because any thread may ask.
        self._known: tuple[tuple[int, int], Lineage] | None = None

    def end(self) -> None:
        """End every stream and every wait."""
        self.stopping.set()
        self.acknowledged.close()
        self._sides.close()

    def reopen(self) -> None:
        """Open the log again, because its files were cut; streams of it end."""
        known = self.log
        self._take_log(open_log(known.path, "r"))
        known.close()

    def renew(self) -> bool:
        """Return whether the log is the one at its path, or the one there is served from now on.

        Streams of a log that was removed end, and its copies do not count for another one.
        """
        if self.view.is_at(self._path):
            return True
        with self._renewing:
            if self.view.is_at(self._path):
                return True  # another thread has opened it
            if not self._renews:
                return False
            return self._replace()

    def _replace(self) -> bool:
        """Serve what is at the path now; the caller holds `_renewing`."""
        try:
            log = open_log(self._path, "r")
        except CommitLogError as error:
            _logger.info("%s: the log that was served is gone: %s", self._path, error)
            return False
        _logger.warning("%s: another log is at this path, and is served", self._path)
        known, acknowledged = self.log, self.acknowledged
        self.acknowledged = acknowledged.successor()
        self._take_log(log)
        acknowledged.close()
        known.close()
        return True

    def note_sent(self, position: int, size: int, digest: int) -> None:
        """Note which frames were sent to a follower."""
        if not self.ahead and (self._sent is None or position >= self._sent[0]):
            self._sent = position, size, digest

    def drop_overwritten(self) -> None:
        """If the log has other frames than were sent, because a backup was written over its files,
        forget what its copies have, and end its streams. The followers compare then.
        """
        known = self._sent
        if known is None:
            return
        position, size, digest = known
        number, offset = divmod(position, self.log.segment_size)
        try:
            # By its name, because another file may have it by now.
            with self.view.opened_segment(number) as segment:
                found = segment.digest(offset, offset + size, 0)
        except (CorruptSegmentError, PositionError, FileNotFoundError):
            return  # it was deleted, or is just being written
        if found == (offset + size, digest):
            return
        with self._renewing:
            if self._sent is known:
                _logger.warning(
                    "%s: from position %d on, there are other records than were sent: was a backup "
                    "written over the log?",
                    self._path,
                    position,
                )
                if not (self._renews and self._replace()):
                    acknowledged = self.acknowledged
                    self.acknowledged = acknowledged.successor()
                    self._sent = None  # last: a thread that sees None waits for the new copies
                    acknowledged.close()

    def wait_replicated(self, position: int, copies: int, timeout_s: float | None) -> bool:
        """Wait until a record is durable here and on so many copies; False after the timeout."""
        if self._renews and not self.renew():
            return False  # the log was removed
        self.drop_overwritten()
        view, began_s = self.view, host.monotonic()
        self.acknowledged.begin(self.lineage().rank)
        if not self.acknowledged.wait(position, copies, timeout_s):
            return False
        while True:
            seen = view.signal("flush")
            if self.log.flushed_position > position:
                return True
            if self.stopping.is_set() or (
                timeout_s is not None and host.monotonic() - began_s >= timeout_s
            ):
                return False
            view.wait("flush", seen, _SLEEP_S)

    def reached(self, copies: int) -> int:
        """Return the position up to which the log is durable here and on so many copies."""
        self.drop_overwritten()
        return min(self.acknowledged.reached(copies), self.log.flushed_position)

    def lineage(self) -> Lineage:
        """Return the lineage that the log has now."""
        epochs = self.view.epochs
        version = epochs.version()
        known = self._known
        if known is None or known[0] != version:
            known = self._known = version, epochs.read()
        return known[1]

    def answer(self, action: str, content: dict[str, Any], permit: Permit) -> dict[str, Any]:
        """Execute a request of a follower, a reader or a promotion; return the answer."""
        if action == "tailer":
            return self._tailer(content, permit)
        answers = {
            "sides": self._ends_of_sides,
            "describe": self._describe,
            "digests": self._digests_of,
            "join": self._join,
            "acknowledge": self._acknowledge,
            "fence": self._fence,
            "look": self._look,
            "find": self._find,
        }
        if action not in answers:
            raise ReplicationError(f"the server has no action {action!r}: update the older program")
        return answers[action](content)

    def _describe(self, _: dict[str, Any]) -> dict[str, Any]:
        """Return what a follower has to know of the log before it reads its frames."""
        view = self.view
        return {
            "identity": view.identity.to_json(),
            "copy": view.epochs.copy_id(),
            "first": view.first_position,
            # Not the flushed position: after a crash it is only a lower bound until a writer
            # recovers.
            "end": self.log.committed_position,
            "durable": FollowedMark(view.notes).position,
            **self.lineage().content(),
        }

    def side(self, folder: str) -> Served:
        """Return a side log as a log that is served."""
        return Served(self._sides.log(folder), _refused)

    def _ends_of_sides(self, _: dict[str, Any]) -> dict[str, Any]:
        """Return which side logs the log has. After the side logs, where the log is durable."""
        sides = self._sides.ends()
        return {
            "rank": self.lineage().rank._asdict(),
            "sides": sides,
            "flushed": self.log.flushed_position,
        }

    def _digests_of(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return what a follower compares its copy with, frame for frame."""
        asked = wire.digests_asked(content, _FOLLOWER)
        return {"digests": [self._digests.of(number, stop) for number, stop in asked]}

    @contextlib.contextmanager
    def streaming(self, member: str, name: str) -> Iterator[None]:
        """Note the copy to which a stream runs."""
        self._streams[host.ident()] = Member(member, name)
        try:
            yield
        finally:
            del self._streams[host.ident()]

    def _join(self, content: dict[str, Any]) -> dict[str, Any]:
        """Count a copy from now on, durably, so that promotions know it before it acknowledges.
        A log that is only served counts none: none of its appends waits for copies.
        """
        new, known = wire.member_of(content, _FOLLOWER), self.lineage()
        if new.id == known.member:
            raise ReplicationError(
                "the follower is a clone of this log: remove its directory, and follow again"
            )
        streams = list(self._streams.copy().values())
        if any(each.id == new.id and each.name != new.name for each in streams):
            raise IOFailureError(  # a copy that has another name may still seem to be connected
                f"a copy with the id of {new.name!r} is connected under another name: if one is a "
                "clone of the other, remove it, and follow again"
            )
        if any(each.id not in ("", new.id) and each.name == new.name for each in streams):
            raise IOFailureError(  # it would take the place of that copy
                f"another copy of the name {new.name!r} is connected: give each follower a name= "
                "of its own"
            )
        if self.ahead and known.follows is None and new not in known.members:
            self.view.epochs.change(lambda known: known.joined(new))
        return self.lineage().content()

    def _acknowledge(self, content: dict[str, Any]) -> dict[str, Any]:
        """Take the epoch that a copy has promised. Only a stream acknowledges records.

        A refusal would end the copy's follower, so an epoch that cannot be is ignored.
        """
        wire.name_of(content, _FOLLOWER)
        rank = wire.rank_of(content, "rank", _FOLLOWER)
        number_of(content, "position", _FOLLOWER)
        current = self.lineage()
        answer: dict[str, Any] = {"rank": current.rank._asdict()}
        try:
            self.acknowledged.take(Promised(rank, current))
        except ReplicationError as error:
            _logger.warning("%s: a promise of a copy is ignored: %s", self.log.path, error.message)
            return {**answer, "ignored": error.message}
        return answer

    def take(
        self,
        name: str,
        rank: Rank,
        position: int,
        sent: int,
        acknowledged: Acknowledgements | None = None,
    ) -> Rank:
        """Take a follower's position, at most the end of what was sent to it; if it knows a later
        epoch than the log, fence the log. A stream names the `acknowledged` of its log, which may
        be served no more.

        Returns the epoch of the log: a follower of an earlier one has to adopt it first.
        """
        current = self.lineage()
        (acknowledged or self.acknowledged).take(Copied(name, rank, position, current, sent))
        return current.rank

    def _fence(self, content: dict[str, Any]) -> dict[str, Any]:
        """Promise an epoch durably, so that the old primary gets no acknowledgement from here."""
        asked = wire.asked_of(content, _PROMOTION)
        promised, standing = self._promise(asked)
        return {
            "promised": promised._asdict(),
            "reached": standing.reached._asdict(),
            "position": standing.position,
        }

    def _look(self, _: dict[str, Any]) -> dict[str, Any]:
        """Return what a reader has to know of the log: see `Reading.look`."""
        return Reading(self.log).look()

    def _find(self, content: dict[str, Any]) -> dict[str, Any]:
        """Find a position for a reader; report an error by its kind.

        A reader may ask for a flush, but not have the log flushed without a pause.
        """
        if content.get("what") == "flush":
            now_s = host.monotonic()
            if now_s - self._asked_s < _FLUSH_S:
                return {"found": None}
            self._asked_s = now_s
        try:
            return Reading(self.log).find(content)
        except CommitLogError as error:
            return {"error": text_of(error)}

    def _tailer(self, content: dict[str, Any], permit: Permit) -> dict[str, Any]:
        """Execute a reader's request for a named tailer; report an error by its kind."""
        try:
            return self.leases.answer(content, permit)
        except CommitLogError as error:
            return {"error": text_of(error)}


def _refused(_: Asked) -> tuple[Rank, Standing]:
    raise RefusedError("a side log promises nothing: ask the log that it belongs to")

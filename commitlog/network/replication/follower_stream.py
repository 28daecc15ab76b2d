"""FollowerStream: the stream of one follower at its server, in both directions."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from commitlog.base.host import host
from commitlog.errors import ClosedError, CommitLogError, ReplicationError
from commitlog.extension import FRAME_ALIGN
from commitlog.network.remote.channel import Channel
from commitlog.network.remote.wire import END, HEARTBEAT_S, number_of, refusal
from commitlog.network.replication import wire
from commitlog.network.replication.sender import Sender
from commitlog.network.replication.served import Served

_FOLLOWER = "the follower"
_SILENCE_S = 20.0  # of a copy on a slow disk; one that waits acknowledges each heartbeat
_LEAVE_S = 1.0


def throttled(is_allowed: Callable[[], bool]) -> Callable[[], bool]:
    """Return the same check for every message of a stream; it looks once in `HEARTBEAT_S`."""
    looked_s, allowed = host.monotonic(), True

    def check() -> bool:
        nonlocal looked_s, allowed
        if host.monotonic() - looked_s >= HEARTBEAT_S:
            looked_s, allowed = host.monotonic(), is_allowed()
        return allowed

    return check


class FollowerStream:
    """Send chunks of a log to a follower, and take its acknowledgements from the same stream.

    A second thread takes the acknowledgements.

    Parameters
    ----------
    served : Served
        The log.
    content : dict
        What the follower asked for.

    Attributes
    ----------
    has_epoch : bool
        Whether the log still has the epoch that the follower knows, and counts the same copies.
    has_position : bool
        Whether the log is not shorter than the copy.
    """

    def __init__(self, served: Served, content: dict[str, Any]) -> None:
        self._served = served
        self._view = served.view
        self._acknowledged = served.acknowledged
        self._name = wire.name_of(content, _FOLLOWER)
        self._member = str(content.get("member", ""))
        rank = wire.rank_of(content, "rank", _FOLLOWER)
        position = number_of(content, "position", _FOLLOWER)
        unsealed = wire.numbers_of(content, "unsealed", _FOLLOWER)
        size = served.log.segment_size
        if position % FRAME_ALIGN or any(each >= position // size for each in unsealed):
            raise ReplicationError(
                f"{_FOLLOWER} asks for position {position}, where no record can begin, or for the "
                "seal of a segment that it has not"
            )
        self._ended = host.event()
        self._error: CommitLogError | None = None  # why an acknowledgement was refused
        self._sender = Sender(served, position, unsealed)
        # After the sender has noted its version.
        known = served.lineage()
        members = [each.id for each in known.members]
        if (members or served.ahead) and "members" not in content:
            raise ReplicationError(
                "the follower does not say which copies it counts: upgrade commitlog there"
            )
        self.has_epoch = known.rank == rank and content.get("members", []) == members
        # What the follower has already is believed up to the end of this log.
        end = served.view.identity.past_header(served.log.committed_position)
        self.has_position = self._sender.sent <= end

    def run(self, channel: Channel, is_allowed: Callable[[], bool]) -> None:
        """Stream until the log is closed or promoted, or the follower leaves or is no longer
        allowed to follow.
        """
        channel.wait_at_most(_SILENCE_S)
        taking = host.thread(
            "commitlog acknowledged", functools.partial(self._take, channel, is_allowed)
        )
        taking.start()
        try:
            # ClosedError: the log is closed or opened again, and the follower connects again.
            with contextlib.suppress(ClosedError), self._served.streaming(self._member, self._name):
                self._send(channel, throttled(is_allowed))
            if self._error is not None:
                raise self._error
        except CommitLogError as error:
            # A log that was cut meanwhile is opened again, and the follower connects again.
            channel.send(END if self._view.is_cut else refusal(error))
        except OSError:
            pass  # the follower is gone
        else:
            with contextlib.suppress(OSError):
                channel.send(END)
        finally:
            # The follower has what was sent when it ends its side.
            channel.end()
            taking.join(_LEAVE_S)
            channel.cancel()
            taking.join()

    def _send(self, channel: Channel, is_allowed: Callable[[], bool]) -> None:
        for chunk in self._sender.chunks():
            if self._ended.is_set() or not is_allowed():
                return
            channel.send(*chunk.message())

    def _counts(self, message: bytes) -> bool:
        """Count an acknowledgement; return False if the stream has to end."""
        try:
            rank, position = wire.acknowledgement_of(message, _FOLLOWER)
            sent, acknowledged = self._sender.sent, self._acknowledged
            return self._served.take(self._name, rank, position, sent, acknowledged) == rank
        except ClosedError:
            raise
        except CommitLogError as error:
            self._error = error
            return False

    def _take(self, channel: Channel, is_allowed: Callable[[], bool]) -> None:
        try:
            with contextlib.suppress(ClosedError, OSError):
                while True:
                    message, _ = channel.receive(wire.ACKNOWLEDGEMENT_LIMIT)
                    if not is_allowed() or not self._counts(message):
                        break
        finally:
            self._ended.set()
        with contextlib.suppress(OSError):
            while True:
                channel.receive(wire.ACKNOWLEDGEMENT_LIMIT)

"""Following: the stream of one follower at its server, in both directions."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from commitlog.errors import ClosedError, CommitLogError, ReplicationError
from commitlog.recovery.lineage import Rank
from commitlog.replication import wire
from commitlog.replication.sender import Sender
from commitlog.replication.served import Served

_FOLLOWER = "the follower"


def throttled(is_allowed: Callable[[], bool]) -> Callable[[], bool]:
    """Return the same check for every message of a stream; it looks once in `HEARTBEAT_S`."""
    looked_s, allowed = time.monotonic(), True

    def check() -> bool:
        nonlocal looked_s, allowed
        if time.monotonic() - looked_s >= wire.HEARTBEAT_S:
            looked_s, allowed = time.monotonic(), is_allowed()
        return allowed

    return check


class Following:
    """Send chunks of a log to a follower, and take its acknowledgements from the same stream.

    A second thread takes the acknowledgements. It has to end first: gRPC frees the stream when the
    method of the server returns. So the last message asks the follower to end its side.

    Parameters
    ----------
    served : Served
        The log.
    content : dict
        What the follower asked for.
    """

    def __init__(self, served: Served, content: dict[str, Any]) -> None:
        self._served = served
        self._name = wire.name_of(content, _FOLLOWER)
        rank = wire.rank_of(content, "rank", _FOLLOWER)
        position = wire.number_of(content, "position", _FOLLOWER)
        unsealed = content.get("unsealed")
        if not isinstance(unsealed, list) or any(type(each) is not int for each in unsealed):
            raise ReplicationError("the follower sent no usable 'unsealed'")
        self._ended = threading.Event()
        self._error: CommitLogError | None = None  # why an acknowledgement was refused
        self._sender = Sender(served, position, unsealed)
        # After the sender has noted its version.
        self.has_epoch = served.lineage().rank == rank

    def run(self, reader: Any, writer: Any, is_allowed: Callable[[], bool]) -> None:
        """Stream until the log is closed or promoted, or the follower leaves or is no longer
        allowed to follow.
        """
        writer.begin(wire.schema())
        taking = threading.Thread(
            target=self._take, args=(reader, is_allowed), name="commitlog acknowledged", daemon=True
        )
        taking.start()
        broken = wire.arrow_exception()
        try:
            # ClosedError: the log is closed or opened again, and the follower connects again.
            with contextlib.suppress(ClosedError, broken):
                self._send(writer, throttled(is_allowed))
            if self._error is not None:
                raise self._error
        finally:
            with contextlib.suppress(broken):
                writer.write_metadata(wire.END)
            taking.join()

    def _send(self, writer: Any, is_allowed: Callable[[], bool]) -> None:
        for chunk in self._sender.chunks():
            if self._ended.is_set() or not is_allowed():
                return
            batch, head = wire.message_of(chunk)
            if batch is None:
                writer.write_metadata(head)
            else:
                writer.write_with_metadata(batch, head)

    def _counts(self, rank: Rank, position: int) -> bool:
        """Count an acknowledgement; return False if the stream has to end."""
        try:
            return self._served.take(self._name, rank, position) == rank
        except ClosedError:
            raise
        except CommitLogError as error:
            self._error = error
            return False

    def _take(self, reader: Any, is_allowed: Callable[[], bool]) -> None:
        # Arrow raises OSError for a message that it cannot parse.
        broken = StopIteration, OSError, wire.arrow_exception()
        try:
            with contextlib.suppress(CommitLogError, *broken):
                while True:
                    message = reader.read_chunk().app_metadata
                    rank, position = wire.acknowledgement_of(message, _FOLLOWER)
                    if not is_allowed() or not self._counts(rank, position):
                        break
        finally:
            self._ended.set()
        # Until the follower ends its side, or is gone.
        with contextlib.suppress(*broken):
            while True:
                reader.read_chunk()

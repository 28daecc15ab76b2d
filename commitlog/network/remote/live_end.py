"""LiveEnd: the thread that follows the end of a log on another machine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from commitlog.base.host import host
from commitlog.base.service import Service
from commitlog.errors import ClosedError, CommitLogError, IOFailureError, ReplicationError
from commitlog.network.remote.connection import Connection, UpdateStream
from commitlog.network.remote.update import Update
from commitlog.network.remote.wire import HEARTBEAT_S, RefusedError

_logger = logging.getLogger("commitlog.remote")
_PAUSE_S, _PAUSE_LONGEST_S = 0.05, 1.0
_SILENCE_S = 10 * HEARTBEAT_S
_RECONNECT_S = 1.0  # perhaps this process was stopped, not the server
_UNUSED_UPDATES = 16  # with bytes that no reader needs, until the stream leaves bytes out


class LiveEnd(Service):
    """Take what the server's stream brings, and connect again when it ends.

    If the server is out of reach for ten seconds, readers get an error until it answers again. If
    it has another log, or has lost records, they get an error until the log is opened again.

    Parameters
    ----------
    connection : Connection
        The server.
    adopt : callable
        Takes the server's description of its log after a connection.
    take : callable
        Takes an update.
    wants : callable
        Returns the position from which the stream must bring bytes; None if no reader is at the
        end.
    """

    def __init__(
        self,
        connection: Connection,
        adopt: Callable[[dict[str, Any]], None],
        take: Callable[[Update], None],
        wants: Callable[[], int | None],
    ) -> None:
        super().__init__(f"commitlog remote {connection.url}")
        self._connection = connection
        self._adopt = adopt
        self._take = take
        self._wants = wants
        self._stopping = host.event()
        self._stream: UpdateStream | None = None
        self._taken_s = host.monotonic()
        self._failed: Exception | None = None  # since then
        self._cut_s = 0.0  # when a silent stream was cancelled

    def check(self) -> None:
        """Raise the error because of which readers get no new records."""
        if self.error is not None:
            raise self.error
        failed, now_s = self._failed, host.monotonic()
        if isinstance(failed, IOFailureError):  # the temporary folder is full
            raise failed
        if failed is None and now_s - self._taken_s >= _SILENCE_S:
            self._failed, self._cut_s = TimeoutError("it stopped responding"), now_s
            self._cancel()
        patience_s = self._connection.patience_s
        if failed is not None and now_s >= max(
            self._taken_s + patience_s, self._cut_s + _RECONNECT_S
        ):
            if isinstance(failed, CommitLogError):
                raise failed
            raise self._connection.unreached(patience_s, failed)

    def run(self) -> None:
        pause_s, known = _PAUSE_S, True  # the directory has asked when it was opened
        while not self._stopping.is_set():
            try:
                if not known:
                    said = self._connection.ask("look", limit_s=0)
                    # Readers may see what it brings at once, and then no earlier failure.
                    self._failed = None
                    self._adopt(said)
                known = False
                self._follow()
                pause_s = _PAUSE_S
                continue
            except (ClosedError, RefusedError, OSError) as error:
                if self._stopping.is_set():
                    return
                if self._connection.refused or (
                    isinstance(error, CommitLogError)
                    and not isinstance(error, ReplicationError | IOFailureError)
                ):
                    raise
                self._failed = error
                _logger.info("%s: %s; connecting again", self._connection.url, error)
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_LONGEST_S)

    def _follow(self) -> None:
        """Take updates until the stream must begin at another position."""
        begun = self._wants()
        self._stream = stream = self._connection.watch(begun)
        unused = 0
        try:
            while not self._stopping.is_set():
                update = stream.next()
                if update is None:
                    raise ConnectionError("the server has ended the stream")
                self._failed = None
                self._take(update)
                self._taken_s = host.monotonic()
                if not update.content:
                    self._connection.close_unused()
                wants = self._wants()
                unused = unused + 1 if update.content and wants is None else 0
                if (wants is not None and begun is None) or unused > _UNUSED_UPDATES:
                    return
        finally:
            stream.close()

    def stop(self, timeout_s: float) -> None:
        """End the thread, and the connection."""
        self._stopping.set()
        self._cancel()
        self._connection.close()
        self.join(timeout_s)

    def _cancel(self) -> None:
        stream = self._stream
        if stream is not None:
            stream.cancel()

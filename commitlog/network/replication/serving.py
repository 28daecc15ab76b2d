"""Serving: the logs that a program serves while it writes them, in the process that serves them."""

from __future__ import annotations

import functools
from collections.abc import Callable

from commitlog import open as open_log
from commitlog.extension import Rank
from commitlog.network.replication.replica import fence_closed
from commitlog.network.replication.served import Served
from commitlog.network.replication.server import Port, Server


class Serving:
    """Serve logs whose writer sends committed records ahead of their flush.

    Parameters
    ----------
    port : Port
        Where they are served, from the first `add` on.
    on_fence : callable
        Gets the name of a log and the epoch of a copy that was promoted.
    """

    def __init__(self, port: Port, on_fence: Callable[[str, Rank], None]) -> None:
        self._port = port
        self._on_fence = on_fence
        self._server: Server | None = None

    def add(self, path: str, name: str, require: int) -> int:
        """Serve a log, and have its appends see how far `require` copies are; return the port."""
        served = Served(open_log(path, "r"), functools.partial(fence_closed, path), ahead=True)
        try:
            if self._server is None:
                self._server = Server({name: served}, self._port, grows=True)
            else:
                self._server._add(name, served)
        except BaseException:
            served.log.close()
            raise
        view = served.view

        def show() -> None:
            view.raise_copied(served.acknowledged.reached(max(require, 1)))

        served.acknowledged.on_progress = show
        served.acknowledged.on_fence = functools.partial(self._on_fence, name)
        return self._server.port

    @property
    def _serving(self) -> Server:
        assert self._server is not None
        return self._server

    def remove(self, name: str) -> None:
        """End the serving of a log."""
        self._serving._remove(name)

    def followers(self, log: str) -> dict[str, int]:
        """Return up to which position each follower has a log durably, by its name."""
        return self._serving.followers(log)

    def reached(self, log: str, copies: int) -> int:
        """Return the position up to which so many followers have a log durably."""
        return self._serving.replicated_position(copies, log=log)

    def wait(self, log: str, position: int, copies: int, timeout_s: float | None) -> bool:
        """Wait until a record is durable on so many followers; False if the time expired."""
        return self._serving.wait_replicated(position, copies=copies, timeout=timeout_s, log=log)

    def close(self) -> None:
        """End the serving of all logs."""
        if self._server is not None:
            self._server.close()

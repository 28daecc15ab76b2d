"""Replication: how logs of this program are served, and how many copies acknowledge an append."""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from typing import Literal, get_args

from commitlog.base.host import host
from commitlog.base.keywords import refuses_unknown
from commitlog.base.option import check_switches
from commitlog.base.units import Duration, parse_duration, whole_of
from commitlog.errors import InvalidOptionError
from commitlog.extension import Lineage, LogView
from commitlog.network.replication.required_copies import RequiredCopies
from commitlog.network.replication.server import Port, name_of
from commitlog.network.replication.serving_process import ServingProcess

OnMissing = Literal["wait", "async"]


@refuses_unknown()
class Replication:
    """Serve logs while they are open, and have appends wait for copies of them.

    Pass it to `commitlog.open`; several logs may share it, and then its port. With it, an append
    that waits for durability, by ``flush="sync"`` or ``sync=True``, and `CommitLog.flush` wait
    until `require` followers have the records durably, too. Coroutines and threads that wait at the
    same time share flushes and round trips. Appends of other processes do not wait for copies.

    Parameters
    ----------
    listen : str
        ``"host:port"``; port 0 takes a free one: see `url`.
    token, tokens, tls, plain_text
        As for `serve`.
    require : int
        How many followers have a record durably before it is acknowledged, 0 to 64. 0: appends do
        not wait, and the loss of this machine loses what no copy has yet. The log remembers the
        first number but 0, and promotions count with it: a smaller one is refused until the log was
        promoted with it.
    on_missing : {"wait", "async"}
        What an append does when too few copies have its record after `timeout`. "wait": it raises
        `SyncTimeoutError`; the record stays in the log. "async": it returns, and so do later ones,
        until the copies have caught up; the loss of this machine loses those records.
    timeout : float or str, optional
        How long an append waits for copies, by default the log's `sync_timeout`.
    """

    def __init__(
        self,
        *,
        listen: str = "127.0.0.1:0",
        token: str | None = None,
        tokens: str | os.PathLike[str] | None = None,
        tls: tuple[str, str] | None = None,
        plain_text: bool = False,
        require: int = 1,
        on_missing: OnMissing = "wait",
        timeout: Duration | None = None,
    ) -> None:
        check_switches(plain_text=plain_text)
        if whole_of(require) is None or not 0 <= require <= Lineage.REQUIRE_LIMIT:
            raise InvalidOptionError(
                f"require must be an int from 0 to {Lineage.REQUIRE_LIMIT}, not {require!r}"
            )
        if on_missing not in get_args(OnMissing):
            raise InvalidOptionError(f"on_missing must be 'wait' or 'async', not {on_missing!r}")
        self.require = int(require)
        self._goes_on = on_missing == "async"
        self._timeout_s = None if timeout is None else parse_duration(timeout, "timeout")
        self._port = Port(listen, token, tokens, tls, plain_text).from_anywhere()
        self._port.address  # noqa: B018  (refuses a wrong address now, not at the first open)
        self._port.permits()  # likewise
        self._lock = host.lock()
        self._server: ServingProcess | None = None

    def _begin(self, view: LogView) -> RequiredCopies:
        """Serve an open log; `commitlog.open` calls this."""
        path = view.path
        self._note(view)
        copies = RequiredCopies(
            view,
            self.require,
            self._timeout_s,
            goes_on=self._goes_on,
            end=functools.partial(self._end, name_of(path)),
        )
        with self._lock:
            server = self._server or ServingProcess(self._port)
            try:
                server._add(path, self.require, copies.fence)
            except BaseException:
                if self._server is None:
                    server._close()
                raise
            self._server = server
        return copies

    def _note(self, log: LogView) -> None:
        """Note the number of copies durably, before any of them acknowledges; from now on,
        recoveries are noted, too.
        """
        known = log.epochs.read()
        if 0 < self.require < known.require:
            raise InvalidOptionError(
                f"require must not be less than the {known.require} copies that acknowledged "
                f"earlier records of {log.path}, not {self.require}: a promotion counts with "
                "that number. Run `commitlog promote` with "
                f"--require {self.require} and all copies first, or open with require=0, which "
                "waits for none"
            )
        # Written at each open, so that an older state of the directory shows.
        log.epochs.write(replace(known, require=known.require or self.require))

    def _end(self, name: str) -> None:
        with self._lock:
            if self._server is not None and self._server._remove(name):
                self._server = None

    @property
    def server(self) -> ServingProcess:
        """Return the server of the logs that are open.

        Raises
        ------
        InvalidOptionError
            No log is open with this object.
        """
        server = self._server
        if server is None:
            raise InvalidOptionError("no log is open with this Replication: pass it to open()")
        return server

    def __repr__(self) -> str:
        return f"<Replication listen={self._port.listen!r}, require={self.require}>"

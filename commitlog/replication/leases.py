"""Leases: the named tailers that readers on other machines have open, by their names."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from commitlog.errors import InvalidOptionError, ReplicationError
from commitlog.log.commit_log import CommitLog
from commitlog.remote.wire import number_of
from commitlog.tail.tailer import Tailer

LEASE_S = 15.0  # without a sign of life, another reader may take the name
_LEASES_LIMIT = 1024
_READER = "the reader"


@dataclass
class _Lease:
    """A tailer that a reader has open."""

    tailer: Tailer
    id: str
    heard_s: float


class Leases:
    """Open, move and close named tailers for readers, which send their positions.

    If a reader has sent nothing for 15 seconds, another one can take the name.
    """

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._leases: dict[str, _Lease] = {}

    def answer(self, content: dict[str, Any]) -> dict[str, Any]:
        """Execute a reader's request."""
        answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "open": self._open,
            "save": self._save,
            "close": self._close,
            "list": self._list,
            "reset": self._reset,
            "delete": self._delete,
            "evict": self._evict,
        }
        found = answers.get(str(content.get("what")))
        if found is None:
            raise ReplicationError("the reader asked for an unknown change of a tailer")
        with self._lock:
            return found(content)

    def _open(self, content: dict[str, Any]) -> dict[str, Any]:
        name, durable_s = _name_of(content), content.get("durable_s")
        self._end_silent()
        if len(self._leases) >= _LEASES_LIMIT:
            raise InvalidOptionError(f"{_LEASES_LIMIT} tailers are open on other machines already")
        tailer = self._log.tailer(
            name,
            start=number_of(content, "start", _READER),
            required=content.get("required"),
            max_lag=content.get("max_lag"),
            durable=False if durable_s is None else durable_s,
        )
        lease = _Lease(tailer, os.urandom(16).hex(), time.monotonic())
        self._leases[name] = lease
        return {"lease": lease.id, "position": tailer.position}

    def _end_silent(self) -> None:
        """Close the tailers of silent readers; one that is still there opens its tailer again."""
        since_s = time.monotonic() - LEASE_S
        for name in [name for name, each in self._leases.items() if each.heard_s < since_s]:
            self._leases.pop(name).tailer.close()

    def _leased(self, content: dict[str, Any]) -> _Lease | None:
        lease = self._leases.get(_name_of(content))
        return lease if lease is not None and lease.id == content.get("lease") else None

    def _save(self, content: dict[str, Any]) -> dict[str, Any]:
        lease = self._leased(content)
        if lease is None:
            return {"lost": True}
        lease.heard_s = time.monotonic()
        position = number_of(content, "position", _READER)
        if position != lease.tailer.position:
            lease.tailer.seek(position)
        return {}

    def _close(self, content: dict[str, Any]) -> dict[str, Any]:
        lease = self._leased(content)
        if lease is not None:
            del self._leases[_name_of(content)]
            lease.tailer.close()
        return {}

    def _list(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"tailers": [asdict(state) for state in self._log.tailers()]}

    def _reset(self, content: dict[str, Any]) -> dict[str, Any]:
        self._end_silent()
        position: Any = content.get("position")
        self._log.reset_tailer(_name_of(content), position)
        return {}

    def _delete(self, content: dict[str, Any]) -> dict[str, Any]:
        self._end_silent()
        self._log.delete_tailer(_name_of(content))
        return {}

    def _evict(self, content: dict[str, Any]) -> dict[str, Any]:
        return {"evicted": self._log.evict_tailer(_name_of(content))}


def _name_of(content: dict[str, Any]) -> str:
    name = content.get("name")
    if not isinstance(name, str):
        raise ReplicationError("the reader sent no usable 'name'")
    return name

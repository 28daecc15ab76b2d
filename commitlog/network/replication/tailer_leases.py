"""TailerLeases: the named tailers that readers on other machines have open, by their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from commitlog import CommitLog, Tailer
from commitlog.base.host import host
from commitlog.errors import InvalidOptionError, ReplicationError, TailerNotFoundError
from commitlog.extension import view_of
from commitlog.network.remote.wire import number_of
from commitlog.network.replication.permits import Permit

LEASE_S = 15.0  # without a sign of life, another reader may take the name
_LEASES_LIMIT = 1024
_TAILERS_LIMIT = 1024  # of a log, before a reader may not create another one
_PREFIX_LIMIT = 256  # of these under the prefix of a token
_DURABLE_LEAST_S, _DURABLE_MOST_S = 0.1, 1e6  # readers send places ten times a second
_READER = "the reader"


@dataclass
class _TailerLease:
    """A tailer that a reader has open."""

    tailer: Tailer
    id: str
    heard_s: float


class TailerLeases:
    """Open, move and close named tailers for readers, which send their positions.

    If a reader has sent nothing for 15 seconds, another one can take the name.
    """

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._lock = host.lock()
        self._leases: dict[str, _TailerLease] = {}

    def answer(self, content: dict[str, Any], permit: Permit) -> dict[str, Any]:
        """Execute a reader's request, if its token allows it."""
        answers: dict[str, Callable[[str, dict[str, Any]], dict[str, Any]]] = {
            "open": self._open,
            "save": self._save,
            "close": self._close,
            "reset": self._reset,
            "delete": self._delete,
            "evict": self._evict,
        }
        what = content.get("what")
        if what == "list":
            return {"tailers": [asdict(state) for state in self._log.tailers()]}
        found = answers.get(str(what))
        if found is None:
            raise ReplicationError("the reader asked for an unknown change of a tailer")
        name: Any = content.get("name")  # checked with its permit
        with self._lock:
            self._check(name, content, permit)
            return found(name, content)

    def _check(self, name: str, content: dict[str, Any], permit: Permit) -> None:
        """Refuse what the token does not allow: other names, required tailers, ever more of them.

        An existing tailer that is required needs the right, too: the reader could hold its place.
        """
        exists, required = True, content.get("required") is not None
        try:
            state = view_of(self._log).tailer_state(name)
            required = required or state.required or state.damage is not None
        except TailerNotFoundError:
            exists = False
        why = permit.tailer_refusal(name, required=required)
        if why is not None:
            raise ReplicationError(why)
        if content["what"] == "open" and not exists:
            most = _PREFIX_LIMIT if permit.tails else _TAILERS_LIMIT
            names = [state.name for state in self._log.tailers()]
            known = sum(each.startswith(permit.tails or "") for each in names)
            if known >= most:
                raise InvalidOptionError(
                    f"the log has {known} tailers whose names begin with {permit.tails!r}, "
                    f"and readers on other machines may not create more than {most}: delete some"
                )

    def _open(self, name: str, content: dict[str, Any]) -> dict[str, Any]:
        durable_s = _duration_of(content)
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
        lease = _TailerLease(tailer, host.random(16).hex(), host.monotonic())
        self._leases[name] = lease
        return {"lease": lease.id, "position": tailer.position}

    def _end_silent(self) -> None:
        """Close the tailers of silent readers; one that is still there opens its tailer again."""
        since_s = host.monotonic() - LEASE_S
        for name in [name for name, each in self._leases.items() if each.heard_s < since_s]:
            self._leases.pop(name).tailer.close()

    def _lease_of(self, name: str, content: dict[str, Any]) -> _TailerLease | None:
        lease = self._leases.get(name)
        return lease if lease is not None and lease.id == content.get("lease") else None

    def _save(self, name: str, content: dict[str, Any]) -> dict[str, Any]:
        lease = self._lease_of(name, content)
        if lease is None:
            return {"lost": True}
        lease.heard_s = host.monotonic()
        position = number_of(content, "position", _READER)
        if position != lease.tailer.position:
            lease.tailer.seek(position)
        return {}

    def _close(self, name: str, content: dict[str, Any]) -> dict[str, Any]:
        lease = self._lease_of(name, content)
        if lease is not None:
            del self._leases[name]
            lease.tailer.close()
        return {}

    def _reset(self, name: str, content: dict[str, Any]) -> dict[str, Any]:
        self._end_silent()
        position: Any = content.get("position")
        self._log.reset_tailer(name, position)
        return {}

    def _delete(self, name: str, _: dict[str, Any]) -> dict[str, Any]:
        self._end_silent()
        self._log.delete_tailer(name)
        return {}

    def _evict(self, name: str, _: dict[str, Any]) -> dict[str, Any]:
        return {"evicted": self._log.evict_tailer(name)}


def _duration_of(content: dict[str, Any]) -> float | None:
    value: Any = content.get("durable_s")
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 < value < _DURABLE_MOST_S:
        raise ReplicationError("the reader sent no usable 'durable_s'")
    return max(float(value), _DURABLE_LEAST_S)

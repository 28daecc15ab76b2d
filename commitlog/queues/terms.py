"""Terms: what all workers of a queue agree on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, SupportsIndex, TypedDict, Unpack

from commitlog.base.keywords import unknown
from commitlog.base.option import chosen, counted, lasting
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import InvalidOptionError
from commitlog.options import OptionOverrides
from commitlog.queues.compiled.leases import SLOTS

Order = Literal["none", "key"]

_ATTEMPTS_MOST = 4000


@dataclass(frozen=True)
class Terms:
    """The terms of a queue, in its state log. Durations are in seconds."""

    lease_s: float = 30.0
    max_attempts: int = 5
    backoff_s: float = 1.0
    backoff_most_s: float = 600.0
    in_flight: int = SLOTS
    worker_in_flight: int = SLOTS
    order: str = "none"

    @property
    def table_terms(self) -> tuple[int, int, int, int, bool]:
        """The terms that the table of leases keeps."""
        return (
            int(self.lease_s * 1e9),
            self.max_attempts,
            self.in_flight,
            self.worker_in_flight,
            self.order == "key",
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def parse(cls, content: object) -> Terms:
        """Read what `as_json` returned; anything else is a `ValueError`."""
        if not isinstance(content, dict) or set(content) != set(asdict(cls())):
            raise ValueError("the terms of a queue have other fields")
        return taken_terms({name: content[field] for name, (field, _) in _GIVEN.items()}).over(
            cls()
        )


class TermOverrides(TypedDict, total=False):
    """The terms that a call may name."""

    lease: Duration | None
    max_attempts: SupportsIndex | None
    backoff: Duration | None
    backoff_most: Duration | None
    in_flight: SupportsIndex | None
    worker_in_flight: SupportsIndex | None
    order: Order | None


class QueueOverrides(TermOverrides, OptionOverrides):
    """The terms of a queue, and the options of its log."""


_count = counted(SLOTS, 1)
# The field of a term that a call names, and its check.
_GIVEN: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "lease": ("lease_s", lasting(0.001)),
    "max_attempts": ("max_attempts", counted(_ATTEMPTS_MOST, 1)),
    "backoff": ("backoff_s", parse_duration),
    "backoff_most": ("backoff_most_s", parse_duration),
    "in_flight": ("in_flight", _count),
    "worker_in_flight": ("worker_in_flight", _count),
    "order": ("order", chosen(("none", "key"))),
}


class GivenTerms(dict[str, Any]):
    """The fields of the terms that a call names."""

    def over(self, terms: Terms) -> Terms:
        """Return terms in which those that are named are replaced."""
        return replace(terms, **self)

    def check_agree(self, terms: Terms, path: str) -> None:
        """Refuse terms that differ from those that the queue has."""
        now = asdict(terms)
        for name, value in self.items():
            if value != now[name]:
                option = name.removesuffix("_s")
                raise InvalidOptionError(
                    f"the queue has {option}={now[name]!r}, and this call asks for {value!r}: "
                    "leave it out, or pass change=True to change it for all workers",
                    path=path,
                )


def taken_terms(overrides: dict[str, Any]) -> GivenTerms:
    """Take the terms out of what a call names, and check them."""
    found = GivenTerms()
    for name, (field, check) in _GIVEN.items():
        value = overrides.pop(name, None)
        if value is not None:
            found[field] = check(value, name)
    return found


def given_terms(**terms: Unpack[TermOverrides]) -> GivenTerms:
    """Check the terms that a call names."""
    left: dict[str, Any] = dict(terms)
    found = taken_terms(left)
    for name in left:
        raise InvalidOptionError(unknown(name, _GIVEN))
    return found


def backoff_s(terms: Terms, attempt: int, chance: float) -> float:
    """Return how long a job waits after its attempt failed: twice as long after each, up to
    `backoff_most`; `chance`, from 0 to 1, takes up to a fifth off, so that jobs that failed at once
    do not come back at once.
    """
    longest = min(terms.backoff_s * 2.0 ** min(attempt - 1, 60), terms.backoff_most_s)
    return longest * (1 - chance / 5)

"""Terms: what all workers of a queue agree on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, SupportsIndex

from commitlog.base.option import chosen, counted, lasting
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import InvalidOptionError
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
        return given_terms(
            lease=content["lease_s"],
            max_attempts=content["max_attempts"],
            backoff=content["backoff_s"],
            backoff_most=content["backoff_most_s"],
            in_flight=content["in_flight"],
            worker_in_flight=content["worker_in_flight"],
            order=content["order"],
        ).over(cls())


@dataclass(frozen=True)
class GivenTerms:
    """The terms that a call names; None: not named."""

    lease_s: float | None = None
    max_attempts: int | None = None
    backoff_s: float | None = None
    backoff_most_s: float | None = None
    in_flight: int | None = None
    worker_in_flight: int | None = None
    order: str | None = None

    def over(self, terms: Terms) -> Terms:
        """Return terms in which those that are named are replaced."""
        named = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(terms, **named)

    def check_agree(self, terms: Terms, path: str) -> None:
        """Refuse terms that differ from those that the queue has."""
        now = asdict(terms)
        for name, value in asdict(self).items():
            if value is not None and value != now[name]:
                option = name.removesuffix("_s")
                raise InvalidOptionError(
                    f"the queue has {option}={now[name]!r}, and this call asks for {value!r}: "
                    "leave it out, or pass change=True to change it for all workers",
                    path=path,
                )


def given_terms(
    *,
    lease: Duration | None = None,
    max_attempts: SupportsIndex | None = None,
    backoff: Duration | None = None,
    backoff_most: Duration | None = None,
    in_flight: SupportsIndex | None = None,
    worker_in_flight: SupportsIndex | None = None,
    order: Order | None = None,
) -> GivenTerms:
    """Check the terms that a call names."""

    def count(value: SupportsIndex | None, name: str, most: int) -> int | None:
        return None if value is None else counted(most, 1)(value, name)

    return GivenTerms(
        None if lease is None else lasting(0.001)(lease, "lease"),
        count(max_attempts, "max_attempts", _ATTEMPTS_MOST),
        None if backoff is None else parse_duration(backoff, "backoff"),
        None if backoff_most is None else parse_duration(backoff_most, "backoff_most"),
        count(in_flight, "in_flight", SLOTS),
        count(worker_in_flight, "worker_in_flight", SLOTS),
        None if order is None else chosen(("none", "key"))(order, "order"),
    )


def backoff_s(terms: Terms, attempt: int, chance: float) -> float:
    """Return how long a job waits after its attempt failed: twice as long after each, up to
    `backoff_most`; `chance`, from 0 to 1, takes up to a fifth off, so that jobs that failed at once
    do not come back at once.
    """
    longest = min(terms.backoff_s * 2.0 ** min(attempt - 1, 60), terms.backoff_most_s)
    return longest * (1 - chance / 5)

"""Read when a delayed job is due."""

from __future__ import annotations

import datetime as dt
import time

from commitlog.base.moment import nanoseconds_of, read_moment
from commitlog.base.units import Duration, parse_duration, whole_of
from commitlog.errors import InvalidOptionError


def due_of(after: Duration | None, at: dt.datetime | str | int | None) -> int | None:
    """Return nanoseconds since 1970; None for a job that is not delayed."""
    if after is not None and at is not None:
        raise InvalidOptionError("after= and at= say both when the job is due: give one of them")
    if after is not None:
        wait_ns = int(parse_duration(after, "after") * 1e9)
        return time.time_ns() + wait_ns if wait_ns else None
    return None if at is None else _moment_of(at)


def _moment_of(at: dt.datetime | str | int) -> int:
    if isinstance(at, dt.datetime):
        if at.tzinfo is None:
            raise InvalidOptionError(f"at must have a time zone, unlike {at!r}: add tzinfo=")
        return nanoseconds_of(at)
    if isinstance(at, str):
        try:
            return read_moment(at)
        except ValueError as error:
            raise InvalidOptionError(f"at must be {error}") from None
    moment = whole_of(at)
    if moment is None or not 0 <= moment < 1 << 63:
        raise InvalidOptionError(
            f"at must be a datetime, a text or nanoseconds since 1970, not {at!r}"
        )
    return moment

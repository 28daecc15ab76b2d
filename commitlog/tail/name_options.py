"""The options of a named tailer, checked once."""

from __future__ import annotations

from dataclasses import dataclass

from commitlog.base.units import Duration, Size, parse_duration, parse_size
from commitlog.errors import InvalidOptionError
from commitlog.tail.tailer_folder import check_name

Durable = bool | Duration
NEVER_NS = -1


@dataclass(frozen=True)
class NameOptions:
    """Options of a named tailer in its own units.

    `required` is None to keep the current setting; `max_lag_bytes` is 0 for no limit.
    `durable_every_ns` is the least time between two flushes of the saved position; with `NEVER_NS`
    the system flushes it.
    """

    name: str
    required: bool | None
    max_lag_bytes: int
    durable_every_ns: int


def name_options(
    name: object, required: object, max_lag: Size | None, durable: Durable
) -> NameOptions | None:
    """Check the options of a named tailer; return None if the tailer has no name."""
    if required is not None and not isinstance(required, bool):
        raise InvalidOptionError(
            f"required must be True, False or None (keep the setting), not {required!r}"
        )
    if max_lag is not None and not required:
        raise InvalidOptionError(
            "max_lag limits appends for a required tailer only: add required=True"
        )
    every_ns = _durable_every_ns(durable)
    if name is None:
        if required or every_ns != NEVER_NS:
            raise InvalidOptionError(
                f"{'required' if required else 'durable'} is for a named tailer: add name="
            )
        return None
    lag = 0 if max_lag is None else parse_size(max_lag, "max_lag")
    if max_lag is not None and lag < 1:
        raise InvalidOptionError(
            f"max_lag must be at least one byte, such as '64MiB', not {max_lag!r}"
        )
    return NameOptions(check_name(name), required, lag, every_ns)


def _durable_every_ns(durable: Durable) -> int:
    if durable is False:
        return NEVER_NS
    return 0 if durable is True else int(parse_duration(durable, "durable") * 1e9)

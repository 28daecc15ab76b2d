"""Option: a field that checks and converts the caller's value, and the readers of such values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, SupportsIndex, TypeVar, overload

from commitlog.base.units import Duration, Size, parse_duration, parse_size, whole_of
from commitlog.errors import InvalidOptionError

if TYPE_CHECKING:
    import zoneinfo

Stored = TypeVar("Stored")
Given = TypeVar("Given")

LISTENER_METHODS = ("on_created", "on_sealed", "on_released", "on_deleted")


class Option(Generic[Stored, Given]):
    """A field that checks the caller's value and stores it in one form."""

    def __init__(self, default: Given, read: Callable[[Given, str], Stored]) -> None:
        self.default = default
        self.read = read

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Given: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Stored: ...
    def __get__(self, instance: object | None, owner: type) -> Stored | Given:
        if instance is None:
            return self.default
        stored: Stored = instance.__dict__[self.name]
        return stored

    def __set__(self, instance: object, value: Given) -> None:
        instance.__dict__[self.name] = self.read(value, self.name)


def optional(read: Callable[[Given, str], Stored]) -> Callable[[Given | None, str], Stored | None]:
    def read_unless_none(value: Given | None, name: str) -> Stored | None:
        return None if value is None else read(value, name)

    return read_unless_none


def sized(smallest: int, largest: int, multiple: int = 1) -> Callable[[Size, str], int]:
    def read(value: Size, name: str) -> int:
        size = parse_size(value, name)
        if not smallest <= size <= largest or size % multiple:
            whole = f", a multiple of {multiple}, such as '64MiB'" if multiple > 1 else ""
            raise InvalidOptionError(
                f"{name} must be from {smallest} to {largest} bytes{whole}, not {value!r}"
            )
        return size

    return read


def lasting(smallest_s: float) -> Callable[[Duration, str], float]:
    """Accept a duration of at least so many seconds."""

    def read(value: Duration, name: str) -> float:
        duration_s = parse_duration(value, name)
        if duration_s < smallest_s:
            raise InvalidOptionError(
                f"{name} must be at least {smallest_s:g} seconds, not {value!r}"
            )
        return duration_s

    return read


def counted(largest: int, smallest: int = 0) -> Callable[[SupportsIndex, str], int]:
    def read(value: SupportsIndex, name: str) -> int:
        count = whole_of(value)
        if count is None or not smallest <= count <= largest:
            raise InvalidOptionError(
                f"{name} must be a whole number from {smallest} to {largest}, not {value!r}"
            )
        return count

    return read


def chosen(choices: Iterable[str]) -> Callable[[Given, str], Given]:
    known = tuple(choices)

    def read(value: Given, name: str) -> Given:
        if not isinstance(value, str) or value not in known:
            raise InvalidOptionError(
                f"{name} must be one of {', '.join(map(repr, known))}, not "
                f"{value!r}{did_you_mean(value, known)}"
            )
        return value

    return read


def switch(value: bool, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidOptionError(f"{name} must be True or False, not {value!r}")
    return value


def check_switches(**given: bool) -> None:
    """Refuse arguments that must be True or False and are something else."""
    for name, value in given.items():
        switch(value, name)


def zone_of(name: str) -> zoneinfo.ZoneInfo:
    """Return the zone with an IANA name; if there is none, raise `ValueError`."""
    import zoneinfo

    try:
        if isinstance(name, str):
            return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise ValueError(f"there is no time zone {name!r}")


def zone_name(value: str, name: str) -> str:
    try:
        return zone_of(value).key
    except ValueError:
        import zoneinfo

        known = sorted(zoneinfo.available_timezones())
        raise InvalidOptionError(
            f"{name} must be the name of a time zone, such as 'Europe/Berlin' or 'UTC', not "
            f"{value!r}{did_you_mean(value, known)}"
        ) from None


def segment_listener(value: object | None, name: str) -> object | None:
    """Accept an object with some methods of a listener, and none with nearly such a name."""
    if value is None:
        return None
    named = [method for method in dir(value) if method.startswith("on_")]
    for method in named:
        if method not in LISTENER_METHODS and _close(method, LISTENER_METHODS, 0.8):
            raise InvalidOptionError(
                f"{name} has {method}, which is not an event: the events are "
                f"{', '.join(LISTENER_METHODS)}{did_you_mean(method, LISTENER_METHODS)}"
            )
    if isinstance(value, type) or not any(callable(getattr(value, method)) for method in named):
        raise InvalidOptionError(
            f"{name} must be an object with some of {', '.join(LISTENER_METHODS)}, not {value!r}"
        )
    return value


def did_you_mean(value: object, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: a similar known one, if there is any."""
    close = _close(str(value), list(known), 0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _close(word: str, known: Sequence[str], cutoff: float) -> list[str]:
    import difflib

    return difflib.get_close_matches(word, known, n=1, cutoff=cutoff)

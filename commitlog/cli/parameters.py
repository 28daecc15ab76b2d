"""What is given on the command line, read: positions, counts, sizes, times, patterns. What cannot
be read is refused with what was expected."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

from commitlog.base.moment import read_moment
from commitlog.base.roll_cycle import zone_of
from commitlog.base.units import parse_age, parse_duration, parse_size
from commitlog.cli.filter import Pattern, compiled
from commitlog.cli.printed import FIELDS
from commitlog.errors import InvalidOptionError
from commitlog.options import Options
from commitlog.tail.replay import SPEED_LEAST, SPEED_MOST
from commitlog.tail.tailer_folder import check_name

_POSITION = re.compile(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19}")
INTERVAL_LEAST_S = 0.1
_DECIMAL = re.compile(r"[0-9]{1,19}(\.[0-9]{1,19})?")
_WHOLE = re.compile(r"[0-9]{1,19}")
_LARGEST = (1 << 63) - 1


def position(text: str) -> int:
    """A position, decimal or hexadecimal."""
    found = _position_of(text)
    if found is None:
        raise click.BadParameter(f"expected a position, decimal or 0x..., not {text!r}")
    return found


def start(*words: str) -> Callable[[str], int | str]:
    """Reads where to begin: a position, or one of some words."""

    def place(text: str) -> int | str:
        if text in words:
            return text
        found = _position_of(text)
        if found is None:
            raise click.BadParameter(
                f"expected {', '.join(map(repr, words))} or a position, decimal or 0x..., not "
                f"{text!r}"
            )
        return found

    return place


def _position_of(text: str) -> int | None:
    if _POSITION.fullmatch(text) is None:
        return None
    value = int(text, 16 if text[:2] in ("0x", "0X") else 10)
    return value if value <= _LARGEST else None


def whole(least: int, most: int = _LARGEST) -> Callable[[str], int]:
    """Reads whole numbers between two bounds."""

    def number(given: str | int) -> int:
        text = str(given)  # a default comes as it is
        value = int(text) if _WHOLE.fullmatch(text) else -1
        if not least <= value <= most:
            bounds = f"of at least {least}" if most == _LARGEST else f"from {least} to {most}"
            raise click.BadParameter(f"expected a whole number {bounds}, not {text!r}")
        return value

    return number


def size_from(least: int) -> Callable[[str], int]:
    """Reads sizes with a lower bound, in bytes."""

    def read(text: str) -> int:
        try:
            value = parse_size(text, "size")
        except InvalidOptionError:
            raise click.BadParameter(
                f"expected a size such as 65536 or 64MiB, not {text!r}"
            ) from None
        if value < least:
            raise click.BadParameter(f"expected at least {least} bytes, not {text!r}")
        return value

    return read


def duration_from(least_s: float) -> Callable[[str], float]:
    """Reads durations with a lower bound, in seconds."""

    def read(text: str) -> float:
        try:
            seconds = parse_duration(text, "duration")
        except InvalidOptionError:
            raise click.BadParameter(f"expected a time such as 15 or 500ms, not {text!r}") from None
        if seconds < least_s:
            raise click.BadParameter(f"expected at least {least_s:g} seconds, not {text!r}")
        return seconds

    return read


size = size_from(0)
duration = duration_from(0)
interval = duration_from(INTERVAL_LEAST_S)


def age(text: str) -> dt.timedelta:
    """Read an age, which needs a unit."""
    try:
        return parse_age(text, "age")
    except InvalidOptionError as error:
        raise click.BadParameter(f"expected {error.message.removeprefix('age must be ')}") from None


def moment(text: str) -> str:
    """Check a time. The command reads it in its time zone."""
    try:
        read_moment(text)
    except ValueError as error:
        raise click.BadParameter(f"expected {error}") from None
    return text


def zone(text: str) -> dt.tzinfo | None:
    """A time zone; None for "local", this machine's."""
    if text == "local":
        return None
    if text == "UTC":
        return dt.UTC
    try:
        return zone_of(text)
    except ValueError:
        raise click.BadParameter(
            f"expected a time zone such as Europe/Berlin, UTC or local, not {text!r}"
        ) from None


def roll_cycle(text: str) -> str:
    """A roll cycle's name, or a period."""
    try:
        return Options(roll_cycle=text).roll_cycle or text
    except InvalidOptionError as error:
        raise click.BadParameter(f"expected {str(error).partition(' must be ')[2]}") from None


def zone_name(text: str) -> str:
    """The name of a time zone, as a log keeps it."""
    try:
        return zone_of(text).key
    except ValueError:
        raise click.BadParameter(
            f"expected a time zone such as Europe/Berlin or UTC, not {text!r}"
        ) from None


def pattern(text: str) -> Pattern:
    """A regular expression."""
    try:
        return compiled(text)
    except ValueError as error:
        raise click.BadParameter(
            f"expected a regular expression as Python's re has them, not {text!r}: {error}"
        ) from None


def speed(text: str) -> float:
    """How many times as fast as recorded."""
    if _DECIMAL.fullmatch(text) is None or not SPEED_LEAST <= float(text) <= SPEED_MOST:
        raise click.BadParameter(
            f"expected a number from {SPEED_LEAST:g} to {SPEED_MOST:g}, such as 1 or 10, not "
            f"{text!r}"
        )
    return float(text)


def fields(text: str) -> tuple[str, ...]:
    """Names of fields, with commas in between."""
    names = tuple(text.split(","))
    if not set(names) <= set(FIELDS) or len(set(names)) < len(names):
        raise click.BadParameter(
            f"expected some of {','.join(FIELDS)}, each once and with commas in between, not "
            f"{text!r}"
        )
    return names


def tailer_name(text: str) -> str:
    """A name that a tailer can have."""
    try:
        return check_name(text)
    except InvalidOptionError as error:
        raise click.BadParameter(str(error)) from None


def complete_tailer(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a tailer, if the log stands before it."""
    names: list[str] = []
    # While an option lacks its value, click leaves the other arguments in `args`.
    for log in filter(None, [context.params.get("log"), *context.args]):
        with contextlib.suppress(OSError):
            names += os.listdir(os.path.join(log, "tailers"))
    return [
        CompletionItem(name)
        for name in sorted(names)
        if name.startswith(incomplete) and not name.startswith(".")
    ]

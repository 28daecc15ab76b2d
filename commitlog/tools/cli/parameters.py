"""Parameter types of the command line, and the options that several commands share. The refusal of
a value names what was expected.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from commitlog.base.moment import FORMS, read_moment
from commitlog.base.name import check_name
from commitlog.base.option import zone_of
from commitlog.base.pace import SPEED_LEAST, SPEED_MOST
from commitlog.base.roll_cycle import RollCycle, cycle_name
from commitlog.base.units import parse_age, parse_duration, parse_size
from commitlog.errors import CommitLogError, InvalidOptionError
from commitlog.options import Options, new_segment_size
from commitlog.tools.cli.filter import Pattern, compiled
from commitlog.tools.cli.where import Condition, condition

INTERVAL_LEAST_S = 0.1
_LARGEST = (1 << 63) - 1
_POSITION = re.compile(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19}")
_DECIMAL = re.compile(r"[0-9]{1,19}(\.[0-9]{1,19})?")
_WHOLE = re.compile(r"[0-9]{1,19}")
_TOKEN = "COMMITLOG_TOKEN"
Value = TypeVar("Value")
Command = TypeVar("Command", bound=Callable[..., Any])


def _read(text: str, expected: str, reader: Callable[[str], Value]) -> Value:
    try:
        return reader(text)
    except (ValueError, CommitLogError):
        raise click.BadParameter(f"expected {expected}, not {text!r}") from None


def _position_of(text: str) -> int:
    if (
        _POSITION.fullmatch(text) is None
        or (value := int(text, 16 if text[:2] in ("0x", "0X") else 10)) > _LARGEST
    ):
        raise ValueError(text)
    return value


def position(text: str) -> int:
    return _read(text, "a position, decimal or 0x...", _position_of)


def header(text: str) -> tuple[str, bytes]:
    """Return the name and the value of a header given as NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.BadParameter(f"expected NAME=VALUE, not {text!r}")
    return name, os.fsencode(value)


def time_or_position(text: str) -> int | str:
    return moment(text) if _POSITION.fullmatch(text) is None else position(text)


def start(text: str) -> int | str:
    if text in ("first", "end"):
        return text
    return _read(text, "'first', 'end' or a position, decimal or 0x...", _position_of)


def whole(least: int, most: int = _LARGEST) -> Callable[[str], int]:
    def number(given: str | int) -> int:
        text = str(given)  # a default is an int
        value = int(text) if _WHOLE.fullmatch(text) else -1
        if not least <= value <= most:
            bounds = f"of at least {least}" if most == _LARGEST else f"from {least} to {most}"
            raise click.BadParameter(f"expected a whole number {bounds}, not {text!r}")
        return value

    return number


def size_from(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = _read(
            text, "a size such as 65536, 64K or 64MiB", lambda given: parse_size(given, "size")
        )
        if value < least:
            raise click.BadParameter(f"expected at least {least} bytes, not {text!r}")
        return value

    return read


def duration_from(least_s: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        seconds = _read(
            text,
            "a duration such as 15, 500ms or 10m",
            lambda given: parse_duration(given, "duration"),
        )
        if seconds < least_s:
            raise click.BadParameter(f"expected at least {least_s:g} seconds, not {text!r}")
        return seconds

    return read


size = size_from(0)
duration = duration_from(0)
interval = duration_from(INTERVAL_LEAST_S)


def age(text: str) -> dt.timedelta:
    """Read an age: a duration with its unit, or a time in the past."""

    def reader(given: str) -> dt.timedelta:
        with contextlib.suppress(InvalidOptionError):
            return parse_age(given.removeprefix("-"), "age")
        return parse_age(f"{time.time_ns() - read_moment(given)}ns", "age")  # the future is refused

    return _read(text, "an age such as 90s, 36h, 7d, yesterday or 2026-05-01", reader)


def moment(text: str) -> str:
    """Check a time. The command reads it in its time zone."""
    _read(text, f"a time such as {FORMS}", read_moment)
    return text


def zone(text: str) -> dt.tzinfo | None:
    """Read a time zone; None for "local", this machine's."""
    if text == "local":
        return None
    return (
        dt.UTC
        if text == "UTC"
        else _read(text, "a time zone such as Europe/Berlin, UTC or local", zone_of)
    )


def zone_name(text: str) -> str:
    """Read the name of a time zone, as a log keeps it."""
    return _read(text, "a time zone such as Europe/Berlin or UTC", zone_of).key


def segment_size(text: str) -> int:
    try:
        return new_segment_size(Options(segment_size=size(text)))
    except InvalidOptionError as error:
        raise click.BadParameter(
            f"expected a size {str(error).partition(' must be ')[2]}"
        ) from None


def roll_cycle(text: str) -> str:
    try:
        return cycle_name(text, "roll_cycle")
    except InvalidOptionError as error:
        raise click.BadParameter(f"expected {str(error).partition(' must be ')[2]}") from None


def pattern(text: str) -> Pattern:
    try:
        return compiled(text)
    except ValueError as error:
        raise click.BadParameter(
            f"expected a regular expression of Python, not {text!r}: {error}"
        ) from None


def where(text: str) -> Condition:
    try:
        return condition(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is not a condition: {error}; write it like "
            "'amount > 3 and city in [\"Rome\"]', with texts in quotes"
        ) from None


def record_format(*names: str) -> Callable[[str], str]:
    from commitlog.tools.cli.record_format import Template

    def read(text: str) -> str:
        if text not in names:
            if "{" not in text and "}" not in text:
                listed = ", ".join(names)
                raise click.BadParameter(
                    f"expected one of {listed}, or a template such as "
                    f"'{{position}} {{value}}\\n', not {text!r}"
                )
            try:
                Template(text, escape=True)
            except ValueError as error:
                raise click.BadParameter(f"{text!r} is not a template: {error}") from None
        return text

    return read


def complete_words(
    *words: str,
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    return lambda context, parameter, incomplete: [
        CompletionItem(word) for word in words if word.startswith(incomplete)
    ]


def speed(text: str) -> float:
    """Read a speed, as a multiple of the recorded one."""
    if _DECIMAL.fullmatch(text) is None or not SPEED_LEAST <= float(text) <= SPEED_MOST:
        raise click.BadParameter(
            f"expected a number from {SPEED_LEAST:f} to {SPEED_MOST:.0f}, such as 1 or 10, not "
            f"{text!r}"
        )
    return float(text)


def tailer_name(text: str) -> str:
    try:
        return check_name(text)
    except InvalidOptionError as error:
        raise click.BadParameter(str(error)) from None


def _complete_name(
    folder: str,
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return what completes a name that is in a folder of the log that is given before it."""

    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        names: list[str] = []
        # While an option lacks its value, click leaves the arguments in `context.args`.
        for log in filter(None, [context.params.get("log"), *context.args]):
            with contextlib.suppress(OSError):
                names += os.listdir(os.path.join(log, folder))
        return [
            CompletionItem(name)
            for name in sorted(names)
            if name.startswith(incomplete) and not name.startswith(".")
        ]

    return complete


complete_tailer = _complete_name("tailers")
complete_queue = _complete_name("queues")


# --- options that several commands share ----------------------------------------------------------


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command; `--help` has them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


class _TokenOption(click.Option):
    """An option whose variable counts although it is empty: click takes that as unset."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        return os.environ.get(_TOKEN)


def token_option(help: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the option for a token."""
    return click.option(
        "--token",
        cls=_TokenOption,
        envvar=_TOKEN,
        metavar="TEXT",
        help=f"{help} [default: the variable {_TOKEN}]",
    )


def connection_options(command: Command) -> Command:
    """Add the options for a connection to a server of logs."""
    return with_options(
        token_option("Send this token."),
        click.option(
            "--tls-roots",
            metavar="FILE",
            default=None,
            help="Trust these certificates, in PEM. [default: those of the system]",
        ),
        click.option("--plain-text", is_flag=True, help="Connect to another machine without TLS."),
    )(command)


def report_interval_option(command: Command) -> Command:
    """Add the option for how often a command that copies reports: see `lag.py`."""
    return click.option(
        "--interval",
        type=interval,
        default="10s",
        show_default=True,
        metavar="DURATION",
        help="Print position and lag at most this often, if they have changed.",
    )(command)


def roll_options(when: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the options for the roll cycle of a log. The help of each begins
    with `when`.
    """
    return with_options(
        click.option(
            "--roll-cycle",
            type=roll_cycle,
            metavar="CYCLE",
            help=f"{when} roll by this cycle, such as DAILY, HOURLY or 90s.",
        ),
        click.option(
            "--roll-epoch",
            type=duration,
            metavar="DURATION",
            help=f"{when} offset the start of each cycle by this much, such as 6h.",
        ),
        click.option(
            "--time-zone",
            type=zone_name,
            metavar="ZONE",
            help=f"{when} count cycles in this zone, such as Europe/Berlin.",
        ),
    )


def roll_cycle_of(
    roll_cycle: str | None, roll_epoch: float | None, time_zone: str | None
) -> RollCycle | None:
    if roll_cycle is not None:
        return RollCycle(roll_cycle, time_zone=time_zone or "UTC", epoch=roll_epoch or 0.0)
    if roll_epoch is not None or time_zone is not None:
        raise click.UsageError(
            "--roll-epoch and --time-zone need --roll-cycle: add it, or leave them out"
        )
    return None

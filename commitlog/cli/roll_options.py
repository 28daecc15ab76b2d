"""The options of a command that say how a log rolls by time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from commitlog.cli import parameters

_Command = TypeVar("_Command", bound=Callable[..., Any])


def roll_options(when: str) -> Callable[[_Command], _Command]:
    """Give a command `--roll-cycle`, `--roll-epoch` and `--time-zone`; `when` says in their help
    what they are for.
    """

    def decorate(command: _Command) -> _Command:
        for name, kind, metavar, said in (
            ("--time-zone", parameters.zone_name, "ZONE", "for its cycles: Europe/Berlin."),
            ("--roll-epoch", parameters.duration, "DURATION", "its cycles begin so much later."),
            ("--roll-cycle", parameters.roll_cycle, "CYCLE", "DAILY, HOURLY, 90s and so on."),
        ):
            command = click.option(
                name, type=kind, default=None, metavar=metavar, help=f"{when}: {said}"
            )(command)
        return command

    return decorate


def roll_cycle_of(
    roll_cycle: str | None, roll_epoch: float | None, time_zone: str | None
) -> dict[str, Any]:
    """The three as options of a log.

    Raises
    ------
    click.UsageError
        They say how to count cycles, and not which.
    """
    if roll_cycle is None and (roll_epoch is not None or time_zone is not None):
        raise click.UsageError(
            "--roll-epoch and --time-zone say how cycles are counted: give --roll-cycle, too"
        )
    return {"roll_cycle": roll_cycle, "roll_epoch": roll_epoch, "time_zone": time_zone}

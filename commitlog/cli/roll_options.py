"""The options for the roll cycle of a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from commitlog.base.roll_cycle import RollCycle
from commitlog.cli import parameters

_Command = TypeVar("_Command", bound=Callable[..., Any])


def roll_options(when: str) -> Callable[[_Command], _Command]:
    """Add `--roll-cycle`, `--roll-epoch` and `--time-zone` to a command. The help of each begins
    with `when`.
    """

    def decorate(command: _Command) -> _Command:
        for name, kind, metavar, said in (
            (
                "--time-zone",
                parameters.zone_name,
                "ZONE",
                "count cycles in this zone, such as Europe/Berlin.",
            ),
            (
                "--roll-epoch",
                parameters.duration,
                "DURATION",
                "offset the start of each cycle by this much, such as 6h.",
            ),
            (
                "--roll-cycle",
                parameters.roll_cycle,
                "CYCLE",
                "roll by this cycle, such as DAILY, HOURLY or 90s.",
            ),
        ):
            command = click.option(
                name, type=kind, default=None, metavar=metavar, help=f"{when} {said}"
            )(command)
        return command

    return decorate


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

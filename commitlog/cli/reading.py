"""What `cat` and `tail` share: which records they show, and what they say about damage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from commitlog.log.commit_log import CommitLog
from commitlog.tail.tailer import Tailer

Command = TypeVar("Command", bound=Callable[..., Any])


def reading_options(command: Command) -> Command:
    """Adds `--visibility` and `--on-damage`."""
    for option in (
        click.option(
            "--on-damage",
            type=click.Choice(["raise", "skip"]),
            default="raise",
            show_default=True,
            help="At a damaged record: end there, or say so and go on at the next whole one. "
            "Exit status 1 either way.",
        ),
        click.option(
            "--visibility",
            type=click.Choice(["committed", "flushed"]),
            default="committed",
            show_default=True,
            help="Show what every process sees, or only what no crash can take back.",
        ),
    ):
        command = option(command)
    return command


def present_end(log: CommitLog) -> int:
    """A position that bounds what is in the log now, so that a reader ends although writers go
    on.
    """
    return max(log.tail_position, log.committed_position)


def say_damage(tailer: Tailer, told: int = 0) -> int:
    """Say on standard error what the tailer has stepped over since `told` such places; how many
    there are by now.
    """
    for position, resume_position in tailer.damaged[told:]:
        click.echo(f"commitlog: damage: skipped position {position} to {resume_position}", err=True)
    return len(tailer.damaged)

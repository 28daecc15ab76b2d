"""The group of all commands; each is imported when it runs."""

from __future__ import annotations

import importlib
from typing import Any

import click

from commitlog import __version__
from commitlog._kernel.segments import FORMAT

# In the order in which `commitlog --help` lists them.
COMMANDS = (
    "append",
    "call",
    "cat",
    "tail",
    "info",
    "list",
    "dump",
    "top",
    "tailers",
    "topics",
    "history",
    "verify",
    "repair",
    "prune",
    "archive",
    "restore",
    "serve",
    "follow",
    "promote",
    "remove",
    "export-metrics",
    "spark",
    "doctor",
    "bench",
)


class LazyGroup(click.Group):
    """Import each command from the module of its name."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = dict.fromkeys(
            COMMANDS, click.Command(None)
        )  # click suggests from these names

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"commitlog.cli.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    __version__, message=f"commitlog %(version)s, log format {FORMAT[0]}.{FORMAT[1]}"
)
def group() -> None:
    """Append to, read and manage commitlog logs. LOG is the directory of a log."""

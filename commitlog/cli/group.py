"""The group of all commands, each imported when it is asked for."""

from __future__ import annotations

import importlib

import click

from commitlog import __version__
from commitlog._kernel.segments import FORMAT

# What `commitlog --help` lists, in this order.
COMMANDS = (
    "append",
    "cat",
    "tail",
    "info",
    "dump",
    "top",
    "tailers",
    "verify",
    "repair",
    "prune",
    "archive",
    "remove",
    "export-metrics",
    "spark",
    "doctor",
    "bench",
)


class LazyGroup(click.Group):
    """Finds commands by the names of their modules."""

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
    """Look after commitlog logs. LOG is a log's directory."""

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
# A typo never leads to a command that deletes or changes records, as from `demo` to `remove`.
_NEVER_SUGGESTED = ("archive", "promote", "prune", "remove", "repair", "restore")


class LazyGroup(click.Group):
    """Import each command from the module of its name."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        # click suggests from these names
        suggested = [name for name in COMMANDS if name not in _NEVER_SUGGESTED]
        self.commands = dict.fromkeys(suggested, click.Command(None))

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

"""The group of all commands; each is imported when it runs.

A command is a module of `commitlog.tools.cli.commands`, or an entry point of the group
``commitlog.commands`` of any installed package.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache

import click

from commitlog import __version__
from commitlog.base.registered import load, registered
from commitlog.tools.cli import commands
from commitlog.tools.cli.commands import UnsuggestedCommand
from commitlog.types import Identity

GROUP = "commitlog.commands"


@cache
def own_commands() -> frozenset[str]:
    """Return the names of commitlog's own commands, without importing them."""
    modules = pkgutil.iter_modules(commands.__path__)
    return frozenset(module.name.replace("_", "-") for module in modules)


class LazyGroup(click.Group):
    """Import each command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*own_commands(), *registered(GROUP)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in own_commands():
            module = importlib.import_module(f"{commands.__name__}.{cmd_name.replace('-', '_')}")
            assert isinstance(module.command, click.Command)
            return module.command
        entry = registered(GROUP).get(cmd_name)
        if entry is not None:
            found = load(entry, click.Command)
            return _unavailable(cmd_name, found) if isinstance(found, str) else found
        self.commands = self._similar(ctx, cmd_name)  # click suggests from these names
        return None

    def _similar(self, ctx: click.Context, name: str) -> dict[str, click.Command]:
        near = difflib.get_close_matches(name, self.list_commands(ctx))
        found = ((each, self.get_command(ctx, each)) for each in near)
        return {
            each: command
            for each, command in found
            if command is not None and not isinstance(command, UnsuggestedCommand)
        }


def _unavailable(name: str, why: str) -> click.Command:
    """Return a command that only tells why it cannot be imported."""

    def refuse() -> None:
        raise click.ClickException(f"the command {name!r} cannot be used: {why}")

    return click.Command(
        name,
        callback=refuse,
        short_help=f"Not available: {why}.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog='\b\nCompletion: eval "$(_COMMITLOG_COMPLETE=bash_source commitlog)" in ~/.bashrc;\n'
    "zsh_source and fish_source are for zsh and fish.",
)
@click.version_option(
    __version__,
    message=f"commitlog %(version)s, log format {Identity.FORMAT[0]}.{Identity.FORMAT[1]}",
)
def group() -> None:
    """Append to, read and manage commitlog logs. LOG is the directory of a log."""

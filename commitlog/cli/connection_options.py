"""The options for a connection to a server of logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def connection_options(command: _Command) -> _Command:
    """Add `--token`, `--tls-roots` and `--plain-text` to a command."""
    for option in (
        click.option("--plain-text", is_flag=True, help="Connect to another machine without TLS."),
        click.option(
            "--tls-roots",
            metavar="FILE",
            default=None,
            help="Trust these certificates, in PEM. [default: those of the system]",
        ),
        click.option(
            "--token",
            envvar="COMMITLOG_TOKEN",
            metavar="TEXT",
            help="Send this token. [default: the variable COMMITLOG_TOKEN]",
        ),
    ):
        command = option(command)
    return command

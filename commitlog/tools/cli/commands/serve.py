"""`commitlog serve`: offer logs to followers."""

from __future__ import annotations

import threading

import click
from click.core import ParameterSource

from commitlog.replication import serve
from commitlog.tools.cli.interrupt import Ending
from commitlog.tools.cli.output import echo
from commitlog.tools.cli.parameters import token_option


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:7070",
    show_default=True,
    help="Listen at this address; port 0 takes a free one.",
)
@token_option("Require this token.")
@click.option(
    "--tokens",
    metavar="FILE",
    type=click.Path(),
    help="Require one of these tokens: each line is TOKEN RIGHT LOG..., or * for all logs. A RIGHT "
    "is read, tail:PREFIX, required:PREFIX or follow.",
)
@click.option(
    "--tls",
    nargs=2,
    metavar="CERTIFICATE KEY",
    default=None,
    help="Encrypt with this certificate and private key, files in PEM.",
)
@click.option("--plain-text", is_flag=True, help="Serve other machines without TLS.")
@click.pass_context
def command(
    context: click.Context,
    *,
    logs: tuple[str, ...],
    listen: str,
    token: str | None,
    tokens: str | None,
    tls: tuple[str, str] | None,
    plain_text: bool,
) -> None:
    """Serve LOGs to followers and readers until Ctrl-C.

    A log's name is the last part of its path. The logs are opened for reading, so the programs that
    write them continue. A follower gets each record once it is durable here. SIGTERM ends it with
    status 0.

    \b
    Examples:
      commitlog serve orders
      commitlog serve --listen 0.0.0.0:7070 --tls cert.pem key.pem orders trades
      commitlog serve --tokens tokens.txt orders trades
    """
    if tokens is not None and context.get_parameter_source("token") is ParameterSource.ENVIRONMENT:
        token = None
    with (
        Ending(serves=True),
        serve(
            logs, listen=listen, token=token, tokens=tokens, tls=tls, plain_text=plain_text
        ) as server,
    ):
        echo(*(f"serving {server.url(name)}" for name in server.names))
        threading.Event().wait()

"""`commitlog serve`: offer logs to followers."""

from __future__ import annotations

import threading

import click

from commitlog.cli.ending import Ending
from commitlog.replication import serve


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:7070",
    show_default=True,
    help="Listen at this address; port 0 takes a free one.",
)
@click.option(
    "--token",
    envvar="COMMITLOG_TOKEN",
    metavar="TEXT",
    help="Require this token. [default: the variable COMMITLOG_TOKEN]",
)
@click.option(
    "--tls",
    nargs=2,
    metavar="CERTIFICATE KEY",
    default=None,
    help="Encrypt with this certificate and private key, files in PEM.",
)
@click.option("--plain-text", is_flag=True, help="Serve other machines without TLS.")
def command(
    *,
    logs: tuple[str, ...],
    listen: str,
    token: str | None,
    tls: tuple[str, str] | None,
    plain_text: bool,
) -> None:
    """Offer LOGs to followers until Ctrl-C.

    A log's name is the last part of its path. The logs are opened for reading, so the programs that
    write them continue. A follower gets each record once it is durable here.

    \b
    Examples:
      commitlog serve orders
      commitlog serve --listen 0.0.0.0:7070 --tls cert.pem key.pem orders trades
    """
    with (
        Ending(),
        serve(logs, listen=listen, token=token, tls=tls, plain_text=plain_text) as server,
    ):
        click.echo("\n".join(f"serving {server.url(name)}" for name in server.names))
        threading.Event().wait()

"""`commitlog follow`: copy a log from another machine, and follow it."""

from __future__ import annotations

import click

from commitlog.replication import follow
from commitlog.tools.cli.interrupt import Ending
from commitlog.tools.cli.lag import report_lag, show_catch_up
from commitlog.tools.cli.output import echo
from commitlog.tools.cli.parameters import connection_options, report_interval_option
from commitlog.tools.cli.quantities import size_text


@click.command()
@click.argument("url")
@click.argument("copy", type=click.Path())
@connection_options
@click.option(
    "--name",
    metavar="TEXT",
    help="Have the server count COPY under this name. Each copy needs another one.  [default: the "
    "host's name and the path of COPY]",
)
@report_interval_option
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=None,
    help="Serve COPY at this address, to followers and to promotions; port 0 takes a free one.",
)
@click.option(
    "--tokens",
    metavar="FILE",
    type=click.Path(),
    help="Serve COPY to clients with a token of this file, as for serve. [default: the token]",
)
@click.option(
    "--tls",
    nargs=2,
    metavar="CERTIFICATE KEY",
    default=None,
    help="Serve COPY with this certificate and private key, files in PEM.",
)
@click.option(
    "--restored",
    is_flag=True,
    help="Go on with a COPY that was restored from a backup, cloned or moved to another file "
    "system, as a new copy.",
)
def command(
    *,
    url: str,
    copy: str,
    token: str | None,
    tls_roots: str | None,
    plain_text: bool,
    name: str | None,
    interval: float,
    listen: str | None,
    tokens: str | None,
    tls: tuple[str, str] | None,
    restored: bool,
) -> None:
    """Copy the log at URL to COPY, and follow it until Ctrl-C.

    URL is tls://HOST:PORT/LOG, or tcp:// without TLS. COPY is created if it does not exist. While
    COPY grows, every command that reads a log can read it. The next run continues where COPY ends.
    SIGTERM ends it with status 0.

    \b
    Examples:
      commitlog follow tcp://127.0.0.1:7070/orders copy
      commitlog follow --tls-roots ca.pem tls://a:7070/orders /backup/orders
      commitlog follow --listen 127.0.0.1:7071 tcp://127.0.0.1:7070/orders copy
    """
    with (
        Ending(serves=True),
        follow(
            url,
            copy,
            name=name,
            token=token,
            tls_roots=tls_roots,
            plain_text=plain_text,
            listen=listen,
            tokens=tokens,
            tls=tls,
            restored=restored,
        ) as follower,
    ):
        echo(f"following {url} from position {follower.position}")
        if follower.server is not None:
            echo(f"serving {follower.server.url()}")
        show_catch_up(follower, lambda: follower.lag_bytes)
        report_lag(follower, interval, lambda: follower.lag_bytes, size_text)

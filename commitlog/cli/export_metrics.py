"""`commitlog export-metrics`: a log's figures for Prometheus, from beside its writers."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from commitlog.cli import INTERRUPTED, parameters
from commitlog.observe.watching import LogWatch

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:\[\]/]*):)?(?P<port>[0-9]{1,5})")


def _address(text: str) -> tuple[str, int]:
    """Where to listen: a host and a port, of which the port alone will do."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise click.BadParameter(
            f"expected HOST:PORT or PORT, such as 127.0.0.1:9464, not {text!r}"
        )
    return (found["host"] or _LOOPBACK).strip("[]"), int(found["port"])


@click.command(name="export-metrics")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--listen",
    type=_address,
    metavar="HOST:PORT",
    help="Serve them over HTTP, on the loopback address where no host is named.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write them to this file, whole each time.",
)
@click.option(
    "--interval",
    type=parameters.interval,
    metavar="TIME",
    help="Write the file again and again, so often.",
)
@click.pass_context
def command(
    context: click.Context,
    *,
    logs: tuple[str, ...],
    listen: tuple[str, int] | None,
    output: str | None,
    interval: float | None,
) -> None:
    """Print, write or serve figures of LOGs for Prometheus.

    Watermarks, segments, room, writers, named tailers. Changes nothing.

    It looks from outside, at what the log's processes share; what one of them does, and how long
    that takes, that process tells itself, with `commitlog.metrics`. Without an option the figures
    are printed once. --output writes them to a file once, for node_exporter, and with --interval
    again and again. --listen serves them until Ctrl-C, each scrape with a look of its own.

    \b
    Examples:
      commitlog export-metrics orders
      commitlog export-metrics --listen 9464 orders payments
      commitlog export-metrics --output /var/lib/node_exporter/orders.prom --interval 15s orders
    """
    if listen is not None and output is not None:
        raise click.UsageError("choose one of --listen and --output", context)
    if interval is not None and output is None:
        raise click.UsageError(
            "--interval goes with --output: who scrapes --listen decides how often", context
        )
    try:
        from commitlog.observe import metrics
    except ModuleNotFoundError as error:
        raise click.UsageError(str(error), context) from error
    from prometheus_client import CollectorRegistry, generate_latest

    with contextlib.ExitStack() as stack:
        watches = [stack.enter_context(LogWatch(path)) for path in dict.fromkeys(logs)]
        for watch in watches:
            # a wrong path is said now; later, a log that is gone is down, and may come back
            watch.look()
        if output is not None:
            with _asked_to_end() as end, metrics.MetricsFile(output, *watches, interval=interval):
                context.exit(end() if interval is not None else 0)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(metrics.LogCollector(*watches))
        if listen is not None:
            with _asked_to_end() as end, _server(registry, *listen):
                context.exit(end())
        click.echo(generate_latest(registry), nl=False)


@contextlib.contextmanager
def _server(registry: CollectorRegistry, host: str, port: int) -> Iterator[None]:
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen at {host}:{port}: {error.strerror or error}"
        ) from error
    try:
        shown = f"[{host}]" if ":" in host else host
        click.echo(
            f"listening at http://{shown}:{server.server_port}/metrics until Ctrl-C", err=True
        )
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def _asked_to_end() -> Iterator[Callable[[], int]]:
    """Signals that end a program, kept until somebody waits for them: what is under way is
    finished. Gives what waits for one, and says with which status to exit."""
    asked = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    # Where a shell has Ctrl-C ignored for what runs in its background, it stays so.
    asked -= {number for number in asked if signal.getsignal(number) is signal.SIG_IGN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, asked)
    try:
        yield lambda: INTERRUPTED if signal.sigwait(asked) == signal.SIGINT else 0
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

"""`commitlog export-metrics`: the metrics of logs for Prometheus, from any process."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from commitlog.tools.cli import INTERRUPTED
from commitlog.tools.observe.watching import LogWatch

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:\[\]/]*):)?(?P<port>[0-9]{1,5})")


def _address(text: str) -> tuple[str, int]:
    """Read HOST:PORT or PORT; the host is the loopback address by default."""
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
    help="Serve the metrics over HTTP.  [default host: 127.0.0.1]",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the metrics to this file, which replaces an old one at once.",
)
@click.pass_context
def command(
    context: click.Context,
    *,
    logs: tuple[str, ...],
    listen: tuple[str, int] | None,
    output: str | None,
) -> None:
    """Print, write or serve metrics of LOGs for Prometheus.

    It exports watermarks, segments, free space, writers and named tailers. Any process can read
    these metrics. The program that writes a log can export more: see `commitlog.metrics`.

    Without an option it prints the metrics once. --listen serves them until Ctrl-C. With --output,
    a timer can keep FILE up to date for the textfile collector of node_exporter.

    \b
    Examples:
      commitlog export-metrics orders
      commitlog export-metrics --listen 9464 orders payments
      commitlog export-metrics --output /var/lib/node_exporter/orders.prom orders
    """
    if listen is not None and output is not None:
        raise click.UsageError("--listen and --output exclude each other: use one of them", context)
    try:
        from commitlog.tools.observe.log_collector import LogCollector
    except ModuleNotFoundError as error:
        raise click.UsageError(str(error), context) from error
    from prometheus_client import CollectorRegistry, generate_latest, write_to_textfile

    with contextlib.ExitStack() as stack:
        watches = [stack.enter_context(LogWatch(path)) for path in dict.fromkeys(logs)]
        for watch in watches:
            watch.look()  # refuse a wrong path now; a log that is removed later has `up` 0
        registry = CollectorRegistry(auto_describe=False)
        registry.register(LogCollector(*watches))
        if listen is not None:
            with _ending_signals() as wait, _server(registry, *listen):
                context.exit(wait())
        if output is None:
            click.echo(generate_latest(registry), nl=False)
            return
        try:
            write_to_textfile(output, registry)
        except OSError as error:
            raise click.ClickException(
                f"cannot write the metrics to {output}: {error.strerror}"
            ) from error


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
def _ending_signals() -> Iterator[Callable[[], int]]:
    """Block the signals that end a program, so that a scrape is finished; yield a function that
    waits for one of them, and returns the exit status.
    """
    ending = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    # A shell ignores SIGINT for a background job; keep that.
    ending -= {number for number in ending if signal.getsignal(number) is signal.SIG_IGN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    try:
        yield lambda: INTERRUPTED if signal.sigwait(ending) == signal.SIGINT else 0
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

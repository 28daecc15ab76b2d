"""`commitlog bench bus-writer` and `bus-reader`: how fast one process hears another, in two terminals."""

from __future__ import annotations

import itertools
import time
from typing import Any

import click

import commitlog
from commitlog.cli import FAILURE, parameters
from commitlog.errors import LogNotFoundError
from commitlog.tail.tailer import Idle

_MESSAGES = 10_000_000
_SEGMENT_SIZE = 64 << 20
_PATH = click.argument("path", metavar="PATH", type=click.Path())
_COUNT = click.option(
    "-n", "--messages", type=parameters.whole(1, 1 << 40), default=_MESSAGES, show_default=True, metavar="COUNT", help="How many messages."
)


class PairedCommand(click.Command):
    """The benchmark itself, unless its first argument asks for one of the pair."""

    def make_context(self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any) -> click.Context:
        if args and args[0] in _PAIR:
            return _PAIR[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command()
@_PATH
@_COUNT
@click.option(
    "--size", type=parameters.whole(0, _SEGMENT_SIZE // 16), default=12, show_default=True, metavar="BYTES", help="Bytes in each."
)
def writer(*, path: str, messages: int, size: int) -> None:
    """Append messages to a new log at PATH, one call each from a Python loop, and say how long it took.

    Run `commitlog bench bus-reader` with the same number in another terminal, before or after. `commitlog remove` removes the log.

    \b
    Example:
      commitlog bench bus-writer -n 10000000 /dev/shm/bus
    """
    value = bytes(index & 0xFF for index in range(size))
    with commitlog.open(path, "x", flush="none", segment_size=_SEGMENT_SIZE) as log:
        append = log.append
        began_ns = time.monotonic_ns()
        for _ in itertools.repeat(None, messages):
            append(value)
        elapsed_ns = time.monotonic_ns() - began_ns
    _report("appended", messages, size, elapsed_ns)


@click.command()
@_PATH
@_COUNT
@click.option("--idle", type=click.Choice(["spin", "yield", "backoff", "block"]), default="spin", show_default=True, help="How it waits.")
@click.option(
    "--timeout",
    type=parameters.duration,
    default="60s",
    show_default=True,
    metavar="TIME",
    help="How long to wait for the log, and for a next message.",
)
@click.pass_context
def reader(context: click.Context, *, path: str, messages: int, idle: Idle, timeout: float) -> None:
    """Read the messages of `commitlog bench bus-writer` as they come, and say how long it took from the first to the last.

    Waits for the log at PATH. Exit status 1 when no message came in time.
    """
    try:
        log = commitlog.open(path, "r", wait_for_log=timeout)
    except LogNotFoundError as error:
        raise LogNotFoundError(f"no log came in {timeout:g} s: start commitlog bench bus-writer with this path", path=path) from error
    with log, log.tailer() as tailer:
        values = tailer.values(timeout=timeout, idle=idle)
        first = next(values, None)
        began_ns = time.monotonic_ns()
        count, total = (1, len(first)) if first is not None else (0, 0)
        for value in itertools.islice(values, messages - count):
            count += 1
            total += len(value)
        elapsed_ns = time.monotonic_ns() - began_ns
    _report("read", count, total // max(1, count), elapsed_ns)
    if count < messages:
        click.echo(f"commitlog: {messages - count:,} of {messages:,} messages did not come within {timeout:g} s of the last", err=True)
        context.exit(FAILURE)


def _report(what: str, messages: int, size: int, elapsed_ns: int) -> None:
    seconds = max(1, elapsed_ns) / 1e9
    click.echo(
        f"{what} {messages:,} messages of {size} bytes in {seconds:.3f} s: {messages / seconds:,.0f} a second, "
        f"{elapsed_ns / max(1, messages):.1f} ns each"
    )


_PAIR = {"bus-writer": writer, "bus-reader": reader}

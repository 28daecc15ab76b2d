"""`commitlog append`: append records from files or standard input."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import click

import commitlog
from commitlog import CommitLog
from commitlog.errors import CommitLogError, InvalidOptionError, LogNotFoundError
from commitlog.extension import LogFiles, view_of
from commitlog.options import Options
from commitlog.tools.cli import FAILURE, INTERRUPTED, parameters
from commitlog.tools.cli.intake import (
    STANDARD_INPUT,
    Delimited,
    Frames,
    Splitter,
    pieces,
    total_bytes,
)
from commitlog.tools.cli.interrupt import Stop
from commitlog.tools.cli.output import echo, print_json
from commitlog.tools.cli.parameters import roll_cycle_of, roll_options
from commitlog.tools.cli.progress import Show, record_progress
from commitlog.tools.cli.quantities import size_text
from commitlog.tools.cli.record_format import ENDINGS
from commitlog.types import Identity

_TYPE_MOST = (1 << 32) - 1


class _UnfitInputError(Exception):
    """The rest of the input cannot be split into records."""


@dataclass
class _Appended:
    """Count what was appended. `last_position` is None if a batch failed in the middle, because
    then it is not known.
    """

    records: int = 0
    bytes: int = 0
    first_position: int | None = None
    last_position: int | None = None


@click.command()
@click.argument("log", type=click.Path())
@click.argument(
    "files",
    nargs=-1,
    metavar="[FILE ...]",
    type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True),
)
@click.option(
    "--format",
    type=click.Choice(["lines", "null", "frames"]),
    default="lines",
    show_default=True,
    help="Split the input at newlines, at NUL bytes, or by the length prefix that `commitlog cat "
    "--format frames` "
    "writes.",
)
@click.option("--key", metavar="TEXT", default=None, help="Give every record this key.")
@click.option(
    "--type",
    "kind",
    type=parameters.whole(0, _TYPE_MOST),
    default=0,
    metavar="N",
    show_default=True,
    help="Give every record this type.",
)
@click.option(
    "--header",
    "headers",
    type=parameters.header,
    multiple=True,
    metavar="NAME=VALUE",
    help="Give every record this header; may be given several times.",
)
@click.option("--sync", is_flag=True, help="Wait until each batch is durable.")
@click.option(
    "--segment-size",
    type=parameters.segment_size,
    default=None,
    metavar="SIZE",
    help="Create the log with segments of this size, such as 64M.",
)
@roll_options("For a new log:")
@click.option("--no-create", is_flag=True, help="Fail if LOG does not exist.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as a JSON object.")
@click.pass_context
def command(
    context: click.Context,
    *,
    log: str,
    files: tuple[str, ...],
    format: str,
    key: str | None,
    kind: int,
    headers: tuple[tuple[str, bytes], ...],
    sync: bool,
    segment_size: int | None,
    roll_cycle: str | None,
    roll_epoch: float | None,
    time_zone: str | None,
    no_create: bool,
    as_json: bool,
) -> None:
    """Append each line of FILEs or standard input to LOG.

    Each line is a record; the last line needs no newline. If FILE is - or is omitted, read standard
    input. LOG is created if it does not exist.

    Each record is appended as soon as it is read, and readers see it. At the end all records are
    durable. Ctrl-C appends the complete records that were read, then ends.

    \b
    Examples:
      commitlog append orders orders.txt
      commitlog append --key lena --sync orders < orders.txt
      commitlog append --header source=till-3 orders orders.txt
      find . -print0 | commitlog append --format null files
      commitlog append --roll-cycle DAILY --time-zone Europe/Berlin orders
    """
    sources = files or (STANDARD_INPUT,)
    if STANDARD_INPUT in sources and sys.stdin is None:
        raise click.UsageError("standard input is closed: give a FILE")

    def split(largest: int) -> Splitter:
        return Frames(largest) if format == "frames" else Delimited(ENDINGS[format], largest)

    options = Options(
        segment_size=segment_size, roll_cycle=roll_cycle_of(roll_cycle, roll_epoch, time_zone)
    )
    named = dict(headers)
    if len(named) < len(headers):
        raise click.UsageError("--header names a header twice: name it once")
    _check(log, options, create=not no_create)
    appender = _Appending(
        split, None if key is None else os.fsencode(key), kind, named or None, sync=sync
    )
    interrupted, failure = appender.run(log, sources, options)
    _report(appender.done, interrupted=interrupted, failure=failure, as_json=as_json, log=log)
    if failure is not None:
        echo(f"commitlog: {failure}", err=True)
    context.exit(FAILURE if failure is not None else INTERRUPTED if interrupted else 0)


class _Appending:
    """One run; `done` counts what it has appended."""

    def __init__(
        self,
        split: Callable[[int], Splitter],
        key: bytes | None,
        kind: int,
        headers: dict[str, bytes] | None,
        *,
        sync: bool,
    ) -> None:
        self.done = _Appended()
        self._split = split
        self._key = key
        self._kind = kind
        self._headers = headers
        self._sync = True if sync else None
        self._taken = 0

    def run(
        self, path: str, sources: tuple[str, ...], options: Options
    ) -> tuple[bool, Exception | None]:
        """Append all sources; return whether Ctrl-C ended it, and what failed."""
        interrupted = False
        failure: Exception | None = None
        opened = commitlog.open(path, "a", options)
        with Stop() as stop:  # it covers the closing, too: only a second Ctrl-C interrupts that
            try:
                with opened, record_progress(total_bytes(sources)) as show:
                    try:
                        interrupted = self._take_all(opened, sources, stop, show)
                    except (_UnfitInputError, CommitLogError, OSError) as error:
                        failure = error  # earlier records stay, and closing makes them durable
            except CommitLogError as error:
                failure = failure or error
        return interrupted, failure

    def _take_all(self, log: CommitLog, sources: tuple[str, ...], stop: Stop, show: Show) -> bool:
        for source in sources:
            view = view_of(log)
            room = view.largest_value(self._key, self._kind) - view.headers_length(self._headers)
            splitter = self._split(room)
            for piece in pieces(source, stop):
                self._taken += len(piece)
                self._append(log, source, splitter, splitter.feed(piece))
                show(self._taken, self.done.records)
            if stop.requested:
                if splitter.unfinished:
                    echo(
                        f"commitlog: {splitter.unfinished} bytes of an incomplete record were not "
                        "appended",
                        err=True,
                    )
                return True
            self._append(log, source, splitter, splitter.end())
        return False

    def _append(self, log: CommitLog, source: str, splitter: Splitter, values: list[bytes]) -> None:
        if values:
            self._append_values(log, values)
        if splitter.fault is not None:
            name = "standard input" if source == STANDARD_INPUT else source
            raise _UnfitInputError(f"{name}: {splitter.fault}")

    def _append_values(self, log: CommitLog, values: list[bytes]) -> None:
        try:
            positions = log.append_many(
                values,
                keys=None if self._key is None else [self._key] * len(values),
                types=None if self._kind == 0 else [self._kind] * len(values),
                sync=self._sync,
                headers=None if self._headers is None else [self._headers] * len(values),
            ).tolist()
        except BaseException:  # the values before an error are appended
            self._count(values[: log.stats().records - self.done.records], [])
            raise
        self._count(values, positions)

    def _count(self, values: list[bytes], positions: list[int]) -> None:
        if values:
            done = self.done
            first, last = (positions[0], positions[-1]) if positions else (None, None)
            done.last_position = last
            done.first_position = done.first_position if done.records else first
            done.records += len(values)
            done.bytes += sum(map(len, values))


def _check(path: str, options: Options, *, create: bool) -> None:
    """Refuse a log that is missing and not to be created, or that has another roll cycle."""
    found = _identity(path)
    if found is None and not create:
        raise LogNotFoundError(
            "there is no log here: leave out --no-create to create it", path=path
        )
    if found is not None and options.roll_cycle not in (None, found.roll_cycle):
        raise InvalidOptionError(
            f"roll_cycle is {options.roll_cycle}, but the log was created with "
            f"{found.roll_cycle or 'none'}: leave it out",
            path=path,
        )


def _identity(path: str) -> Identity | None:
    with contextlib.suppress(LogNotFoundError):
        LogFiles.check_directory(path)
    return LogFiles.identity_at(path)


def _report(
    done: _Appended, *, interrupted: bool, failure: Exception | None, as_json: bool, log: str
) -> None:
    if as_json:
        error = None if failure is None else str(failure)
        print_json({"path": log, **done.__dict__, "interrupted": interrupted, "error": error})
        return
    if done.records == 0:
        text = "appended nothing"
    else:
        first, last = (
            "unknown" if found is None else found
            for found in (done.first_position, done.last_position)
        )
        text = f"appended {done.records} record{'s' * (done.records != 1)}, {size_text(done.bytes)}"
        text += f", first position {first}, last position {last}"
    echo(f"{text}{', interrupted' if interrupted else ''}", err=True)

"""Progress of a command: a line on standard error if that is a terminal; with `--json`, an object
there each second.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from commitlog.base.progress import Progress as Call

Show = Callable[[int, int], None]
_JSON_EVERY_S = 1.0


@contextlib.contextmanager
def record_progress(total: int | None) -> Iterator[Show]:
    """Yield a function that shows bytes, of `total` if that is known, and records; it shows nothing
    if records are typed.
    """
    if not is_terminal(sys.stderr) or (total is None and is_terminal(sys.stdin)):
        yield lambda taken, records: None
        return
    from rich.progress import TextColumn

    records_column = TextColumn("{task.fields[records]} records")
    with _progress(*_byte_columns(), records_column) as bars:
        task = bars.add_task("", total=total, records=0)
        yield lambda taken, records: bars.update(task, completed=taken, records=records)


@contextlib.contextmanager
def byte_progress(name: str, *, as_json: bool = False) -> Iterator[Call | None]:
    """Yield a function that shows bytes, of how many, their rate and the time that remains; None if
    nothing is shown. With `as_json`, it prints an object on standard error each second.
    """
    if as_json:
        yield None if sys.stderr is None else _JsonLines(name)
        return
    if not is_terminal(sys.stderr):
        yield None
        return
    with _progress(*_byte_columns()) as bars:
        task = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


class _JsonLines:
    """Print how far a command is, as a line of JSON; none in its first second."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun_s = self._printed_s = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s - self._printed_s < _JSON_EVERY_S:
            return
        self._printed_s = now_s
        rate = done / (now_s - self._begun_s)
        line = {
            "progress": self._name,
            "done_bytes": done,
            "total_bytes": total,
            "bytes_per_s": round(rate),
            "remaining_s": round((total - done) / rate, 1) if rate else None,
        }
        click.echo(json.dumps(line), err=True)


@contextlib.contextmanager
def step_progress(name: str) -> Iterator[Show]:
    """Yield a function that shows how many steps of how many are done."""
    if not is_terminal(sys.stderr):
        yield lambda done, total: None
        return
    with _progress() as bars:
        task = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _byte_columns() -> list[ProgressColumn]:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return [
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    ]


def _progress(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; None is a stream that was closed at the start."""
    return stream is not None and stream.isatty()

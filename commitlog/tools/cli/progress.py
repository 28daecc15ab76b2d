"""Progress of a command: a line on standard error if that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

Show = Callable[[int, int], None]


@contextlib.contextmanager
def record_progress(total: int | None) -> Iterator[Show]:
    """Yield a function that shows bytes, of `total` if that is known, and records; it shows nothing
    if records are typed.
    """
    if not is_terminal(sys.stderr) or (total is None and is_terminal(sys.stdin)):
        yield lambda taken, records: None
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

    records_column = TextColumn("{task.fields[records]} records")
    with _progress(BarColumn(), DownloadColumn(), TransferSpeedColumn(), records_column) as bars:
        task = bars.add_task("", total=total, records=0)
        yield lambda taken, records: bars.update(task, completed=taken, records=records)


@contextlib.contextmanager
def step_progress(name: str) -> Iterator[Show]:
    """Yield a function that shows how many steps of how many are done."""
    if not is_terminal(sys.stderr):
        yield lambda done, total: None
        return
    with _progress() as bars:
        task = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _progress(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; None is a stream that was closed at the start."""
    return stream is not None and stream.isatty()

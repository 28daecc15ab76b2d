"""Progress of a command: a line on standard error if that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

Show = Callable[[int, int], None]


@contextlib.contextmanager
def record_progress(total: int | None) -> Iterator[Show]:
    """Yield a function that shows bytes and records; it shows nothing if records are typed.

    Parameters
    ----------
    total : int or None
        The bytes of the whole input, if known.
    """
    if not is_terminal(sys.stderr) or (total is None and is_terminal(sys.stdin)):
        yield lambda taken, records: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("{task.fields[records]} records"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total, records=0)
        yield lambda taken, records: progress.update(task, completed=taken, records=records)


@contextlib.contextmanager
def step_progress(name: str) -> Iterator[Show]:
    """Yield a function that shows how many steps of how many are done."""
    if not is_terminal(sys.stderr):
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; None is a stream that was closed at the start."""
    return stream is not None and stream.isatty()

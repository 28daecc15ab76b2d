"""How far a command has come, on a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Headway:
    """A line on standard error while records go by; nothing where that is no terminal, or where
    records are typed in at one.

    Parameters
    ----------
    what : str
        What is done to them.
    total : int or None
        Bytes that are to come, where that is known.
    """

    def __init__(self, what: str, total: int | None) -> None:
        self._what = what
        self._total = total
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if is_terminal(sys.stderr) and not (self._total is None and is_terminal(sys.stdin)):
            self._start()
        return self

    def _start(self) -> None:
        try:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                Progress,
                SpinnerColumn,
                TextColumn,
                TransferSpeedColumn,
            )
        except ImportError:
            return  # it can be done without
        columns = (
            SpinnerColumn(),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TextColumn("{task.fields[records]} records"),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(self._what, total=self._total, records=0)
        self._progress.start()

    def show(self, taken: int, records: int) -> None:
        """So many bytes, so many records."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=taken, records=records)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody sees it as it comes; a stream that was closed before the start is None."""
    return stream is not None and stream.isatty()

"""Console: print text, and progress bars on a terminal."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

_WIDEST = 110
_REDRAW_S = 0.1


class Bars(Protocol):
    """Show the progress of several tasks."""

    def show(self, *done: int) -> None:
        """Show how much of each task is done."""


class _NoBars:
    """Show nothing, for a pipe or a file."""

    def show(self, *done: int) -> None:
        """Show nothing."""


class _LineBars:
    """Overwrite one line, for a terminal without rich."""

    def __init__(self, names: Sequence[str], totals: Sequence[int]) -> None:
        self._names, self._totals = names, totals
        self._drawn = 0.0

    def show(self, *done: int) -> None:
        """Draw the line, at most ten times a second."""
        if time.monotonic() - self._drawn >= _REDRAW_S:
            self._drawn = time.monotonic()
            parts = [
                f"{name} {now:,} of {total:,}"
                for name, now, total in zip(self._names, done, self._totals, strict=True)
            ]
            print("\r  " + ", ".join(parts), end="\x1b[K", flush=True)

    def wipe(self) -> None:
        """Erase the line."""
        print("\r\x1b[K", end="", flush=True)


class _RichBars:
    """Show a bar for each task, for a terminal with rich."""

    def __init__(self, progress: Any, tasks: Sequence[Any]) -> None:
        self._progress, self._tasks = progress, tasks

    def show(self, *done: int) -> None:
        """Move the bars."""
        for task, now in zip(self._tasks, done, strict=True):
            self._progress.update(task, completed=now)


class Console:
    """Write text to standard output."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._rich = self._terminal and importlib.util.find_spec("rich") is not None
        self._width = min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns) - 1

    def heading(self, text: str) -> None:
        """Print the title of a scenario."""
        print(f"\n{self._styled(text, '1')}", flush=True)

    def print(self, text: str) -> None:
        """Print sentences, wrapped."""
        print(
            textwrap.fill(
                text,
                self._width,
                initial_indent="  ",
                subsequent_indent="  ",
                break_on_hyphens=False,
                break_long_words=False,
            ),
            flush=True,
        )

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Print a table; the first row has the headings, the first column the names."""
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for name, *figures in rows:
            cells = [
                name.ljust(widths[0]),
                *(figure.rjust(width) for figure, width in zip(figures, widths[1:], strict=True)),
            ]
            print("  " + "  ".join(cells), flush=True)

    def verdict(self, kept: bool, text: str) -> None:
        """Print the result of a scenario."""
        word = self._styled("KEPT", "1;32") if kept else self._styled("BROKEN", "1;31")
        print(f"  {word}: {text}", flush=True)

    @contextmanager
    def bars(self, **totals: int) -> Iterator[Bars]:
        """Show progress while the block runs, by name and total; erase it at the end."""
        if not self._terminal:
            yield _NoBars()
        elif not self._rich:
            line = _LineBars([name.replace("_", " ") for name in totals], list(totals.values()))
            try:
                yield line
            finally:
                line.wipe()
        else:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            columns = (TextColumn("  {task.description:<28}"), BarColumn(), MofNCompleteColumn())
            with Progress(*columns, transient=True) as progress:
                yield _RichBars(
                    progress,
                    [
                        progress.add_task(name.replace("_", " "), total=total)
                        for name, total in totals.items()
                    ],
                )

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._terminal else text

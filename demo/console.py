"""Console: print text, and progress bars on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import rich.console
from rich.text import Text

_WIDEST = 110
Show = Callable[..., None]


class Console:
    """Write text to standard output."""

    def __init__(self) -> None:
        self._out = rich.console.Console(highlight=False)
        self._out.width = min(_WIDEST, self._out.width if self._out.is_terminal else _WIDEST)

    def heading(self, text: str) -> None:
        """Print the title of a scenario."""
        self._out.print(Text(f"\n{text}", "bold"))

    def print(self, text: str, word: str = "", style: str = "") -> None:
        """Print sentences, wrapped; their first word may have a style."""
        lines = textwrap.wrap(text, self._out.width - 3, break_on_hyphens=False)
        shown = Text("\n".join(f"  {line}" for line in lines))
        shown.stylize(style, 2, 2 + len(word))
        self._out.print(shown)

    def verdict(self, kept: bool, text: str) -> None:
        """Print the result of a scenario."""
        word, style = ("KEPT", "bold green") if kept else ("BROKEN", "bold red")
        self.print(f"{word}: {text}", word, style)

    @contextmanager
    def bars(self, **totals: int) -> Iterator[Show]:
        """Yield a function that shows how much of each task is done; on a terminal only."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("  {task.description:<28}"), BarColumn(), MofNCompleteColumn())
        with Progress(
            *columns, console=self._out, transient=True, disable=not self._out.is_terminal
        ) as progress:
            tasks = [
                progress.add_task(name.replace("_", " "), total=total)
                for name, total in totals.items()
            ]

            def show(*done: int) -> None:
                for task, now in zip(tasks, done, strict=True):
                    progress.update(task, completed=now)

            yield show

"""A part of a page that is made, and not written: between two comments that a page does not
show.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Marked:
    """The part between ``<!-- name: begin -->`` and ``<!-- name: end -->``."""

    name: str

    @property
    def begin(self) -> str:
        return f"<!-- {self.name}: begin -->"

    @property
    def end(self) -> str:
        return f"<!-- {self.name}: end -->"

    def read(self, page: Path) -> str:
        """What is there now."""
        return (
            page.read_text(encoding="utf-8").partition(self.begin)[2].partition(self.end)[0].strip()
        )

    def write(self, page: Path, text: str) -> None:
        """Put lines in its place, or exit if the page has no such part."""
        before, begin, rest = page.read_text(encoding="utf-8").partition(self.begin)
        _, end, after = rest.partition(self.end)
        if not begin or not end:
            raise SystemExit(
                f"{page} has no place for the table: a line {self.begin} and a line {self.end}"
            )
        page.write_text(f"{before}{self.begin}\n{text}{self.end}{after}", encoding="utf-8")

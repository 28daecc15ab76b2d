"""Looks at a page as a browser takes it apart."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """Checks that what is opened is closed, and gathers what is shown and loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: dict[str, int] = {}
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        self.loaded += [
            name
            for name, _ in attrs
            if name in ("src", "href", "xlink:href", "srcset", "data", "onload", "onclick")
        ]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

"""Parses a page as a browser does."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

_LOADS = ("src", "href", "xlink:href", "srcset", "data", "action", "poster", "onload", "onclick")
_VOID = ("meta", "br", "img", "link", "input")


class Page(HTMLParser):
    """Checks that every opened tag is closed; collects the visible text and what the page would
    load.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: dict[str, int] = {}
        self.loaded: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        found = re.search(r"const specs = (.*), config = ", text)
        self.specs: list[dict[str, Any]] = json.loads(found[1]) if found else []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        self.ids += [value or "" for name, value in attrs if name == "id"]
        loaded = [value or "" for name, value in attrs if name in _LOADS]
        self.loaded += [value for value in loaded if not value.startswith("#")]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" not in self.open and "style" not in self.open:
            self.text += data

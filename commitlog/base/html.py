"""HTML of an object, for notebooks: a small table in which each text is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping


def fields_table(caption: str, fields: Mapping[str, object]) -> str:
    """Return a table with a row for each field."""
    return _table(caption, (_cell(name, "th") + _cell(fields[name]) for name in fields))


def rows_table(caption: str, names: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table with a head."""
    head = "".join(_cell(name, "th") for name in names)
    return _table(caption, [head, *("".join(map(_cell, row)) for row in rows)])


def _table(caption: str, rows: Iterable[str]) -> str:
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><caption>{html.escape(caption)}</caption>{body}</table>"


def _cell(value: object, tag: str = "td") -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return f"<{tag}>{html.escape(f'{value:,}' if is_number else str(value))}</{tag}>"

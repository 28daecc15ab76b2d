"""Records as bytes to print: values, JSON lines, and templates."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
import string
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from commitlog import Batch
from commitlog.errors import SequenceError
from commitlog.errors.printable import printable
from commitlog.tools.cli.batch_headers import BatchHeaders, Headers
from commitlog.tools.cli.filter import Pattern, Rows

RecordFormat = Callable[[Batch, Rows], bytes]
"""Returns the bytes of some rows of a batch."""

COLUMNS = ("position", "sequence", "timestamp", "type", "key", "value")
FIELDS = ("position", "sequence", "timestamp", "timestamp_ns", "type", "key", "value")
ENDINGS = {"lines": b"\n", "null": b"\0", "raw": b""}
BYTE_FORMATS = (*ENDINGS, "frames", "jsonl", "csv")
LINE = r"{position}\t{timestamp}\t{type}\t{key}\t{value}\n"
LENGTH = struct.Struct("<I")
_EARLIEST_NS = 1 - (1 << 63)  # to NumPy the number below is no time

_BACKSLASH = re.compile(r"\\(?:([ntr0\\])|x([0-9a-fA-F]{2})|)")
_HEADER = re.compile(r"headers(?:\[(.+)\])?")
_MEANT = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


def format_of(
    name: str,
    zone: dt.tzinfo | None,
    headers: BatchHeaders,
    *,
    escape: bool,
    with_headers: bool = False,
) -> RecordFormat:
    """Return the format of a name of `BYTE_FORMATS`, or of a template. `with_headers` gives CSV a
    column of headers.
    """
    if name == "frames":
        return lambda batch, rows: b"".join(
            [part for value in _values(batch, rows) for part in (LENGTH.pack(len(value)), value)]
        )
    if name == "jsonl":
        return JsonLines(zone, headers)
    if name == "csv":
        return CsvLines(headers if with_headers else None)
    if name in ENDINGS:
        ending = ENDINGS[name]
        return lambda batch, rows: ending.join([*_values(batch, rows), b""])
    return Template(name, zone, headers, escape=escape)


class JsonLines:
    """Format records as JSON, one object per line, with every field; headers if there are any."""

    def __init__(self, zone: dt.tzinfo | None, headers: BatchHeaders) -> None:
        self._zone, self._headers = zone, headers

    def __call__(self, batch: Batch, rows: Rows) -> bytes:
        columns = [column(field, batch, rows, self._zone) for field in FIELDS]
        headers = self._headers.of(batch, rows)
        return "".join(
            [
                json.dumps(json_fields(dict(zip(FIELDS, row, strict=True))) | json_headers(own))
                + "\n"
                for *row, own in zip(*columns, headers, strict=True)
            ]
        ).encode()


def json_headers(headers: Headers | None) -> dict[str, Any]:
    """Return the field of headers: text if all are UTF-8, else base64 and a field that says so;
    null if they are damaged; nothing without headers.
    """
    if headers is None:
        return {"headers": None}
    if not headers:
        return {}
    try:
        return {"headers": {name: content.decode() for name, content in headers.items()}}
    except UnicodeDecodeError:
        encoded = {name: base64.b64encode(each).decode() for name, each in headers.items()}
        return {"headers": encoded, "headers_encoding": "base64"}


def headers_text(headers: Headers | None) -> str:
    """Return headers as a JSON object on a line; bytes that are not UTF-8 are escaped."""
    if headers is None:
        return "null"
    return json.dumps(
        {name: each.decode(errors="backslashreplace") for name, each in headers.items()}
    )


def json_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Replace bytes by text if they are UTF-8, else by base64 and a field `NAME_encoding`."""
    found: dict[str, Any] = {}
    for name, content in fields.items():
        found[name] = content
        if isinstance(content, bytes):
            try:
                found[name] = content.decode()
            except UnicodeDecodeError:
                found[name], found[f"{name}_encoding"] = (
                    base64.b64encode(content).decode(),
                    "base64",
                )
    return found


class CsvLines:
    """Format records as CSV, with text in quotes; a missing key is empty, without quotes. Headers
    are a JSON object, and empty if there are none.
    """

    def __init__(self, headers: BatchHeaders | None = None) -> None:
        self._headers = headers
        names = COLUMNS if headers is None else (*COLUMNS, "headers")
        self.first_line = f"{','.join(names)}\n".encode()

    def __call__(self, batch: Batch, rows: Rows) -> bytes:
        columns = [column(field, batch, rows, dt.UTC) for field in COLUMNS]
        lines = []
        headers = self._texts(batch, rows)
        for position, sequence, time, type, key, value in zip(*columns, strict=True):
            key_text = "" if key is None else _quoted(key, "key", position)
            value_text = _quoted(value, "value", position)
            sequence_text = "" if sequence is None else sequence
            line = f"{position},{sequence_text},{time},{type},{key_text},{value_text}"
            lines.append(f"{line}{next(headers)}\n")
        return "".join(lines).encode()

    def _texts(self, batch: Batch, rows: Rows) -> Iterator[str]:
        """Yield what stands behind the value of each row."""
        if self._headers is None:
            yield from ("" for _ in range(len(rows)))
            return
        positions = batch.positions[rows].tolist()
        for position, found in zip(positions, self._headers.of(batch, rows), strict=True):
            for name, content in (found or {}).items():
                _quoted(content, f"header {name!r}", position)
            yield "," + (_quoted(headers_text(found).encode(), "", 0) if found else "")


def _quoted(content: bytes, what: str, position: int) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise click.ClickException(
            f"the {what} of the record at position {position} is not UTF-8, and CSV holds only "
            "text: use --format jsonl, parquet or arrow"
        ) from None
    return '"' + text.replace('"', '""') + '"'


class Template:
    """Format records by a text with fields in braces, such as ``{position} {value}``.

    ``{headers}`` is a JSON object of all headers, and ``{headers[NAME]}`` the value of one.

    Backslash sequences are those of Python. A field takes the specifications of `str.format`; `x`
    prints a key or a value in hexadecimal digits. `escape` escapes control characters, quotes keys,
    and prints a missing key as ``-``; the matches of `highlight` are printed in color. With a
    `width`, tabs are expanded and lines are cut to so many columns.
    """

    def __init__(
        self,
        text: str,
        zone: dt.tzinfo | None = dt.UTC,
        headers: BatchHeaders | None = None,
        *,
        escape: bool,
        highlight: Sequence[Pattern] = (),
        width: int | None = None,
    ) -> None:
        self._zone, self._headers = zone, headers or BatchHeaders()
        self._escape = escape
        self._highlight = highlight
        self._width = width
        self._fields: list[tuple[str, str]] = []
        line = ""
        for literal, field, spec, conversion in string.Formatter().parse(_unescaped(text)):
            line += literal.replace("%", "%%")
            if field is not None:
                _check_field(field, spec or "", conversion)
                self._fields.append((field, spec or ""))
                line += "%s"
        self._line = line

    def __call__(self, batch: Batch, rows: Rows) -> bytes:
        if not self._fields:
            return (self._line % () * len(rows)).encode("utf-8", "surrogateescape")
        columns = [self._text(field, spec, batch, rows) for field, spec in self._fields]
        text = "".join([self._line % row for row in zip(*columns, strict=True)])
        if self._width is not None:
            text = "\n".join([cut(line, self._width) for line in text.split("\n")])
        return text.encode("utf-8", "surrogateescape")

    def _text(self, field: str, spec: str, batch: Batch, rows: Rows) -> list[str]:
        found: list[Any]
        if named := _HEADER.fullmatch(field):
            headers = self._headers.of(batch, rows)
            if named[1] is None:
                found = [headers_text(each) for each in headers]
            else:
                found = [self._key((each or {}).get(named[1]), spec) for each in headers]
            return found if spec in ("", "x") else [format(content, spec) for content in found]
        found = column(field, batch, rows, self._zone)
        if field == "key":
            found = [self._key(key, spec) for key in found]
        elif field == "value":
            found = [self._value(value, spec) for value in found]
        elif spec:
            return ["" if content is None else format(content, spec) for content in found]
        else:
            return list(map(str, found))
        return found if spec in ("", "x") else [format(content, spec) for content in found]

    def _key(self, key: bytes | None, spec: str) -> str:
        if key is None:
            return "-" if self._escape else ""
        text = key.hex() if spec == "x" else self._bytes(key)
        return '"' + text.replace('"', '\\"') + '"' if self._escape else text

    def _value(self, value: bytes, spec: str) -> str:
        if spec == "x":
            return value.hex()
        text = self._bytes(value)
        matches = [found.span() for pattern in self._highlight for found in pattern.finditer(value)]
        end = len(value)
        for start, stop in sorted(matches, reverse=True):
            if start < stop <= end:  # of two overlapping matches, highlight the later one
                first, last = (len(self._bytes(value[:offset])) for offset in (start, stop))
                match = click.style(text[first:last], fg="red", bold=True)
                text = f"{text[:first]}{match}{text[last:]}"
                end = start
        return text

    def _bytes(self, content: bytes) -> str:
        return escaped(content) if self._escape else content.decode("utf-8", "surrogateescape")


def _check_field(field: str, spec: str, conversion: str | None) -> None:
    named = _HEADER.fullmatch(field)
    if field not in FIELDS and named is None:
        fields = ", ".join((*FIELDS, "headers and headers[NAME]"))
        raise ValueError(f"there is no field {{{field}}}; the fields are {fields}")
    sample: object = "" if named or field in ("timestamp", "key", "value") else 0
    if conversion:
        raise ValueError(f"{{{field}!{conversion}}} has a conversion: leave out !{conversion}")
    if spec != "x" or not (field in ("key", "value") or (named and named[1])):
        try:
            format(sample, spec)
        except ValueError:
            raise ValueError(f"{spec!r} is not a format of the field {{{field}}}") from None


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match[0] == "\\":
            raise ValueError("a backslash must precede n, t, r, 0, xNN or another backslash")
        return _MEANT[match[1]] if match[1] else _byte(int(match[2], 16))

    return _BACKSLASH.sub(character, text)


def _byte(code: int) -> str:
    """Return the character that becomes this byte when it is encoded with surrogateescape."""
    return bytes([code]).decode("utf-8", "surrogateescape")


# --- columns --------------------------------------------------------------------------------------


def cut(line: str, width: int) -> str:
    """Return a line, at most so many columns wide on a terminal."""
    from rich.console import Console
    from rich.text import Text

    text = Text.from_ansi(line)
    text.expand_tabs(8)
    text.truncate(width, overflow="ellipsis")
    segments = text.render(Console(), end="")
    return "".join(
        [part.text if part.style is None else part.style.render(part.text) for part in segments]
    )


def column(field: str, batch: Batch, rows: Rows, zone: dt.tzinfo | None) -> list[Any]:
    """Return a field of some rows; bytes and numbers are not turned into text."""
    found: list[Any]
    match field:
        case "timestamp":
            found = times_text(batch.timestamps_ns[rows], zone)
        case "timestamp_ns":
            found = batch.timestamps_ns[rows].tolist()
        case "key":
            found = [batch.key(row) if batch.keyed[row] else None for row in rows.tolist()]
        case "value":
            found = _values(batch, rows)
        case _:
            try:
                found = getattr(batch, f"{field}s")[rows].tolist()
            except SequenceError:
                found = [None] * len(rows)
    return found


def _values(batch: Batch, rows: Rows) -> list[bytes]:
    return (
        batch.values() if len(rows) == len(batch) else [batch.value(row) for row in rows.tolist()]
    )


def times_text(timestamps_ns: npt.NDArray[np.int64], zone: dt.tzinfo | None = dt.UTC) -> list[str]:
    """Return instants in ISO 8601 with nanoseconds; with ``Z`` if the zone is UTC. The zone None is
    that of this machine.
    """
    moments = np.maximum(timestamps_ns, _EARLIEST_NS).astype("datetime64[ns]")
    if zone is dt.UTC:
        return [f"{text}Z" for text in np.datetime_as_string(moments).tolist()]
    texts = np.datetime_as_string(moments, timezone="local" if zone is None else zone).tolist()
    return [f"{text[:-2]}:{text[-2:]}" for text in texts]


def time_text(timestamp_ns: int) -> str:
    """Return an instant in ISO 8601, in UTC."""
    return times_text(np.array([timestamp_ns]))[0]


def escaped(content: bytes) -> str:
    """Return bytes as text without control characters.

    Printable UTF-8 is unchanged. A backslash is doubled; bytes that are not UTF-8 and control
    characters become ``\\xNN``; other unprintable characters become ``\\uNNNN``. Different contents
    have different texts.
    """
    text = (content.replace(b"\\", b"\\\\") if b"\\" in content else content).decode(
        "utf-8", "backslashreplace"
    )
    return printable(text)

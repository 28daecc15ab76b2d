"""Records as lines, for people and for programs."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from commitlog.cli.moment import Clock
from commitlog.cli.pattern import Rows, values_of
from commitlog.tail.batch import Batch

FIELDS = ("position", "sequence", "timestamp", "type", "key", "value")
FIELDS_DEFAULT = ("position", "timestamp", "type", "key", "value")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_DOUBTFUL = re.compile(r"[^ -~]")
_INDENT = "    "
_DUMPED = 16  # bytes a line


class Row(NamedTuple):
    """A record that is to be printed."""

    position: int
    timestamp_ns: int
    type: int
    key: bytes | None
    value: bytes
    sequence: int | None


def rows_of(batch: Batch, rows: Rows, *, sequences: bool) -> Iterable[Row]:
    """Some records of a batch; their sequences are counted if they are wanted."""
    return map(
        Row,
        batch.positions[rows].tolist(),
        batch.timestamps_ns[rows].tolist(),
        batch.types[rows].tolist(),
        map(batch.key, rows.tolist()) if batch.keyed.any() else [None] * len(rows),
        values_of(batch, rows),
        batch.sequences[rows].tolist() if sequences else [None] * len(rows),
    )


class Form(Protocol):
    """A way to print records."""

    def line(self, row: Row) -> bytes:
        """A record, and its line's end."""


class TextForm:
    """The fields, with tabs in between.

    A key stands in quotes, since it may be empty, which is not the same as none (-).

    Parameters
    ----------
    fields : sequence of str
        Which, and in which order.
    clock : Clock
        Prints timestamps.
    in_hex : bool
        Keys and values in hexadecimal digits.
    multi_line : bool
        The value below the others, in lines of its own.
    """

    def __init__(self, fields: Sequence[str], clock: Clock, *, in_hex: bool = False, multi_line: bool = False) -> None:
        self._fields = [field for field in fields if not multi_line or field != "value"]
        self._multi_line = multi_line
        self._in_hex = in_hex
        self._clock = clock

    def line(self, row: Row) -> bytes:
        told = "\t".join([self._told(field, row) for field in self._fields])
        if not self._multi_line:
            return f"{told}\n".encode()
        below = _dumped(row.value) if self._in_hex else _lines(row.value)
        return "".join([f"{line}\n" for line in ([told] if self._fields else []) + below]).encode()

    def _told(self, field: str, row: Row) -> str:  # noqa: PLR0911 - one for each field
        if field == "position":
            return str(row.position)
        if field == "value":
            return row.value.hex() if self._in_hex else escaped(row.value)
        if field == "timestamp":
            return self._clock.text(row.timestamp_ns)
        if field == "type":
            return str(row.type)
        if field == "sequence":
            return str(row.sequence)
        if row.key is None:
            return "-"
        return f'"{row.key.hex()}"' if self._in_hex else '"' + escaped(row.key).replace('"', '\\"') + '"'


def _lines(value: bytes) -> list[str]:
    """A value with its own line breaks and tabs."""
    return [_INDENT + "\t".join(map(escaped, line.split(b"\t"))) for line in value.removesuffix(b"\n").split(b"\n")] if value else []


def _dumped(value: bytes) -> list[str]:
    """Offset, sixteen bytes, and what is printable of them."""
    lines = []
    for start in range(0, len(value), _DUMPED):
        piece = value[start : start + _DUMPED]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
        lines.append(f"{_INDENT}{start:08x}  {piece[:8].hex(' '):<23}  {piece[8:].hex(' '):<23}  |{shown}|")
    return lines


class JsonForm:
    """One JSON object a line. Bytes are text where they are UTF-8, else base64, and then a field beside them says so.

    Parameters
    ----------
    fields : sequence of str
        Which, and in which order.
    clock : Clock or None
        Prints timestamps beside the nanoseconds, if they are wanted.
    """

    def __init__(self, fields: Sequence[str], clock: Clock | None) -> None:
        self._fields = fields
        self._clock = clock

    def line(self, row: Row) -> bytes:
        made: dict[str, object] = {}
        for field in self._fields:
            found = row.timestamp_ns if field == "timestamp" else getattr(row, field)
            if isinstance(found, bytes):
                _put(made, field, found)
            elif field == "timestamp":
                made["timestamp_ns"] = found
                if self._clock is not None:
                    made["timestamp"] = self._clock.text(row.timestamp_ns)
            else:
                made[field] = found
        return json.dumps(made).encode() + b"\n"


def _put(fields: dict[str, object], name: str, content: bytes) -> None:
    try:
        fields[name] = content.decode()
    except UnicodeDecodeError:
        fields[name] = base64.b64encode(content).decode()
        fields[f"{name}_encoding"] = "base64"


def escaped(content: bytes) -> str:
    """Bytes as text without anything that a terminal would act on; the bytes can be told from it.

    Printable UTF-8 stays as it is. A backslash is doubled, bytes that are not UTF-8 and control characters become ``\\xNN``, other
    characters that are not printable ``\\uNNNN``.
    """
    text = (content.replace(b"\\", b"\\\\") if b"\\" in content else content).decode("utf-8", "backslashreplace")
    return text if text.isprintable() else _DOUBTFUL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return _NAMED.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

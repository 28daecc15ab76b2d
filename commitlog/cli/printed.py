"""Records as lines, for people and for programs."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as _quoted
from typing import Protocol

from commitlog.cli.clock import Clock
from commitlog.cli.filter import Rows
from commitlog.tail.batch import Batch

FIELDS = ("position", "sequence", "timestamp", "type", "key", "value")
FIELDS_DEFAULT = ("position", "timestamp", "type", "key", "value")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_DOUBTFUL = re.compile(r"[^ -~]")
_INDENT = "    "
_DUMPED = 16  # bytes a line


@dataclass(frozen=True)
class Shown:
    """Records that are to be printed, as columns of equal length."""

    positions: list[int]
    timestamps_ns: list[int]
    types: list[int]
    keys: list[bytes | None]
    values: list[bytes]
    sequences: list[int]

    @classmethod
    def of(cls, batch: Batch, rows: Rows, *, sequences: bool) -> Shown:
        """Some records of a batch. Their sequences are counted if they are wanted, else there are
        none.
        """
        return cls(
            positions=batch.positions[rows].tolist(),
            timestamps_ns=batch.timestamps_ns[rows].tolist(),
            types=batch.types[rows].tolist(),
            keys=[batch.key(row) for row in rows.tolist()]
            if batch.keyed.any()
            else [None] * len(rows),
            values=batch.values()
            if len(rows) == len(batch)
            else [batch.value(row) for row in rows.tolist()],
            sequences=batch.sequences[rows].tolist() if sequences else [],
        )

    def __len__(self) -> int:
        return len(self.positions)

    def one(self, row: int) -> Shown:
        """One of the records."""
        only = slice(row, row + 1)
        return Shown(
            self.positions[only],
            self.timestamps_ns[only],
            self.types[only],
            self.keys[only],
            self.values[only],
            self.sequences[only],
        )


class Form(Protocol):
    """A way to print records."""

    def text(self, shown: Shown) -> bytes:
        """Records, each with its line's end."""


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

    def __init__(
        self, fields: Sequence[str], clock: Clock, *, in_hex: bool = False, multi_line: bool = False
    ) -> None:
        self._fields = [field for field in fields if not multi_line or field != "value"]
        self._multi_line = multi_line
        self._in_hex = in_hex
        self._clock = clock

    def text(self, shown: Shown) -> bytes:
        lines: Iterable[str] = map(
            "\t".join, zip(*[self._column(field, shown) for field in self._fields], strict=True)
        )
        if self._multi_line:
            below = [dumped(value) if self._in_hex else _lines(value) for value in shown.values]
            above = [[line] for line in lines] or [[] for _ in below]
            lines = [
                line for first, rest in zip(above, below, strict=True) for line in first + rest
            ]
        return "".join([f"{line}\n" for line in lines]).encode()

    def _column(self, field: str, shown: Shown) -> Iterable[str]:
        match field:
            case "position":
                return map(str, shown.positions)
            case "sequence":
                return map(str, shown.sequences)
            case "timestamp":
                return map(self._clock.text, shown.timestamps_ns)
            case "type":
                return map(str, shown.types)
            case "key":
                return map(self._key, shown.keys)
        return map(bytes.hex if self._in_hex else escaped, shown.values)

    def _key(self, key: bytes | None) -> str:
        if key is None:
            return "-"
        return f'"{key.hex()}"' if self._in_hex else '"' + escaped(key).replace('"', '\\"') + '"'


def _lines(value: bytes) -> list[str]:
    """A value with its own line breaks and tabs."""
    return (
        [
            _INDENT + "\t".join(map(escaped, line.split(b"\t")))
            for line in value.removesuffix(b"\n").split(b"\n")
        ]
        if value
        else []
    )


def dumped(value: bytes) -> list[str]:
    """Offset, sixteen bytes, and what is printable of them."""
    lines = []
    for start in range(0, len(value), _DUMPED):
        piece = value[start : start + _DUMPED]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
        lines.append(
            f"{_INDENT}{start:08x}  {piece[:8].hex(' '):<23}  {piece[8:].hex(' '):<23}  |{shown}|"
        )
    return lines


class JsonForm:
    """One JSON object a line. Bytes are text where they are UTF-8, else base64, and then a field
    beside them says so.

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

    def text(self, shown: Shown) -> bytes:
        rows = map(
            ", ".join, zip(*[self._column(field, shown) for field in self._fields], strict=True)
        )
        return "".join([f"{{{row}}}\n" for row in rows]).encode()

    def _column(self, field: str, shown: Shown) -> Iterable[str]:
        match field:
            case "position":
                return [f'"position": {position}' for position in shown.positions]
            case "sequence":
                return [f'"sequence": {sequence}' for sequence in shown.sequences]
            case "timestamp":
                return map(self._times, shown.timestamps_ns)
            case "type":
                return [f'"type": {type}' for type in shown.types]
            case "key":
                return ['"key": null' if key is None else _member("key", key) for key in shown.keys]
        return [_member("value", value) for value in shown.values]

    def _times(self, timestamp_ns: int) -> str:
        printed = (
            "" if self._clock is None else f', "timestamp": "{self._clock.text(timestamp_ns)}"'
        )
        return f'"timestamp_ns": {timestamp_ns}{printed}'


def _member(name: str, content: bytes) -> str:
    try:
        return f'"{name}": {_quoted(content.decode())}'
    except UnicodeDecodeError:
        return f'"{name}": "{base64.b64encode(content).decode()}", "{name}_encoding": "base64"'


def escaped(content: bytes) -> str:
    """Bytes as text without anything that a terminal would act on; the bytes can be told from it.

    Printable UTF-8 stays as it is. A backslash is doubled, bytes that are not UTF-8 and control
    characters become ``\\xNN``, other characters that are not printable ``\\uNNNN``.
    """
    text = (content.replace(b"\\", b"\\\\") if b"\\" in content else content).decode(
        "utf-8", "backslashreplace"
    )
    return text if text.isprintable() else _DOUBTFUL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return _NAMED.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

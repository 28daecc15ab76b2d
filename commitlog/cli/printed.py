"""Records as lines, for people and for programs."""

from __future__ import annotations

import base64
import json
import re
import time
from typing import Protocol

from commitlog._kernel.reader import Record

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_DOUBTFUL = re.compile(r"[^ -~]")


class Form(Protocol):
    """A way to print records."""

    def line(self, record: Record) -> bytes:
        """A record and its line's end."""


class TextForm:
    """Position, timestamp, type, key and value, with tabs in between.

    A key stands in quotes, since it may be empty, which is not the same as none (-).
    """

    def __init__(self) -> None:
        self._last_ns = -1
        self._last = ""

    def line(self, record: Record) -> bytes:
        key = "-" if record.key is None else '"' + escaped(record.key).replace('"', '\\"') + '"'
        stamp = self._time(record.timestamp_ns)
        return f"{record.position}\t{stamp}\t{record.type}\t{key}\t{escaped(record.value)}\n".encode()

    def _time(self, timestamp_ns: int) -> str:
        if timestamp_ns != self._last_ns:  # coarse timestamps, and those of a batch, repeat
            second, rest_ns = divmod(timestamp_ns, 10**9)
            clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._last_ns, self._last = timestamp_ns, f"{clock}.{rest_ns:09d}Z"
        return self._last


class JsonForm:
    """One JSON object a line. Bytes are text where they are UTF-8, else base64, and then a field beside them says so."""

    def line(self, record: Record) -> bytes:
        fields: dict[str, object] = {"position": record.position, "timestamp_ns": record.timestamp_ns, "type": record.type}
        if record.key is None:
            fields["key"] = None
        else:
            _put(fields, "key", record.key)
        _put(fields, "value", record.value)
        return json.dumps(fields).encode() + b"\n"


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

"""Messages as lines that a person reads and that YAML reads, too."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from commitlog import Batch
from commitlog.tools.cli.decoded import BatchDecoder, json_of
from commitlog.tools.cli.filter import Rows
from commitlog.tools.cli.record_format import column, cut, escaped, times_text
from commitlog.topics.history import History

# YAML reads each of these words as something else than text.
_WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
_DEEPEST = 60  # columns of indentation; what is nested deeper is JSON in one line
_PLAIN = re.compile(r"[A-Za-z_](?:[\w ./+-]*[\w/+])?", re.ASCII)


class MessageLines:
    """Format each message as a document of YAML: its topic, and its fields below.

    A comment behind ``---`` has position, timestamp and key; if the decoder reads histories, one
    for each log on the message's way follows. A record that is no message is text in
    quotes.
    """

    def __init__(
        self, decoder: BatchDecoder, zone: dt.tzinfo | None, width: int | None = None
    ) -> None:
        self._decoder = decoder
        self._zone = zone
        self._width = width

    def __call__(self, batch: Batch, rows: Rows) -> bytes:
        columns = [column(name, batch, rows, self._zone) for name in ("position", "timestamp")]
        keys = column("key", batch, rows, self._zone)
        lines: list[str] = []
        for row, position, time, key, found in zip(
            rows.tolist(), *columns, keys, self._decoder.decode(batch, rows), strict=True
        ):
            name = key if found is None else found.key
            lines.append(f"--- # {position} {time}{'' if name is None else ' ' + _quoted(name)}")
            if found is None:
                lines.append(_quoted(batch.value(row)))
                continue
            if found.history is not None:
                lines += self._way(found.history)
            lines += _entry(f"{_scalar(found.topic)}:", found.message, "  ")
        if self._width is not None:
            lines = [cut(line, self._width) for line in lines]
        return "".join([f"{line}\n" for line in lines]).encode("utf-8", "surrogateescape")

    def _way(self, history: History) -> Iterator[str]:
        if history.earlier:
            yield f"# through {history.earlier} earlier logs"
        for hop in history.hops:
            written, read = times_text(np.array([hop.written_ns, hop.read_ns]), self._zone)
            yield f"# through {hop.source} at {hop.position}, written {written}, read {read}"


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    """Yield the lines of a value behind its name, or below it."""
    if _is_short(value):
        yield f"{head} {_short(value)}"
    elif len(indent) > _DEEPEST:
        yield f"{head} {_in_one_line(value)}"
    else:
        yield head
        yield from _block(value, indent)


def _in_one_line(value: Any) -> str:
    try:
        return json_of(value)
    except ValueError as error:
        return _quoted(str(error).encode())


def _block(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _entry(f"{indent}{_scalar(name)}:", part, f"{indent}  ")
    else:
        for part in value:
            yield from _entry(f"{indent}-", part, f"{indent}  ")


def _is_short(value: Any) -> bool:
    if isinstance(value, dict):
        return not value
    if isinstance(value, list | tuple):
        return not any(isinstance(part, dict | list | tuple) for part in value)
    return True


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_scalar, value))}]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bytes):
        value = base64.b64encode(value).decode()
    elif isinstance(value, dt.datetime | dt.date | dt.time):
        value = value.isoformat()
    text = str(value)
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return _quoted(text.encode("utf-8", "surrogatepass"))


def _number(value: float) -> str:
    text = repr(value)
    if text.lstrip("-") in ("inf", "nan"):
        return text.replace("inf", ".inf").replace("nan", ".nan")
    # YAML 1.1 reads such a number without a point as text.
    return text if "." in text else text.replace("e", ".0e")


def _quoted(content: bytes) -> str:
    return '"' + escaped(content).replace('"', '\\"') + '"'

"""Bounds of Avro: check the bytes of a message before they are decoded.

The decoder is compiled. A short message can stand for a deep nest, which overflows its stack, for a
long array of values without bytes, or for a decimal number that takes minutes to convert.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_DEEPEST = 100
_MOST_DIGITS = 1000  # of a decimal number
_FEW_EMPTY = 16
_MOST_EMPTY = 1000  # values without bytes, beyond one for each byte of the message
_WIDTHS = {"float": 4, "double": 8, "boolean": 1}


class AvroBounds:
    """Check messages of a schema.

    Parameters
    ----------
    schema : object
        As fastavro has parsed it.

    Attributes
    ----------
    are_needed : bool
        Whether a message of this schema can be larger than a multiple of its bytes.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}
        self.are_needed = False
        self._sizes: dict[str, tuple[int, int]] = {}
        self._look(schema, (), 0)
        self.are_needed |= self._least(schema)[1] > _FEW_EMPTY

    def check(self, value: bytes) -> None:
        """Raise ValueError if a message is out of bounds."""
        if not self.are_needed:
            return
        if _Message(self._named, value).end(self._schema, 0, 0) != len(value):
            raise ValueError("the message has another length than its schema says")

    def _look(self, form: Any, above: tuple[str, ...], depth: int) -> None:
        """Note the named types, and whether bounds are needed."""
        if depth > _DEEPEST:
            raise ValueError(f"the schema has more than {_DEEPEST} levels")
        if isinstance(form, str):
            self.are_needed |= form in above
            return
        parts, name = _parts_of(form), form.get("name") if isinstance(form, dict) else None
        if name is not None:
            self._named[name] = form
            above = (*above, name)
        if isinstance(form, dict):
            self.are_needed |= form.get("logicalType") == "decimal"
        for part in parts:
            self._look(part, above, depth + 1)
        if isinstance(form, dict) and form.get("type") == "array":
            size, empty = self._least(form["items"])
            self.are_needed |= size == 0 or empty > _FEW_EMPTY
        elif isinstance(form, dict) and form.get("type") == "map":
            self.are_needed |= self._least(form["values"])[1] > _FEW_EMPTY

    def _least(self, form: Any) -> tuple[int, int]:
        """Return how many bytes a value has at least, and how many values without bytes are in it.
        Records that have others twice have more of them than the schema is long.
        """
        name = form if isinstance(form, str) else None
        form = self._named.get(form, form) if isinstance(form, str) else form
        if isinstance(form, dict):
            name = form.get("name")
        if name is not None and name in self._sizes:
            return self._sizes[name]
        if name in self._named:
            self._sizes[name] = 1, 0  # for a record within itself, which is always checked
        found = self._sum(form)
        if name in self._named:
            self._sizes[name] = found
        return found

    def _sum(self, form: Any) -> tuple[int, int]:
        if isinstance(form, list):
            return 1, max((self._least(each)[1] for each in form), default=0)
        kind = form if isinstance(form, str) else form["type"]
        if kind in ("record", "error"):
            parts = [self._least(field["type"]) for field in form["fields"]]
            size = sum(each[0] for each in parts)
            return size, sum(each[1] for each in parts) + (not parts)
        if not isinstance(kind, str) or (isinstance(form, dict) and kind in self._named):
            return self._least(kind)
        size = form["size"] if kind == "fixed" else int(kind != "null")
        return size, int(size == 0)


class _Message:
    """The bytes of a message, which are walked through once."""

    def __init__(self, named: dict[str, Any], value: bytes) -> None:
        self._named = named
        self._value = value
        self._empty = len(value) + _MOST_EMPTY  # values without bytes that it may still have

    def end(self, form: Any, at: int, depth: int) -> int:
        """Return where a value ends."""
        value = self._value
        if depth > _DEEPEST:
            raise ValueError(f"the message has more than {_DEEPEST} levels")
        form = self._named.get(form, form) if isinstance(form, str) else form
        if isinstance(form, list):
            index, at = _number(value, at)
            if not 0 <= index < len(form):
                raise ValueError(f"the union has no alternative {index}")
            return self.end(form[index], at, depth + 1)
        kind = form if isinstance(form, str) else form["type"]
        if not isinstance(kind, str) or kind in self._named:
            return self.end(kind, at, depth + 1)
        if kind in ("array", "map"):
            return self._blocks(form, at, depth)
        if kind in ("record", "error"):
            for field in form["fields"]:
                at = self.end(field["type"], at, depth + 1)
            return at if form["fields"] else self._empty_at(at)
        end = self._leaf(form, kind, at)
        return end if end > at else self._empty_at(at)

    def _empty_at(self, at: int) -> int:
        self._empty -= 1
        if self._empty < 0:
            raise ValueError(f"too many values do not fit {len(self._value)} bytes")
        return at

    def _leaf(self, form: Any, kind: str, at: int) -> int:
        value = self._value
        if kind in ("bytes", "string", "fixed"):
            length = form["size"] if kind == "fixed" else 0
            if kind != "fixed":
                length, at = _number(value, at)
            if not 0 <= length <= len(value) - at:
                raise ValueError(f"a field of {length} bytes is longer than the message")
            if isinstance(form, dict) and form.get("logicalType") == "decimal":
                digits = min(int(form.get("precision", 0)), _MOST_DIGITS)
                if length > digits // 2 + 9:
                    raise ValueError(f"a decimal number of {digits} digits has {length} bytes")
            return at + length
        if kind in _WIDTHS:
            return at + _WIDTHS[kind]
        return at if kind == "null" else _number(value, at)[1]

    def _blocks(self, form: Any, at: int, depth: int) -> int:
        """Return where an array or a map ends."""
        value = self._value
        while True:
            count, at = _number(value, at)
            if count == 0:
                return at
            if count < 0:  # the size of the block in bytes follows
                count = -count
                _, at = _number(value, at)
            if count > len(value) + _MOST_EMPTY:
                raise ValueError(f"{count} items do not fit a message of {len(value)} bytes")
            for _ in range(count):
                if form["type"] == "map":
                    at = self._leaf("string", "string", at)
                    at = self.end(form["values"], at, depth + 1)
                else:
                    at = self.end(form["items"], at, depth + 1)


def _parts_of(form: Any) -> list[Any]:
    if isinstance(form, list):
        return form
    parts = [form[name] for name in ("items", "values") if name in form]
    parts += [field["type"] for field in form.get("fields", ())]
    return parts if isinstance(form["type"], str) else [*parts, form["type"]]


def _number(value: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends."""
    number = shift = 0
    while True:
        if at >= len(value) or shift > 63:
            raise ValueError("a number is cut off or too long")
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at


def bounded(schema: Any, read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return a decoder that checks each message first, if its schema needs that."""
    bounds = AvroBounds(schema)
    if not bounds.are_needed:
        return read

    def decode(value: bytes) -> Any:
        bounds.check(value)
        return read(value)

    return decode

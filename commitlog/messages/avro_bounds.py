"""Bounds of Avro: check the bytes of a message before they are decoded.

The decoder is compiled. A short message can stand for a deep nest, which overflows its stack, for a
long array of values without bytes, or for a decimal number that takes minutes to convert.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_DEEPEST = 100
_MOST_DIGITS = 1000  # of a decimal number
_MOST_EMPTY = 1000  # items without bytes, beyond one for each byte of the message
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
        self._look(schema, (), 0)

    def check(self, value: bytes) -> None:
        """Raise ValueError if a message is out of bounds."""
        if self.are_needed and self._end(self._schema, value, 0, 0) != len(value):
            raise ValueError("the message has another length than its schema says")

    # --- the schema -------------------------------------------------------------------------------

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
            self.are_needed |= self._may_be_empty(form["items"])

    def _may_be_empty(self, form: Any) -> bool:
        """Return whether a value may have no bytes."""
        form = self._named.get(form, form) if isinstance(form, str) else form
        if isinstance(form, list):
            return False
        kind = form if isinstance(form, str) else form["type"]
        if kind in ("record", "error"):
            return all(self._may_be_empty(field["type"]) for field in form["fields"])
        if not isinstance(kind, str) or (isinstance(form, dict) and kind in self._named):
            return self._may_be_empty(kind)
        return kind == "null" or (kind == "fixed" and form["size"] == 0)

    # --- a message --------------------------------------------------------------------------------

    def _end(self, form: Any, value: bytes, at: int, depth: int) -> int:
        """Return where a value ends."""
        if depth > _DEEPEST:
            raise ValueError(f"the message has more than {_DEEPEST} levels")
        form = self._named.get(form, form) if isinstance(form, str) else form
        if isinstance(form, list):
            index, at = _number(value, at)
            if not 0 <= index < len(form):
                raise ValueError(f"the union has no alternative {index}")
            return self._end(form[index], value, at, depth + 1)
        kind = form if isinstance(form, str) else form["type"]
        if not isinstance(kind, str) or kind in self._named:
            return self._end(kind, value, at, depth + 1)
        if kind in ("array", "map"):
            return self._blocks(form, value, at, depth)
        if kind in ("record", "error"):
            for field in form["fields"]:
                at = self._end(field["type"], value, at, depth + 1)
            return at
        return self._leaf(form, kind, value, at)

    def _leaf(self, form: Any, kind: str, value: bytes, at: int) -> int:
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

    def _blocks(self, form: Any, value: bytes, at: int, depth: int) -> int:
        """Return where an array or a map ends."""
        total = 0
        while True:
            count, at = _number(value, at)
            if count == 0:
                return at
            if count < 0:  # the size of the block in bytes follows
                count = -count
                _, at = _number(value, at)
            total += count
            if total > len(value) + _MOST_EMPTY:
                raise ValueError(f"{total} items do not fit a message of {len(value)} bytes")
            for _ in range(count):
                if form["type"] == "map":
                    at = self._leaf("string", "string", value, at)
                    at = self._end(form["values"], value, at, depth + 1)
                else:
                    at = self._end(form["items"], value, at, depth + 1)


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

"""Samples of Avro: values of a schema, to find out which other schemas can read its messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_SAMPLES = 16
_DEEPEST = 20  # beyond that, arrays and maps are empty, and unions null if they may be
_MOST_LEVELS = 100
_MOST_VALUES = 100_000  # of one sample
_MOST_BYTES = 1 << 24  # of a fixed value
_PLAIN: dict[str, Any] = {
    "null": None,
    "boolean": False,
    "int": 0,
    "long": 0,
    "float": 0.0,
    "double": 0.0,
    "bytes": b"",
    "string": "",
}
_UUID = "0" * 32


def samples_of(schema: Any) -> Iterator[Any]:
    """Yield values of a schema. Together they have each alternative of its unions, and each symbol
    of its enums, up to a number.

    Parameters
    ----------
    schema : object
        As fastavro has parsed it.

    Raises
    ------
    ValueError
        A value of the schema is too large or too deep.
    """
    for index in range(_SAMPLES):
        yield _Sample(index).of(schema, 0)


class _Sample:
    def __init__(self, index: int) -> None:
        self._index = index
        self._named: dict[str, Any] = {}
        self._left = _MOST_VALUES

    def of(self, form: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _MOST_LEVELS:
            raise ValueError("a value of the schema is too large or too deep")
        if isinstance(form, list):
            return self.of(self._alternative(form, depth), depth + 1)
        if isinstance(form, str):
            return _PLAIN[form] if form in _PLAIN else self.of(self._named[form], depth + 1)
        if "name" in form:
            self._named[form["name"]] = form
        kind = form["type"]
        if not isinstance(kind, str) or kind in self._named:
            return self.of(kind, depth + 1)
        return self._of_kind(form, kind, depth)

    def _of_kind(self, form: dict[str, Any], kind: str, depth: int) -> Any:
        if kind == "array":
            return [] if depth > _DEEPEST else [self.of(form["items"], depth + 1)]
        if kind == "map":
            return {} if depth > _DEEPEST else {"": self.of(form["values"], depth + 1)}
        if kind in ("record", "error"):
            return {each["name"]: self.of(each["type"], depth + 1) for each in form["fields"]}
        return self._leaf(form, kind)

    def _alternative(self, union: list[Any], depth: int) -> Any:
        if depth > _DEEPEST and "null" in union:
            return "null"
        return union[self._index % len(union)]

    def _leaf(self, form: dict[str, Any], kind: str) -> Any:
        if kind == "enum":
            return form["symbols"][self._index % len(form["symbols"])]
        if kind == "fixed":
            if form["size"] > _MOST_BYTES:
                raise ValueError(f"a value of the schema has {form['size']} bytes")
            return bytes(form["size"])
        return _UUID if form.get("logicalType") == "uuid" else _PLAIN[kind]

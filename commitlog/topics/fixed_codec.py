"""The codec of message classes with a fixed layout."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from commitlog.errors import MessageError, MessageValueError
from commitlog.topics.codec import Decode, conflict, other_codec
from commitlog.topics.compiled.messages import EnumField, Field, MessageBytes, message_from
from commitlog.topics.schema import Schema

T = TypeVar("T")

_CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "float32": "f",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float64": "d",
    "datetime": "q",
}
_ARRAY = re.compile(r"(\w+)\[(\d+)\]")


class FixedCodec(Generic[T]):
    """Messages of a `commitlog.bus.Message` class, in the bytes of its layout.

    Parameters
    ----------
    message_class : type
        Derived from `bus.Message`.
    """

    name = "fixed"

    def __init__(self, message_class: type[T]) -> None:
        layout = getattr(message_class, "layout", None)
        if layout is None or not issubclass(message_class, MessageBytes):
            raise MessageError(
                f"{message_class!r} has no fixed layout: derive it from bus.Message, or use the "
                'codec "json" or "msgpack"'
            )
        self.message_class = message_class
        self.form: dict[str, Any] = {
            "title": layout.name,
            "size": layout.size,
            "fields": [_described(field) for field in layout.fields],
        }

    def encode(self, message: T, /) -> bytes:
        """Return the message's bytes."""
        return bytes(message)  # type: ignore[call-overload, no-any-return]

    def decoder(self, schema: Schema, /) -> Decode[T]:
        """Return what decodes messages of a schema; fields may have moved.

        Raises
        ------
        SchemaError
            A field is missing or of another kind: the error names it.
        """
        if schema.codec != self.name:
            raise other_codec(schema, self.name)
        _check_form(schema.form)
        kind: Any = self.message_class
        theirs = {field["name"]: field for field in schema.form["fields"]}
        moves = []
        for field in self.form["fields"]:
            other = theirs.get(field["name"])
            if other is None:
                raise conflict(
                    schema,
                    self.form,
                    f"$.{field['name']}",
                    "the messages do not have the field, and a fixed layout has no defaults",
                )
            if (other["kind"], other["length"]) != (field["kind"], field["length"]):
                raise conflict(
                    schema,
                    self.form,
                    f"$.{field['name']}",
                    f"{other['kind']} cannot be read as {field['kind']}",
                )
            why = _changed_member(field.get("members", {}), other.get("members", {}))
            if why is not None:
                raise conflict(schema, self.form, f"$.{field['name']}", why)
            moves.append((field["offset"], other["offset"], field["length"]))
        if schema.form["size"] == self.form["size"] and all(to == at for to, at, _ in moves):
            return _checked(kind)
        return _moved(kind, moves, self.form["size"], schema.form["size"])


def plain_decoder(schema: Schema) -> Decode[Any]:
    """Return what decodes messages to dicts."""
    _check_form(schema.form)
    readers = {field["name"]: _reader(field) for field in schema.form["fields"]}
    size = schema.form["size"]

    def decode(value: bytes) -> dict[str, Any]:
        if len(value) != size:
            raise ValueError(f"the message has {len(value)} bytes, not {size}")
        return {name: read(value) for name, read in readers.items()}

    return decode


def _check_form(form: dict[str, Any]) -> None:
    """Raise ValueError if the fields of a layout do not fit it. It may come from any program."""
    for field in form["fields"]:
        kind, offset, length = str(field["kind"]), field["offset"], field["length"]
        if not 0 <= offset <= offset + length <= form["size"]:
            raise ValueError(f"the field {field['name']!r:.100} is not within the message")
        array = _ARRAY.fullmatch(kind)
        code = _CODES.get(kind.partition(" ")[0] if array is None else array[1])
        count = 1 if array is None else int(array[2])
        least = 0 if code is None else count * struct.calcsize(f"<{code}")
        if length < least or (kind.startswith("bytes up to") and length < 2):
            raise ValueError(f"the field {field['name']!r:.100} has {length} bytes")


def _described(field: Field) -> dict[str, Any]:
    found = {
        "name": field.name,
        "kind": field.kind,
        "offset": field.offset,
        "length": field.length,
    }
    if isinstance(field, EnumField):
        found["members"] = {each.name: each.value for each in field.members}
    return found


def _changed_member(ours: dict[str, int], theirs: dict[str, int]) -> str | None:
    """Return what is wrong with the members of an enum; None if each has its number."""
    for name, value in theirs.items():
        if ours.get(name, value) != value:
            return f"{name} was {value!r}, and is {ours[name]!r} in the class"
    return None


def _checked(kind: Any) -> Decode[Any]:
    return lambda value: message_from(kind, value)


def _moved(kind: Any, moves: list[tuple[int, int, int]], size: int, their_size: int) -> Decode[Any]:
    def decode(value: bytes) -> Any:
        if len(value) != their_size:
            raise MessageValueError(f"the message has {len(value)} bytes, not {their_size}")
        content = bytearray(size)
        for to, at, length in moves:
            content[to : to + length] = value[at : at + length]
        return message_from(kind, bytes(content))

    return decode


def _reader(field: dict[str, Any]) -> Callable[[bytes], Any]:
    kind, offset, length = field["kind"], field["offset"], field["length"]
    end = offset + length
    array = _ARRAY.fullmatch(kind)
    if array is not None:
        items = struct.Struct(f"<{array[2]}{_CODES[array[1]]}")
        return lambda value: list(items.unpack_from(value, offset))
    if kind == "str":
        return lambda value: value[offset:end].partition(b"\0")[0].decode()
    if kind.startswith("bytes up to"):
        return lambda value: _sized(value[offset:end])
    code = _CODES.get(kind.partition(" ")[0])  # an enum is its number
    if code is None:
        return lambda value: value[offset:end]
    number = struct.Struct(f"<{code}")
    return lambda value: number.unpack_from(value, offset)[0]


def _sized(content: bytes) -> bytes:
    """Return the bytes that a field has behind their length."""
    length = content[0] + 256 * content[1]
    if length > len(content) - 2:
        raise ValueError(f"the stored length is {length}, more than {len(content) - 2} bytes")
    return content[2 : 2 + length]

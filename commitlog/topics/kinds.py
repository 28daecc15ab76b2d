"""What a field of a message can be: annotations, and the form of their values in its bytes. To a
type checker each annotation is a plain Python type.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypeAlias, get_args, get_origin

import numpy as np

from commitlog.errors import MessageError
from commitlog.topics.compiled.messages import (
    KINDS,
    ArrayField,
    DatetimeField,
    EnumField,
    Field,
    SizedBytesField,
    TextField,
)

LARGEST_FIELD = 1 << 20
LONGEST_SIZED = (1 << 16) - 1
_CHOICE = (
    "a field is a bool, a number such as bus.int64, a datetime, Annotated[an Enum, bus.uint8], "
    "Annotated[str, 16], Annotated[bytes, 16], Annotated[bytes, bus.MaxLen(16)] or "
    "Annotated[tuple[bus.float64, ...], 4]"
)
_HINTS = {
    enum.Enum: "an enum needs the kind of its numbers, as in Annotated[Side, bus.uint8]",
    bytes: f"bytes need a length, from 1 to {LARGEST_FIELD}, as in Annotated[bytes, 16], or a "
    f"largest length, from 1 to {LONGEST_SIZED}, as in Annotated[bytes, bus.MaxLen(16)]",
    int: "an int needs a width, as in bus.int64",
    float: "a float needs a width, as in bus.float64",
    str: f"a str needs a size in bytes, from 1 to {LARGEST_FIELD}, as in Annotated[str, 16]",
    tuple: "an array needs the kind of its items and their number, at most "
    f"{LARGEST_FIELD} bytes, as in Annotated[tuple[bus.float64, ...], 4]",
}


@dataclass(frozen=True)
class Kind:
    """Mark an annotation as a number of one of the kernel's kinds."""

    name: str


@dataclass(frozen=True)
class MaxLen:
    """Mark a field of bytes whose length varies: ``Annotated[bytes, bus.MaxLen(16)]``.

    The field keeps the exact length, in two bytes before the content. ``Annotated[bytes, 16]``
    always gives 16 bytes.

    Parameters
    ----------
    max_length : int
        The largest length in bytes, from 1 to 65535.
    """

    max_length: int


int8: TypeAlias = Annotated[int, Kind("int8")]
int16: TypeAlias = Annotated[int, Kind("int16")]
int32: TypeAlias = Annotated[int, Kind("int32")]
int64: TypeAlias = Annotated[int, Kind("int64")]
uint8: TypeAlias = Annotated[int, Kind("uint8")]
uint16: TypeAlias = Annotated[int, Kind("uint16")]
uint32: TypeAlias = Annotated[int, Kind("uint32")]
uint64: TypeAlias = Annotated[int, Kind("uint64")]
float32: TypeAlias = Annotated[float, Kind("float32")]
float64: TypeAlias = Annotated[float, Kind("float64")]


class Form(NamedTuple):
    """How the values of one field lie in a message.

    Attributes
    ----------
    length, alignment : int
        Bytes.
    format : object
        The same for a NumPy dtype.
    field : callable
        Make the field of a message class's name, its own name and its offset.
    """

    length: int
    alignment: int
    format: Any
    field: Callable[[str, str, int], Field]


def form_of_annotation(label: str, annotation: Any) -> Form:
    """Find the form that an annotation means.

    Raises
    ------
    MessageError
        It means none, or has no fixed size; the message begins with `label`.
    """
    base, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    if base is bool:
        return _number("bool")
    if base is dt.datetime:
        return Form(8, 8, "<M8[ns]", DatetimeField)
    for mark in marks:
        form = _marked(base, mark)
        if form is not None:
            return form
    raise MessageError(f"{label}: {_hint(base)}")


def form_of_dtype(label: str, dtype: np.dtype[Any]) -> Form:
    """Find the form of a field of a NumPy structured dtype."""
    if dtype.base.byteorder == ">":
        raise MessageError(
            f"{label}: {dtype} is big-endian, and messages are little-endian: use "
            "dtype.newbyteorder('<')"
        )
    if dtype == np.dtype("<M8[ns]"):
        return Form(8, 1, "<M8[ns]", DatetimeField)
    if dtype.kind == "S" and 0 < dtype.itemsize <= LARGEST_FIELD:
        return _bytes(dtype.itemsize)
    if _is_number(dtype):
        return _number(dtype.name)
    if len(dtype.shape) == 1 and 0 < dtype.itemsize <= LARGEST_FIELD and _is_number(dtype.base):
        return _array(dtype.base.name, dtype.shape[0])
    raise MessageError(
        f"{label}: {dtype} is not a kind of field; a field is of bool, int8 to int64, uint8 to "
        "uint64, float32, float64, an array of them in one dimension, datetime64[ns], or S1 to "
        f"S{LARGEST_FIELD}"
    )


def _marked(base: Any, mark: Any) -> Form | None:
    """Find the form of `Annotated[base, mark]`, if both go together."""
    if isinstance(mark, Kind) and base in (int, float):
        return _number(mark.name)
    if isinstance(mark, MaxLen) and base is bytes and 0 < mark.max_length <= LONGEST_SIZED:
        return _sized_bytes(mark.max_length)
    if isinstance(base, type) and issubclass(base, enum.Enum):
        kind = _kind_of(mark)
        return None if kind is None or kind.startswith("float") else _enum(base, kind)
    if isinstance(mark, int) and not isinstance(mark, bool) and 0 < mark <= LARGEST_FIELD:
        return _counted(base, mark)
    return None


def _counted(base: Any, count: int) -> Form | None:
    """Find the form of that many bytes or items."""
    if base is bytes:
        return _bytes(count)
    if base is str:
        return _text(count)
    if get_origin(base) is tuple:
        item, *rest = get_args(base) or (None,)
        kind = "bool" if item is bool else _kind_of(item)
        if kind is not None and rest == [...] and count * KINDS[kind][1] <= LARGEST_FIELD:
            return _array(kind, count)
    return None


def _number(kind: str) -> Form:
    length = KINDS[kind][1]
    return Form(
        length, length, _format(kind), lambda owner, name, at: Field(owner, name, kind, at, length)
    )


def _bytes(length: int) -> Form:
    return Form(
        length, 1, f"S{length}", lambda owner, name, at: Field(owner, name, "bytes", at, length)
    )


def _text(size: int) -> Form:
    return Form(size, 1, f"S{size}", lambda owner, name, at: TextField(owner, name, at, size))


def _sized_bytes(longest: int) -> Form:
    return Form(
        2 + longest,
        2,
        [("length", "<u2"), ("content", f"V{longest}")],
        lambda owner, name, at: SizedBytesField(owner, name, at, longest),
    )


def _enum(members: type[enum.Enum], kind: str) -> Form:
    number = _number(kind)
    return number._replace(
        field=lambda owner, name, at: EnumField(owner, name, kind, at, number.length, members)
    )


def _array(kind: str, count: int) -> Form:
    item = KINDS[kind][1]
    return Form(
        count * item,
        item,
        (_format(kind), (count,)),
        lambda owner, name, at: ArrayField(owner, name, kind, at, count),
    )


def _format(kind: str) -> np.dtype[Any]:
    return np.dtype(kind).newbyteorder("<")


def _is_number(dtype: np.dtype[Any]) -> bool:
    return dtype.name in KINDS and dtype.kind != "S"


def _kind_of(annotation: Any) -> str | None:
    """Return the kind of an annotation such as `bus.int64`."""
    return next((mark.name for mark in get_args(annotation)[1:] if isinstance(mark, Kind)), None)


def _hint(base: Any) -> str:
    plain = get_origin(base) or base
    if isinstance(plain, type):
        for known, hint in _HINTS.items():
            if issubclass(plain, known):
                return hint
    return f"{base!r} is not a kind of field; {_CHOICE}"

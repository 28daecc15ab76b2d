"""What a field of a message can be. To a type checker each is the plain Python type; the width is
in the annotation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, get_args, get_origin

import numpy as np

from commitlog._kernel.messages import KINDS
from commitlog.errors import MessageError

BYTES_LONGEST = 1 << 20
_CHOICE = (
    "bool, bus.int8 to bus.int64, bus.uint8 to bus.uint64, bus.float32, bus.float64, or "
    "Annotated[bytes, n]"
)
_HINTS = {
    bytes: f"bytes need a length, from 1 to {BYTES_LONGEST}, as in Annotated[bytes, 16]",
    int: "an int needs a width, as in bus.int64",
    float: "a float needs a width, as in bus.float64",
    str: "text has no fixed size; encode it into Annotated[bytes, 16], for instance",
}


@dataclass(frozen=True)
class Kind:
    """Marks an annotation as a field of one of the kernel's kinds."""

    name: str

    @property
    def length(self) -> int:
        return KINDS[self.name][1]


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


def kind_of_annotation(field: str, annotation: Any) -> tuple[str, int]:
    """A field's kind and its size in bytes.

    Raises
    ------
    MessageError
        It is none, or has no fixed size.
    """
    if annotation is bool:
        return "bool", 1
    base, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    for mark in marks:
        if isinstance(mark, Kind):
            return mark.name, mark.length
        if base is bytes and isinstance(mark, int) and 0 < mark <= BYTES_LONGEST:
            return "bytes", mark
    hint = _HINTS.get(base) if isinstance(base, type) else None
    raise MessageError(
        f"{field}: {hint or f'{annotation!r} is no kind of field'}. A field is {_CHOICE}"
    )


def kind_of_dtype(field: str, dtype: np.dtype[Any]) -> tuple[str, int]:
    """The same for a field of a NumPy structured dtype."""
    if dtype.byteorder == ">":
        raise MessageError(
            f"{field}: {dtype} is big-endian, and messages are little-endian: use "
            "dtype.newbyteorder('<')"
        )
    if dtype.kind == "S" and 0 < dtype.itemsize <= BYTES_LONGEST:
        return "bytes", dtype.itemsize
    if dtype.name in KINDS and dtype.kind != "S":
        return dtype.name, dtype.itemsize
    raise MessageError(
        f"{field}: {dtype} is no kind of field. A field is of bool, int8 to int64, uint8 to "
        "uint64, float32, float64, or S1 to "
        f"S{BYTES_LONGEST}"
    )

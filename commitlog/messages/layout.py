"""Layout: which field of a message lies where."""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from commitlog._kernel.messages import Field, Shape
from commitlog.errors import MessageError
from commitlog.messages.kinds import kind_of_annotation, kind_of_dtype

# Every message class has these itself.
RESERVED = ("blank", "layout", "type")


class Layout(Shape):
    """The fixed binary form of a message class, little-endian. `str` gives it as a table.

    Attributes
    ----------
    name : str
        The message class's.
    type : int
        Its type number.
    size : int
        Bytes of a message.
    fields : tuple of Field
        Each with `name`, `kind`, `offset` and `length`. What no field covers is zero.
    """

    def __init__(self, name: str, type: int, size: int, fields: Sequence[Field]) -> None:
        if not fields:
            raise MessageError(
                f"{name} has no fields: annotate at least one, such as price: bus.int64"
            )
        for field in fields:
            word = field.name
            if (
                not word.isidentifier()
                or keyword.iskeyword(word)
                or word.startswith("__")
                or word in RESERVED
            ):
                raise MessageError(f"{name}: {word!r} cannot be the name of a field; rename it")
        super().__init__(name, _checked_type(name, type), size)
        self.fields = tuple(fields)

    @classmethod
    def of_annotations(cls, name: str, type: int, annotations: Mapping[str, Any]) -> Layout:
        """The fields in their order, each at the next multiple of its own size, and the whole a
        multiple of the largest, as in C.
        """
        fields = []
        end = 0
        alignment = 1
        for field, annotation in annotations.items():
            kind, length = kind_of_annotation(f"{name}.{field}", annotation)
            step = 1 if kind == "bytes" else length
            fields.append(Field(field, kind, _aligned(end, step), length))
            end = _aligned(end, step) + length
            alignment = max(alignment, step)
        return cls(name, type, _aligned(end, alignment), fields)

    @classmethod
    def of_dtype(cls, name: str, type: int, dtype: Any) -> Layout:
        """The fields where a NumPy structured dtype has them."""
        try:
            given = np.dtype(dtype)
        except TypeError as error:
            raise MessageError(
                f"{name}: dtype= must be a NumPy structured dtype: {error}"
            ) from None
        if given.names is None or given.fields is None:
            raise MessageError(
                f"{name}: dtype= must be a structured dtype, with named fields, not {given}"
            )
        fields = []
        for field in given.names:
            part, offset = given.fields[field][:2]
            kind, length = kind_of_dtype(f"{name}.{field}", part)
            fields.append(Field(field, kind, offset, length))
        for before, after in itertools.pairwise(sorted(fields, key=lambda field: field.offset)):
            if before.offset + before.length > after.offset:
                raise MessageError(
                    f"{name}: the fields {before.name} and {after.name} overlap; give each its "
                    "own bytes"
                )
        return cls(name, type, given.itemsize, fields)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The same as a NumPy structured dtype, for arrays of many messages."""
        formats = [
            f"S{field.length}" if field.kind == "bytes" else np.dtype(field.kind).newbyteorder("<")
            for field in self.fields
        ]
        names = [field.name for field in self.fields]
        return np.dtype(
            {
                "names": names,
                "formats": formats,
                "offsets": [field.offset for field in self.fields],
                "itemsize": self.size,
            }
        )

    def __str__(self) -> str:
        rows = [("offset", "bytes", "kind", "field")]
        rows += [
            (str(field.offset), str(field.length), field.kind, field.name) for field in self.fields
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        title = f"{self.name}: type {self.type}, {self.size} bytes, little-endian"
        lines = [
            f"  {row[0]:>{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]}"
            for row in rows
        ]
        return "\n".join([title, *lines])


def _aligned(offset: int, step: int) -> int:
    return -(-offset // step) * step


def _checked_type(name: str, type: object) -> int:
    if not isinstance(type, int) or isinstance(type, bool) or not 0 <= type < 1 << 32:
        raise MessageError(f"{name}: type= must be an int from 0 to 4294967295, not {type!r}")
    return type

"""Layout: the offset and size of each field in a message."""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from commitlog.errors import MessageError
from commitlog.topics.compiled.messages import Shape
from commitlog.topics.kinds import Form, form_of_annotation, form_of_dtype

# Attributes of every message class.
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
        Each with `name`, `kind`, `offset` and `length`. Bytes that no field covers are zero.
    """

    def __init__(
        self, name: str, type: int, size: int, places: Sequence[tuple[str, Form, int]]
    ) -> None:
        if not places:
            raise MessageError(
                f"{name} has no fields: annotate at least one, such as price: bus.int64"
            )
        for word, _, _ in places:
            if (
                not word.isidentifier()
                or keyword.iskeyword(word)
                or word.startswith("__")
                or word in RESERVED
            ):
                raise MessageError(f"{name}: {word!r} cannot be the name of a field; rename it")
        super().__init__(name, _checked_type(name, type), size)
        self.fields = tuple(form.field(name, field, offset) for field, form, offset in places)
        self._formats = [form.format for _, form, _ in places]

    @classmethod
    def of_annotations(cls, name: str, type: int, annotations: Mapping[str, Any]) -> Layout:
        """Lay the fields out in their order, as a C compiler does: a number at a multiple of its
        size, an array at a multiple of its items' size.
        """
        places = []
        end = 0
        alignment = 1
        for field, annotation in annotations.items():
            form = form_of_annotation(f"{name}.{field}", annotation)
            offset = _aligned(end, form.alignment)
            places.append((field, form, offset))
            end = offset + form.length
            alignment = max(alignment, form.alignment)
        return cls(name, type, _aligned(end, alignment), places)

    @classmethod
    def of_dtype(cls, name: str, type: int, dtype: Any) -> Layout:
        """Take the fields and their places from a NumPy structured dtype."""
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
        places = []
        for field in given.names:
            part, offset = given.fields[field][:2]
            places.append((field, form_of_dtype(f"{name}.{field}", part), offset))
        layout = cls(name, type, given.itemsize, places)
        by_offset = sorted(layout.fields, key=lambda field: field.offset)
        for before, after in itertools.pairwise(by_offset):
            if before.offset + before.length > after.offset:
                raise MessageError(
                    f"{name}: the fields {before.name} and {after.name} overlap; give each its "
                    "own bytes"
                )
        return layout

    @property
    def dtype(self) -> np.dtype[Any]:
        """The layout as a NumPy structured dtype, for arrays of many messages.

        An enum is its number, a datetime a ``datetime64[ns]``, a str its UTF-8, and bytes with a
        `MaxLen` a pair of ``length`` and ``content``.
        """
        names = [field.name for field in self.fields]
        return np.dtype(
            {
                "names": names,
                "formats": self._formats,
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

"""The msgspec types that a JSON Schema describes, to check values without their Python class."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal, Union

from commitlog.base.extras import imported

Form = dict[str, Any]
_TEXTS: dict[str, Any] = {
    "date-time": dt.datetime,
    "date": dt.date,
    "time": dt.time,
    "duration": dt.timedelta,
    "uuid": uuid.UUID,
    "decimal": Decimal,
}
_PLAIN: dict[str, Any] = {"integer": int, "number": float, "boolean": bool, "null": type(None)}
_BOUNDS = {
    "minimum": "ge",
    "exclusiveMinimum": "gt",
    "maximum": "le",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
    "pattern": "pattern",
}


class SchemaTypes:
    """Make the types of a schema, which a codec of msgspec has written.

    What a type cannot say accepts any value: unions of objects, and objects within themselves.

    Parameters
    ----------
    form : dict
        The JSON Schema.
    """

    def __init__(self, form: Form) -> None:
        self._msgspec = imported("msgspec", "a call by a schema", "topics")
        self._forms: dict[str, Form] = form.get("$defs", {})
        self._open: list[str] = []  # names of the forms that are being made

    def type_of(self, form: Form) -> Any:
        """Return the type of a part of the schema.

        Raises
        ------
        AttributeError, KeyError, TypeError, ValueError, RecursionError
            The part is not a JSON Schema of msgspec.
        """
        reference = form.get("$ref")
        if reference is not None:
            return self._named(reference.rpartition("/")[2])
        if "anyOf" in form:
            return self._checked(Union[tuple(map(self.type_of, form["anyOf"]))])  # noqa: UP007
        if "enum" in form:
            return self._checked(Literal[tuple(form["enum"])])
        makers: dict[Any, Callable[[Form], Any]] = {
            "object": self._object,
            "array": self._array,
            "string": _text,
        }
        kind = str(form.get("type"))
        if kind not in makers:
            return self._bounded(_PLAIN.get(kind, Any), form)
        return self._bounded(makers[kind](form), form)

    def _named(self, name: str) -> Any:
        if name in self._open:
            return Any
        self._open.append(name)
        found = self.type_of(self._forms[name])
        self._open.pop()
        return found

    def _object(self, form: Form) -> Any:
        if "properties" not in form:
            more = form.get("additionalProperties")
            values = self.type_of(more) if isinstance(more, dict) else Any
            return dict.__class_getitem__((str, values))
        required = form.get("required", ())
        fields: list[Any] = []
        for number, (name, part) in enumerate(form["properties"].items()):
            if name in required:
                fields.append((f"f{number}", self.type_of(part), self._msgspec.field(name=name)))
            else:
                kind: Any = Union.__getitem__((self.type_of(part), self._msgspec.UnsetType))
                default = self._msgspec.field(name=name, default=self._msgspec.UNSET)
                fields.append((f"f{number}", kind, default))
        return self._msgspec.defstruct(
            form.get("title", "object"), fields, kw_only=True, forbid_unknown_fields=True
        )

    def _array(self, form: Form) -> Any:
        rest, first = form.get("items"), form.get("prefixItems")
        if first is None:
            return list.__class_getitem__(self.type_of(rest)) if isinstance(rest, dict) else list
        if isinstance(rest, dict) or len(first) != form.get("maxItems"):
            return list
        return tuple.__class_getitem__(tuple(map(self.type_of, first)))

    def _bounded(self, kind: Any, form: Form) -> Any:
        bounds = {key: form[name] for name, key in _BOUNDS.items() if name in form}
        if not bounds or "prefixItems" in form:
            return kind
        marked: Any = Annotated  # a type that is made at run time
        return self._checked(marked[kind, self._msgspec.Meta(**bounds)], kind)

    def _checked(self, kind: Any, instead: Any = Any) -> Any:
        """Return a type if msgspec takes it."""
        try:
            self._msgspec.json.Decoder(kind)
        except TypeError:
            return instead
        return kind


def _text(form: Form) -> Any:
    if "contentEncoding" in form:
        return bytes
    return _TEXTS.get(form.get("format", ""), str)

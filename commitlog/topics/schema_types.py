"""The msgspec types that a JSON Schema describes, to check values without their Python class."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, ForwardRef, Literal, Union, get_args

from commitlog.base.extras import imported
from commitlog.topics.forms import Form, tag_of

_TEXTS: dict[str, Any] = {
    "date-time": dt.datetime,
    "date": dt.date,
    "time": dt.time,
    "partial-time": dt.time,
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

    What a schema does not say accepts any value.

    Parameters
    ----------
    form : dict
        The JSON Schema.
    """

    def __init__(self, form: Form) -> None:
        self._msgspec = imported("msgspec", "a call by a schema", "topics")
        self._forms: dict[str, Form] = form.get("$defs", {})
        self._open: list[str] = []  # names of the forms that are being made
        self._made: dict[str, Any] = {}

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
        if name in self._made:
            return self._made[name]
        if name in self._open:
            return ForwardRef(_attribute(self._open.index(name), name))
        self._open.append(name)
        found = self.type_of(self._forms[name])
        place = _attribute(len(self._open) - 1, name)
        self._open.pop()
        self._made[name] = found
        # A class that contains itself, at any depth, finds its name among its attributes.
        for each in self._made.values():
            if isinstance(each, type) and issubclass(each, self._msgspec.Struct):
                type.__setattr__(each, place, found)
        return found

    def _object(self, form: Form) -> Any:
        if "properties" not in form:
            more, keys = form.get("additionalProperties"), form.get("keys")
            values = self.type_of(more) if isinstance(more, dict) else Any
            names = self.type_of(keys) if isinstance(keys, dict) else str
            return dict.__class_getitem__((names, values))
        required = form.get("required", ())
        tag = tag_of(form)
        fields: list[Any] = []
        for number, (name, part) in enumerate(form["properties"].items()):
            if tag is not None and name == tag[0]:
                continue
            if name in required:
                fields.append((f"f{number}", self.type_of(part), self._msgspec.field(name=name)))
            else:
                kind: Any = Union.__getitem__((self.type_of(part), self._msgspec.UnsetType))
                default = self._msgspec.field(name=name, default=self._msgspec.UNSET)
                fields.append((f"f{number}", kind, default))
        marks = {} if tag is None else {"tag_field": tag[0], "tag": tag[1]}
        return self._msgspec.defstruct(
            _title(form), fields, kw_only=True, forbid_unknown_fields=True, **marks
        )

    def _array(self, form: Form) -> Any:
        rest, first = form.get("items"), form.get("prefixItems")
        if first is None:
            return list.__class_getitem__(self.type_of(rest)) if isinstance(rest, dict) else list
        if rest is False:
            return tuple.__class_getitem__(tuple(map(self.type_of, first)))
        tag = tag_of(form)
        fields: list[Any] = []
        for number, part in enumerate(first):
            if number == 0 and tag is not None:
                continue
            field = (f"f{number}", self.type_of(part))
            is_needed = number < form.get("minItems", 0) or "default" not in part
            fields.append(field if is_needed else (*field, self._default(part)))
        marks = {} if tag is None else {"tag_field": "tag", "tag": tag[1]}
        return self._msgspec.defstruct(
            _title(form), fields, array_like=True, forbid_unknown_fields=True, **marks
        )

    def _default(self, part: Form) -> Any:
        """Return the default of an item, as a field of msgspec."""
        default = part["default"]
        kind = self.type_of(part)

        def made() -> Any:
            return self._msgspec.convert(default, kind, builtin_types=(), str_keys=True)

        return self._msgspec.field(default_factory=made)

    def _bounded(self, kind: Any, form: Form) -> Any:
        bounds = {key: form[name] for name, key in _BOUNDS.items() if name in form}
        if not bounds or "prefixItems" in form:
            return kind
        marked: Any = Annotated  # a type that is made at run time
        return self._checked(marked[kind, self._msgspec.Meta(**bounds)], kind)

    def _checked(self, kind: Any, instead: Any = Any) -> Any:
        """Return a type if msgspec takes it, or if it has a class that is not complete yet."""
        if _is_open(kind):
            return kind
        try:
            self._msgspec.json.Decoder(kind)
        except TypeError:
            return instead
        except NameError:
            return kind
        return kind


def _is_open(kind: Any) -> bool:
    return isinstance(kind, ForwardRef) or any(map(_is_open, get_args(kind)))


def _attribute(depth: int, name: str) -> str:
    """Return the name of the attribute that has a class which is being made."""
    return f"_type{depth}_{re.sub('[^A-Za-z0-9_]', '_', name)}"


def _title(form: Form) -> str:
    return re.sub(r"\W", "_", str(form.get("title", "object")))


def _text(form: Form) -> Any:
    if "contentEncoding" in form:
        return bytes
    return _TEXTS.get(form.get("format") or form.get("kind", ""), str)

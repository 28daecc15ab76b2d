"""The form of a message class of msgspec: its JSON Schema, and what a JSON Schema does not say."""

from __future__ import annotations

import copy
import dataclasses
import enum
import json
from typing import Any

from commitlog.base.extras import imported
from commitlog.topics.forms import Form, alternatives_of
from commitlog.topics.pydantic_models import collect_parts, form_of_model

# The forms of keys that are written as strings, by the names of msgspec's types.
_KEYS: dict[str, Form] = {
    "IntType": {"type": "integer"},
    "FloatType": {"type": "number"},
    "BoolType": {"type": "boolean"},
    "BytesType": {"type": "string", "contentEncoding": "base64"},
    "DateTimeType": {"type": "string", "format": "date-time"},
    "DateType": {"type": "string", "format": "date"},
    "TimeType": {"type": "string", "format": "time"},
    "TimeDeltaType": {"type": "string", "format": "duration"},
    "UUIDType": {"type": "string", "format": "uuid"},
    "DecimalType": {"type": "string", "format": "decimal"},
    "TupleType": {"type": "array"},
    "VarTupleType": {"type": "array"},
}
# What msgspec writes without a format, if it may have no time zone.
_KINDS = {"DateTimeType": "date-time", "TimeType": "time"}
WITH_FIELDS = ("StructType", "DataclassType", "TypedDictType", "NamedTupleType")


def form_of(message_class: Any) -> Form:
    """Return the form of a class. Equal classes have equal forms in all processes.

    Raises
    ------
    TypeError, NameError
        msgspec does not take the class.
    """
    msgspec = imported("msgspec", "the schema of a topic", "topics")
    info = msgspec.inspect.type_info(message_class)
    kinds = list(classes_of(info).values())
    (form, *found), forms = msgspec.json.schema_components(
        [message_class, *[kind.cls for kind in kinds]],
        schema_hook=form_of_model,
        ref_template="#/$defs/{name}",
    )
    collect_parts(form, forms)
    for kind, reference in zip(kinds, found, strict=True):
        _describe(kind, forms[reference["$ref"].rpartition("/")[2]])
    _complete(info, form)
    if forms:
        form["$defs"] = forms
    return dict(form)


def classes_of(info: Any) -> dict[Any, Any]:
    """Return the types of msgspec's `inspect` that a type contains and that have a class of their
    own, by that class.
    """
    found: dict[Any, Any] = {}
    pending = [info]
    while pending:
        kind = bare(pending.pop())
        name = type(kind).__name__
        if name in WITH_FIELDS or name == "EnumType":
            if kind.cls in found:
                continue
            found[kind.cls] = kind
        pending += reversed(components_of(kind))
    return found


def components_of(kind: Any) -> list[Any]:
    """Return the types that a type of msgspec's `inspect` is made of."""
    if type(kind).__name__ in WITH_FIELDS:
        return [field.type for field in kind.fields]
    single = ("item_type", "key_type", "value_type")
    found = [getattr(kind, name) for name in single if hasattr(kind, name)]
    for name in ("item_types", "types"):
        found += getattr(kind, name) if hasattr(kind, name) else ()
    return found


def bare(kind: Any) -> Any:
    """Return a type without the metadata around it."""
    while type(kind).__name__ == "Metadata":
        kind = kind.type
    return kind


def _describe(kind: Any, form: Form) -> None:
    """Complete the form of a class."""
    if issubclass(_plain_class(kind.cls), enum.Enum):
        form["members"] = {each.name: each.value for each in kind.cls}
        return
    fields = list(kind.fields)
    if "prefixItems" in form:
        form["fields"] = _item_names(kind)
        parts = form["prefixItems"][len(form["fields"]) - len(fields) :]
    else:
        parts = [form["properties"][field.encode_name] for field in fields]
    for field, part in zip(fields, parts, strict=True):
        _complete(field.type, part)
        if isinstance(field.default, bytes) and bare(field.type).__class__.__name__ == "AnyType":
            part["contentEncoding"] = "base64"  # of the default, which may be any value
        elif isinstance(part.get("default"), list | tuple | dict):
            part["default"] = _in_order(field.default, part["default"])


def _item_names(kind: Any) -> list[str]:
    """Return the names of the items of an array that is an object."""
    tag = [kind.tag_field] if hasattr(kind, "tag_field") and kind.tag_field is not None else []
    return [*tag, *[field.encode_name for field in kind.fields]]


def _plain_class(given: Any) -> Any:
    return getattr(given, "__origin__", given)


def _in_order(default: Any, found: Any) -> Any:
    """Return a default with sets in an order that does not depend on the process."""
    msgspec = imported("msgspec", "the schema of a topic", "topics")
    try:
        return msgspec.to_builtins(_without_sets(default), str_keys=True, order="deterministic")
    except (TypeError, ValueError):
        return found


def _without_sets(value: Any) -> Any:
    """Return a value with a sorted list in place of each set, at any depth."""
    msgspec = imported("msgspec", "the schema of a topic", "topics")
    if isinstance(value, set | frozenset):
        plain = [msgspec.to_builtins(_without_sets(each), str_keys=True) for each in value]
        return sorted(plain, key=lambda each: json.dumps(each, sort_keys=True))
    if isinstance(value, list | tuple):
        return [_without_sets(each) for each in value]
    if isinstance(value, dict):
        return {name: _without_sets(each) for name, each in value.items()}
    is_struct = isinstance(value, msgspec.Struct)
    if not is_struct and not (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return value
    made = copy.copy(value)
    assign = msgspec.structs.force_setattr if is_struct else object.__setattr__
    names = value.__struct_fields__ if is_struct else value.__dataclass_fields__
    for name in names:
        assign(made, name, _without_sets(getattr(value, name)))
    return made


def _complete(kind: Any, form: Form) -> None:
    """Add the forms of the keys of dicts, and the kinds of times, to the form of a type."""
    kind = bare(kind)
    name = type(kind).__name__
    if "$ref" in form:
        return
    if name in _KINDS and "format" not in form:
        form["kind"] = _KINDS[name]
    elif name in ("DictType", "FrozenDictType"):
        keys = _keys_form(bare(kind.key_type))
        if keys is not None:
            form["keys"] = keys
    for part, each in _below(kind, form):
        if isinstance(each, dict):
            _complete(part, each)


def _below(kind: Any, form: Form) -> list[tuple[Any, Any]]:
    """Return the types that a type without a class of its own is made of, each with its form."""
    if hasattr(kind, "types"):  # a union
        options = [each for each in alternatives_of(form) if each is not form]
        return [(part, each) for part in kind.types for each in options if _is_of(bare(part), each)]
    if hasattr(kind, "value_type"):
        return [(kind.value_type, form.get("additionalProperties"))]
    if hasattr(kind, "item_type"):
        return [(kind.item_type, form.get("items"))]
    items = kind.item_types if hasattr(kind, "item_types") else ()
    return list(zip(items, form.get("prefixItems", ()), strict=False))


def _is_of(kind: Any, form: Form) -> bool:
    """Return whether a form is the one of a type, which is the only dict, array or text of its
    union.
    """
    if type(kind).__name__ in ("DictType", "FrozenDictType"):
        return form.get("type") == "object"
    if type(kind).__name__ in _KINDS:
        return form.get("type") == "string" and "contentEncoding" not in form
    is_array = hasattr(kind, "item_type") or hasattr(kind, "item_types")
    return is_array and form.get("type") == "array"


def _keys_form(kind: Any) -> Form | None:
    """Return the form of keys; None for strings, and for keys of any type."""
    name = type(kind).__name__
    if name == "UnionType":
        parts = [_keys_form(bare(part)) or {"type": "string"} for part in kind.types]
        return {"anyOf": parts}
    if name == "EnumType":
        values = sorted(each.value for each in kind.cls)
        return {"enum": values, "members": {each.name: each.value for each in kind.cls}}
    if name == "LiteralType":
        return {"enum": list(kind.values)}
    if name == "NamedTupleType" or (name == "StructType" and kind.array_like):
        names = _item_names(kind)
        return {"type": "array", "fields": names, "prefixItems": [{} for _ in names]}
    return dict(_KEYS[name]) if name in _KEYS else None

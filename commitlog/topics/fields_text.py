"""The fields of a schema in one line, for a person."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from commitlog.topics.schema import Schema


def fields_text(schema: Schema) -> str:
    """Return names and types of the fields; nothing if the codec or its form is not known."""
    try:
        return _TEXTS[schema.codec](schema.form) if schema.codec in _TEXTS else ""
    except (AttributeError, KeyError, TypeError, RecursionError):
        return ""


def _json_schema(form: dict[str, Any]) -> str:
    target = _target(form)
    if "fields" in target:
        parts = zip(target["fields"], target["prefixItems"], strict=True)
        return ", ".join(_field(name, part) for name, part in parts)
    if "properties" not in target:
        return _named(form)
    fields = target["properties"]
    names = form.get("arguments") or dict.fromkeys([*target.get("required", ()), *fields])
    return ", ".join(_field(name, fields[name]) for name in names)


def _target(form: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in form:
        return form
    found: dict[str, Any] = form["$defs"][form["$ref"].rpartition("/")[2]]
    return found


def _field(name: str, form: dict[str, Any]) -> str:
    text = f"{name} {_named(form)}"
    if "default" in form:
        text += f" = {json.dumps(form['default'], ensure_ascii=False)}"
    return text


def _named(form: dict[str, Any]) -> str:
    """Return the name of a type."""
    if "anyOf" in form:
        text = " | ".join(dict.fromkeys(map(_named, form["anyOf"])))
    elif "$ref" in form:
        text = form["$ref"].rpartition("/")[2]
    elif "enum" in form:
        text = " | ".join(json.dumps(each, ensure_ascii=False) for each in form["enum"])
    elif form.get("type") == "array":
        text = f"[{', '.join(_items(form))}]"
    elif isinstance(form.get("additionalProperties"), dict):
        text = f"{{...: {_named(form['additionalProperties'])}}}"
    elif "contentEncoding" in form:
        text = "bytes"
    else:
        text = form.get("format") or form.get("title") or form.get("type") or "any"
    return str(text)


def _items(form: dict[str, Any]) -> Iterator[str]:
    yield from map(_named, form.get("prefixItems", ()))
    if isinstance(form.get("items"), dict):
        yield f"{_named(form['items'])}, ..."


def _avro(form: dict[str, Any]) -> str:
    schema = form["avro"]
    if isinstance(schema, dict) and "fields" in schema:
        return ", ".join(f"{each['name']} {_avro_type(each['type'])}" for each in schema["fields"])
    return _avro_type(schema)


def _avro_type(kind: Any) -> str:
    if isinstance(kind, list):
        return " | ".join(map(_avro_type, kind))
    if isinstance(kind, dict):
        inner = kind.get("items", kind.get("values"))
        name = str(kind.get("logicalType") or kind.get("name") or kind["type"])
        return name if inner is None else f"{name} of {_avro_type(inner)}"
    return str(kind)


_TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    **dict.fromkeys(("json", "msgpack", "method"), _json_schema),
    "avro": _avro,
    "protobuf": lambda form: str(form["message"]),
    "arrow": lambda form: ", ".join(form["fields"]),
    "fixed": lambda form: ", ".join(f"{each['name']} {each['kind']}" for each in form["fields"]),
}

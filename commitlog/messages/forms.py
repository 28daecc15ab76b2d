"""Forms: JSON Schemas, and what they say about values.

A form has what msgspec writes, and words of its own, which older releases skip: `fields`, the names
of the items of an array that is an object; `members`, the names of the values of an enum; `keys`,
the form of the keys of a dict, if they are not strings; `kind`, that of a text which is a time.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Form: TypeAlias = dict[str, Any]

_PYTHON: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "decimal": str,
    "bytes": (str, bytes),
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def target_of(form: Form, forms: dict[str, Form]) -> Form:
    """Return what a form refers to, by the name of its class."""
    while "$ref" in form:
        form = {**forms[form["$ref"].rpartition("/")[2]], **form}
        name = form.pop("$ref")
        form.setdefault("title", name.rpartition("/")[2])
    return form


def kind_of(form: Form) -> str | None:
    """Return the kind of the values; None if they may have any."""
    if form.get("format") == "decimal":
        return "decimal"
    if form.get("type") == "string" and "contentEncoding" in form:
        return "bytes"
    kind: str | None = form.get("type")
    return kind


def text_of(form: Form) -> str:
    """Return a form in words, for an error."""
    if "anyOf" in form:
        return " | ".join(text_of(each) for each in form["anyOf"])
    if "$ref" in form:
        return str(form["$ref"].rpartition("/")[2])
    if "enum" in form:
        return f"one of {form['enum']}"
    return str(form.get("title") or kind_of(form) or "any value")


def alternatives_of(form: Form) -> list[Form]:
    """Return the alternatives of a union, also those of a union within it."""
    if "anyOf" not in form:
        return [form]
    return [part for each in form["anyOf"] for part in alternatives_of(each)]


def tag_of(form: Form) -> tuple[str | int, Any] | None:
    """Return name or index, and value, of the field that tells a class from others of a union."""
    items = form.get("prefixItems")
    if items:
        return (0, items[0]["enum"][0]) if len(items[0].get("enum", ())) == 1 else None
    for name, part in form.get("properties", {}).items():
        if len(part.get("enum", ())) == 1 and name in form.get("required", ()):
            return name, part["enum"][0]
    return None


def fits(form: Form, value: Any) -> bool:
    """Return whether a decoded value has the form, as far as its kind and a tag tell."""
    if not isinstance(value, _PYTHON.get(kind_of(form) or "", object)):
        return False
    if isinstance(value, dict):
        return all(
            value.get(name) in part["enum"]
            for name, part in form.get("properties", {}).items()
            if "enum" in part and name in form.get("required", ())
        )
    if isinstance(value, list):
        tag = tag_of(form)
        return tag is None or (bool(value) and value[0] == tag[1])
    return True

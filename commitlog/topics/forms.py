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

_OF_FORMS = ("properties", "$defs")
_FORMS = ("items", "additionalProperties", "keys")
_LISTS = ("prefixItems", "anyOf")


def check_form(form: Any) -> None:
    """Raise ValueError if a form, which may come from any program, is none: each word that this
    package reads has the type that msgspec gives it, and each reference is known.
    """
    known = form.get("$defs", {}) if isinstance(form, dict) else {}
    pending = [form]
    while pending:
        each = pending.pop()
        if not isinstance(each, dict):
            raise ValueError(f"{each!r:.100} is not a form")
        pending += _checked_parts(each)
        reference = each.get("$ref")
        if reference is not None and str(reference).rpartition("/")[2] not in known:
            raise ValueError(f"the reference {reference!r:.100} is not known")


def _checked_parts(form: Form) -> list[Any]:
    """Return the forms within a form."""
    _check_types(form)
    parts = [part for name in _OF_FORMS for part in form.get(name, {}).values()]
    parts += [part for name in _LISTS for part in form.get(name, ())]
    parts += [form[name] for name in _FORMS if not isinstance(form.get(name, False), bool)]
    if "fields" in form and len(form["fields"]) != len(form.get("prefixItems", ())):
        raise ValueError("an array has not one name for each item")
    return parts


def _check_types(form: Form) -> None:
    kinds: dict[str, Any] = {
        **dict.fromkeys((*_OF_FORMS, "members"), dict),
        **dict.fromkeys((*_LISTS, "enum", "required", "fields", "aliases", "arguments"), list),
        **dict.fromkeys(("type", "format", "kind", "title", "$ref", "contentEncoding"), str),
        **dict.fromkeys(("minItems", "maxItems"), int),
    }
    for name, kind in kinds.items():
        if name in form and not isinstance(form[name], kind):
            raise ValueError(f"{name} is {form[name]!r:.100}")
    for name in ("required", "fields", "arguments"):
        if not all(isinstance(each, str) for each in form.get(name, ())):
            raise ValueError(f"{name} is {form[name]!r:.100}")


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

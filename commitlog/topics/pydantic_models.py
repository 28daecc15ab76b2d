"""Models of pydantic as message classes, as fields of them, and as parameters of methods.

The codecs are those of msgspec. A model is written as the object of its fields, under their names,
never their aliases, as pydantic writes it for JSON and can read it back; it is read and validated
by pydantic.
"""

from __future__ import annotations

import sys
from typing import Any

from commitlog.base.extras import imported
from commitlog.topics.forms import Form


def is_model(kind: Any) -> bool:
    """Return whether a class is a model. A program that has one has imported pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def write_model(value: Any) -> Any:
    """Return the plain values of a model, for msgspec's `enc_hook`."""
    if not is_model(type(value)):
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
    return value.model_dump(mode="json", by_alias=False, round_trip=True, warnings="error")


def read_model(kind: Any, plain: Any) -> Any:
    """Return the model of plain values, for msgspec's `dec_hook`."""
    if not is_model(kind):
        raise NotImplementedError
    # As JSON, so that a strict model takes the text of a time or of an identifier.
    text = imported("msgspec", "the codec of a topic", "topics").json.encode(plain)
    return kind.model_validate_json(text, by_alias=False, by_name=True)


def form_of_model(kind: Any) -> Form:
    """Return the form of a model, with those of its parts, for msgspec's `schema_hook`."""
    if not is_model(kind):
        raise NotImplementedError
    form: Form = kind.model_json_schema(by_alias=False, mode="serialization")
    parts = {name: _plain(part) for name, part in form.pop("$defs", {}).items()}
    return {**_plain(form), **({"$defs": parts} if parts else {})}


def collect_parts(form: Form, forms: dict[str, Form]) -> None:
    """Move the forms of the parts of models, wherever they are in a form, to those of all classes.

    Raises
    ------
    TypeError
        Two classes have one name.
    """
    pending: list[Any] = [form, *forms.values()]
    while pending:
        each = pending.pop()
        if isinstance(each, list):
            pending += each
        if not isinstance(each, dict):
            continue
        for name, part in each.pop("$defs", {}).items():
            if forms.setdefault(name, part) != part:
                raise TypeError(f"two classes are named {name}")
        pending += each.values()


def _plain(form: Form) -> Form:
    """Return pydantic's JSON Schema of a class in the words of a form."""
    made = {name: part for name, part in form.items() if name not in ("oneOf", "allOf", "const")}
    if "const" in form:
        made["enum"] = [form["const"]]
    if "oneOf" in form:
        made["anyOf"] = form["oneOf"]
    if len(form.get("allOf", ())) == 1:
        made |= form["allOf"][0]
    if "properties" in made:
        kept = {
            name: _part(part)
            for name, part in made["properties"].items()
            if not part.get("readOnly")
        }  # a computed field is not written
        made["properties"] = kept
        # A constant tells a class from others of a union, and is always written.
        needed = (*made.get("required", ()), *(name for name in kept if "enum" in kept[name]
                  and len(kept[name]["enum"]) == 1))  # fmt: skip
        made["required"] = [name for name in kept if name in needed]
    for name in ("items", "additionalProperties"):
        if isinstance(made.get(name), dict):
            made[name] = _part(made[name])
    for name in ("anyOf", "prefixItems"):
        if name in made:
            made[name] = [_part(part) for part in made[name]]
    return made


def _part(form: Form) -> Form:
    """Return the form of a field. Its title is its name in other words."""
    made = _plain(form)
    if "properties" not in made:
        made.pop("title", None)
    return made

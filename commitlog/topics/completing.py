"""Completing: give plain values the fields that their schema knows and that their bytes do not
have: those that `omit_defaults` left out, and the names of the items of objects that are arrays.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from commitlog.topics.changes import (
    Change,
    Changes,
    changed_array,
    changed_by_choice,
    changed_mapping,
    changed_object,
    needed,
)
from commitlog.topics.forms import Form, alternatives_of, check_form, fits, target_of
from commitlog.topics.schema import Schema


def completed(schema: Schema, decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return a decoder of messages to plain values that completes them by their schema."""
    check_form(schema.form)
    has_bytes = schema.codec == "msgpack"
    change = completion(schema.form, schema.form.get("$defs", {}), has_bytes=has_bytes)
    return decode if change is None else lambda value: change(decode(value))


def completion(form: Form, forms: dict[str, Form], *, has_bytes: bool) -> Change | None:
    """Return what completes plain values of a form; None if they are complete.

    Parameters
    ----------
    form : dict
        The form of the values.
    forms : dict
        The forms that it refers to, by name.
    has_bytes : bool
        Bytes are bytes, and not text in base64.
    """
    return needed(_Completion(forms, has_bytes=has_bytes).of(form))


def omitted_of(form: Form, forms: dict[str, Form], *, has_bytes: bool) -> dict[str, Any]:
    """Return the values of the fields that messages of an object's form may leave out."""
    required = form.get("required", ())
    return {
        name: native_default(part, part["default"], forms) if has_bytes else part["default"]
        for name, part in form.get("properties", {}).items()
        if "default" in part and name not in required
    }


def native_default(form: Form, default: Any, forms: dict[str, Form]) -> Any:
    """Return a default of a schema as MessagePack writes it."""
    form = _alternative(target_of(form, forms), default, forms)
    if "contentEncoding" in form and isinstance(default, str):
        try:
            return base64.b64decode(default, validate=True)
        except (binascii.Error, ValueError):
            return default
    if isinstance(default, list):
        first, rest = form.get("prefixItems", []), form.get("items")
        other = rest if isinstance(rest, dict) else {}
        return [
            native_default(first[index] if index < len(first) else other, each, forms)
            for index, each in enumerate(default)
        ]
    if isinstance(default, dict):
        parts, rest = form.get("properties", {}), form.get("additionalProperties")
        other = rest if isinstance(rest, dict) else {}
        return {
            name: native_default(parts.get(name, other), each, forms)
            for name, each in default.items()
        }
    return default


def _alternative(form: Form, default: Any, forms: dict[str, Form]) -> Form:
    """Return the alternative of a union that a default has."""
    if "anyOf" not in form:
        return form
    found = (target_of(each, forms) for each in alternatives_of(form))
    return next((each for each in found if fits(each, default)), {})


class _Completion:
    """Walk through a form."""

    def __init__(self, forms: dict[str, Form], *, has_bytes: bool) -> None:
        self._forms = forms
        self._has_bytes = has_bytes
        self._begun: dict[str, Changes] = {}

    def of(self, form: Form) -> Changes | None:
        name = form.get("$ref")
        if name is None:
            return self._resolved(form)
        if name not in self._begun:
            changes = self._begun[name] = Changes()
            found = self._resolved(target_of(form, self._forms))
            if found is not None:
                changes.also(found)
                changes.set(found)
        return self._begun[name]

    def _resolved(self, form: Form) -> Changes | None:
        if "anyOf" in form:
            return self._union(form)
        if form.get("type") == "object":
            return self._object(form)
        return self._array(form) if form.get("type") == "array" else None

    def _union(self, form: Form) -> Changes | None:
        choices = []
        changes = Changes()
        for each in form["anyOf"]:
            part = self.of(each)
            if part is not None:
                changes.also(part)
                choices.append((target_of(each, self._forms), part))
        changes.set(lambda value: changed_by_choice(choices, value))
        return changes if choices else None

    def _object(self, form: Form) -> Changes | None:
        changes = Changes()
        if "properties" not in form:
            more = form.get("additionalProperties")
            part = self.of(more) if isinstance(more, dict) else None
            if part is None:
                return None
            inner = part
            changes.also(inner)
            changes.set(lambda value: changed_mapping(value, inner))
            return changes
        omitted = omitted_of(form, self._forms, has_bytes=self._has_bytes)
        found = {name: self.of(each) for name, each in form["properties"].items()}
        parts = {name: part for name, part in found.items() if part is not None}
        for part in parts.values():
            changes.also(part)
        if omitted:
            changes.mark()
        changes.set(lambda value: changed_object(value, omitted, {}, parts))
        return changes

    def _array(self, form: Form) -> Changes | None:
        changes = Changes()
        parts = [self.of(each) for each in form.get("prefixItems", ())]
        items = form.get("items")
        rest = self.of(items) if isinstance(items, dict) else None
        for part in (*parts, rest):
            changes.also(part)
        names = form.get("fields")
        if names is None:
            changes.set(lambda value: changed_array(value, parts, rest))
            return changes
        changes.mark()
        changes.set(lambda value: _named(changed_array(value, parts, rest), names))
        return changes


def _named(items: Any, names: list[str]) -> Any:
    """Return the items of an object that is an array, by their names."""
    return dict(zip(names, items, strict=False)) if isinstance(items, list) else items

"""Reconcile two JSON Schemas: can a reader's class take what a writer's class encoded, and what
must be renamed or converted on the way?
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

Form = dict[str, Any]
Change = Callable[[Any], Any]
"""Converts a decoded value of the writer's form to the reader's."""

_WIDTH = {"integer": 0, "number": 1, "decimal": 2}


class ConflictError(Exception):
    """Raised if no value of the writer's form has the reader's form.

    Attributes
    ----------
    field : str
        The path of the field, such as ``$.amount``.
    why : str
        The reason.
    """

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why


def reconciled(reader: Form, writer: Form) -> Change | None:
    """Compare two JSON Schemas.

    A field may be added with a default, removed, renamed with an alias, and widened or narrowed.

    Returns
    -------
    callable or None
        What converts a decoded value; None if the reader takes the values as they are.

    Raises
    ------
    ConflictError
        A field cannot be read.
    """
    change = _Walk(reader, writer).walk(reader, writer, "$")
    return change if change is not None and change.is_needed() else None


class _Changes:
    """Changes of the parts of a value. Recursive forms have changes that contain themselves, so
    whether one is needed is known only when the walk has ended.
    """

    def __init__(self, own: Change | None = None) -> None:
        self._own = own
        self._parts: list[_Changes] = []

    def also(self, part: _Changes | None) -> None:
        if part is not None:
            self._parts.append(part)

    def set(self, change: Change) -> None:
        self._change = change

    def mark(self) -> None:
        self._own = self._own or (lambda value: value)

    def is_needed(self, seen: frozenset[int] = frozenset()) -> bool:
        if self._own is not None:
            return True
        below = seen | {id(self)}
        return any(part.is_needed(below) for part in self._parts if id(part) not in below)

    def __call__(self, value: Any) -> Any:
        return self._change(value)


class _Walk:
    """Walk through two schemas in parallel."""

    def __init__(self, reader: Form, writer: Form) -> None:
        self._reader_forms = reader.get("$defs", {})
        self._writer_forms = writer.get("$defs", {})
        self._begun: dict[tuple[str, str], _Changes] = {}

    def walk(self, reader: Form, writer: Form, path: str) -> _Changes | None:
        ours, theirs = reader.get("$ref"), writer.get("$ref")
        if ours is None or theirs is None:
            return self._resolved(reader, writer, path)
        if (ours, theirs) in self._begun:
            return self._begun[ours, theirs]
        changes = self._begun[ours, theirs] = _Changes()
        changes.set(lambda value: value)
        found = self._resolved(reader, writer, path)
        if found is not None:
            changes.also(found)
            changes.set(found)
        return changes

    def _resolved(self, reader: Form, writer: Form, path: str) -> _Changes | None:
        reader = _target(reader, self._reader_forms)
        writer = _target(writer, self._writer_forms)
        ours, theirs = _kind(reader), _kind(writer)
        if "anyOf" in reader or "anyOf" in writer:
            return self._union(reader, writer, path)
        if "enum" in reader or "enum" in writer:
            _check_enum(reader, writer, path)
        elif ours in _WIDTH and theirs in _WIDTH:
            return _narrowed(ours, theirs)
        elif ours == theirs == "object":
            return self._object(reader, writer, path)
        elif ours == theirs == "array":
            return self._array(reader, writer, path)
        elif ours != theirs and ours is not None and theirs is not None:  # None: any value
            _fail(path, f"{_named(writer)} cannot be read as {_named(reader)}")
        return None

    def _union(self, reader: Form, writer: Form, path: str) -> _Changes | None:
        """Match each alternative of one side: all of the writer's, or, if the reader is narrower,
        all of the reader's.
        """
        ours, theirs = (side.get("anyOf", [side]) for side in (reader, writer))
        matches: list[tuple[int, int, _Changes | None]] = []
        for number, given in enumerate(theirs):
            shape = _target(given, self._writer_forms)
            for index, wanted in enumerate(ours):
                try:
                    matches.append((index, number, self.walk(wanted, given, path)))
                except ConflictError:
                    continue
                if _kind(_target(wanted, self._reader_forms)) == _kind(shape):
                    break
        is_wide = {number for _, number, _ in matches} == set(range(len(theirs)))
        is_narrow = {index for index, _, _ in matches} == set(range(len(ours)))
        if not is_wide and not is_narrow:
            _fail(path, f"{_named(writer)} cannot be read as {_named(reader)}")
        changes = _Changes()
        choices = []
        for _, number, part in matches:
            if part is not None:
                changes.also(part)
                choices.append((_target(theirs[number], self._writer_forms), part))
        changes.set(lambda value: _changed_by_choice(choices, value))
        return changes if choices else None

    def _object(self, reader: Form, writer: Form, path: str) -> _Changes | None:
        ours: dict[str, Form] = reader.get("properties", {})
        theirs: dict[str, Form] = writer.get("properties", {})
        if "properties" not in reader or "properties" not in writer:
            return self._mapping(reader, writer, path)
        sources = {name: _source(name, ours, theirs) for name in ours}
        found = {name: source for name, source in sources.items() if source is not None}
        if ours and theirs and not found and reader.get("title") != writer.get("title"):
            _fail(path, f"{_named(writer)} and {_named(reader)} have no field in common")
        for name in reader.get("required", ()):
            if sources[name] is None:
                _fail(
                    f"{path}.{name}",
                    "the messages do not have the field, and it has no default: give it one, or "
                    "an alias",
                )
        unknown = theirs.keys() - found.values()
        if reader.get("additionalProperties") is False and unknown:
            _fail(f"{path}.{min(unknown)}", "the class forbids unknown fields")
        changes = _Changes()
        renamed = {source: name for name, source in found.items() if source != name}
        if renamed:
            changes.mark()
        parts = {}
        for name, source in found.items():
            part = self.walk(ours[name], theirs[source], f"{path}.{name}")
            if part is not None:
                changes.also(part)
                parts[source] = part
        changes.set(lambda value: _changed_object(value, renamed, parts))
        return changes

    def _mapping(self, reader: Form, writer: Form, path: str) -> _Changes | None:
        """Handle a dict on one side or on both."""
        ours, theirs = reader.get("additionalProperties"), writer.get("additionalProperties")
        if not isinstance(ours, dict) or not isinstance(theirs, dict):
            return None
        part = self.walk(ours, theirs, f"{path}[...]")
        if part is None:
            return None
        changes = _Changes()
        changes.also(part)
        changes.set(
            lambda value: (
                {name: part(each) for name, each in value.items()}
                if isinstance(value, dict)
                else value
            )
        )
        return changes

    def _array(self, reader: Form, writer: Form, path: str) -> _Changes | None:
        ours, theirs = reader.get("prefixItems", []), writer.get("prefixItems", [])
        most = reader.get("maxItems")
        if (ours or theirs) and most is not None and writer.get("minItems", 0) > most:
            _fail(path, f"the messages have {writer['minItems']} items, and the class {most}")
        has_rest = isinstance(writer.get("items"), dict)
        if theirs and not has_rest and reader.get("minItems", 0) > len(theirs):
            _fail(
                f"{path}[{len(theirs)}]", "the messages do not have the item, and it has no default"
            )
        changes = _Changes()
        parts = []
        for index in range(max(len(ours), len(theirs))):
            our_item = ours[index] if index < len(ours) else reader.get("items")
            their_item = theirs[index] if index < len(theirs) else writer.get("items")
            part = None
            if isinstance(our_item, dict) and isinstance(their_item, dict):
                part = self.walk(our_item, their_item, f"{path}[{index}]")
            changes.also(part)
            parts.append(part)
        rest = None
        if isinstance(reader.get("items"), dict) and isinstance(writer.get("items"), dict):
            rest = self.walk(reader["items"], writer["items"], f"{path}[...]")
            changes.also(rest)
        changes.set(lambda value: _changed_array(value, parts, rest))
        return changes


def _fail(path: str, why: str) -> NoReturn:
    raise ConflictError(path, why)


def _target(form: Form, forms: dict[str, Form]) -> Form:
    while "$ref" in form:
        form = {**forms[form["$ref"].rpartition("/")[2]], **form}
        name = form.pop("$ref")
        form.setdefault("title", name.rpartition("/")[2])
    return form


def _source(name: str, ours: dict[str, Form], theirs: dict[str, Form]) -> str | None:
    """Return the writer's name of a reader's field; an alias may be on either side."""
    if name in theirs:
        return name
    for other, form in theirs.items():
        if other not in ours and (
            other in ours[name].get("aliases", ()) or name in form.get("aliases", ())
        ):
            return other
    return None


def _kind(form: Form) -> str | None:
    if form.get("format") == "decimal":
        return "decimal"
    if form.get("type") == "string" and "contentEncoding" in form:
        return "bytes"
    kind: str | None = form.get("type")
    return kind


def _named(form: Form) -> str:
    if "anyOf" in form:
        return " | ".join(_named(each) for each in form["anyOf"])
    if "$ref" in form:
        return str(form["$ref"].rpartition("/")[2])
    if "enum" in form:
        return f"one of {form['enum']}"
    return str(form.get("title") or _kind(form) or "any value")


def _narrowed(reader: str, writer: str) -> _Changes | None:
    """Widen as the decoder does; narrow a number if it keeps its value."""
    if _WIDTH[reader] >= _WIDTH[writer]:
        return None
    narrow = _narrow_integer if reader == "integer" else _narrow_float
    changes = _Changes(narrow)
    changes.set(narrow)
    return changes


def _narrow_integer(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, str):
        try:
            exact = Decimal(value)
        except InvalidOperation:
            return value
        return int(exact) if exact.is_finite() and exact == exact.to_integral_value() else value
    return value


def _narrow_float(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _check_enum(reader: Form, writer: Form, path: str) -> None:
    ours, theirs = reader.get("enum"), writer.get("enum")
    if ours is not None and theirs is not None:
        if not set(ours) & set(theirs):
            _fail(path, f"{_named(writer)} has no value of {_named(reader)}")
        return
    values, other = (ours, writer) if ours is not None else (theirs, reader)
    kind = _kind(other)
    fits = {"integer": (int,), "number": (int, float), "string": (str,)}.get(kind or "", ())
    if kind is not None and not all(isinstance(each, fits) for each in values or ()):
        _fail(path, f"{_named(writer)} cannot be read as {_named(reader)}")


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


def _fits(form: Form, value: Any) -> bool:
    """Return whether a decoded value has the form, as far as a tag tells."""
    if not isinstance(value, _PYTHON.get(_kind(form) or "", object)):
        return False
    if isinstance(value, dict):
        return all(
            value.get(name) in part["enum"]
            for name, part in form.get("properties", {}).items()
            if "enum" in part and name in form.get("required", ())
        )
    return True


def _changed_by_choice(choices: list[tuple[Form, _Changes]], value: Any) -> Any:
    for form, part in choices:
        if _fits(form, value):
            return part(value)
    return value


def _changed_object(value: Any, renamed: dict[str, str], parts: dict[str, _Changes]) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        renamed.get(name, name): parts[name](each) if name in parts else each
        for name, each in value.items()
    }


def _changed_array(value: Any, parts: list[_Changes | None], rest: _Changes | None) -> Any:
    if not isinstance(value, list):
        return value
    return [
        each if change is None else change(each)
        for each, change in zip(value, [*parts, *[rest] * (len(value) - len(parts))], strict=False)
    ]

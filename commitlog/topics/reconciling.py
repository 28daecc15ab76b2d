"""Reconcile two JSON Schemas: can a reader's class take what a writer's class encoded, and what
must be renamed or converted on the way?
"""

from __future__ import annotations

from typing import Any, NoReturn

from commitlog.topics.changes import (
    Change,
    Changes,
    changed_array,
    changed_by_choice,
    changed_mapping,
    changed_object,
    needed,
)
from commitlog.topics.completing import completion, native_default, omitted_of
from commitlog.topics.forms import (
    Form,
    alternatives_of,
    check_form,
    kind_of,
    tag_of,
    target_of,
    text_of,
)
from commitlog.topics.narrowing import WIDTH, number_change

_NONE = object()


class FormConflictError(Exception):
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


def reconciled(reader: Form, writer: Form, *, has_bytes: bool) -> Change | None:
    """Compare two JSON Schemas.

    A field may be added with a default, removed, renamed with an alias, moved, and widened or
    narrowed. What the writer left out, because it was a default, has the writer's default.

    Parameters
    ----------
    reader, writer : dict
        The forms.
    has_bytes : bool
        Plain values have bytes as they are, and not as text in base64.

    Returns
    -------
    callable or None
        What converts a decoded value; None if the reader takes the values as they are.

    Raises
    ------
    FormConflictError
        A field cannot be read.
    """
    check_form(writer)
    return needed(_Walk(reader, writer, has_bytes=has_bytes).walk(reader, writer, "$"))


class _Walk:
    """Walk through two schemas in parallel."""

    def __init__(self, reader: Form, writer: Form, *, has_bytes: bool) -> None:
        self._reader_forms = reader.get("$defs", {})
        self._writer_forms = writer.get("$defs", {})
        self._has_bytes = has_bytes
        self._begun: dict[tuple[str, str], Changes] = {}

    def walk(self, reader: Form, writer: Form, path: str) -> Changes | None:
        ours, theirs = reader.get("$ref"), writer.get("$ref")
        if ours is None or theirs is None:
            return self._resolved(reader, writer, path)
        if (ours, theirs) in self._begun:
            return self._begun[ours, theirs]
        changes = self._begun[ours, theirs] = Changes()
        try:
            found = self._resolved(reader, writer, path)
        except FormConflictError:
            del self._begun[ours, theirs]  # the next alternative of a union may ask again
            raise
        if found is not None:
            changes.also(found)
            changes.set(found)
        return changes

    def _resolved(self, reader: Form, writer: Form, path: str) -> Changes | None:
        reader = target_of(reader, self._reader_forms)
        writer = target_of(writer, self._writer_forms)
        ours, theirs = kind_of(reader), kind_of(writer)
        if "anyOf" in reader or "anyOf" in writer:
            return self._union(reader, writer, path)
        if "enum" in reader or "enum" in writer:
            _check_enum(reader, writer, path)
        elif ours in WIDTH and theirs in WIDTH:
            change = number_change(ours, theirs)
            return None if change is None else Changes(change)
        elif ours == theirs == "object":
            return self._object(reader, writer, path)
        elif ours == theirs == "array":
            return self._array(reader, writer, path)
        elif ours is None:  # any value
            return self._completed(writer)
        elif ours != theirs and theirs is not None:
            _fail(path, f"{text_of(writer)} cannot be read as {text_of(reader)}")
        return None

    def _union(self, reader: Form, writer: Form, path: str) -> Changes | None:
        """Match each alternative of one side: all of the writer's, or, if the reader is narrower,
        all of the reader's.
        """
        ours, theirs = map(alternatives_of, (reader, writer))
        self._check_tags(ours, theirs, path)
        matches: list[tuple[int, int, Changes | None]] = []
        for number, given in enumerate(theirs):
            shape = target_of(given, self._writer_forms)
            kinds = [kind_of(target_of(each, self._reader_forms)) for each in ours]
            own = kind_of(shape)
            for index in sorted(range(len(ours)), key=lambda at: kinds[at] != own):
                try:
                    matches.append((index, number, self.walk(ours[index], given, path)))
                except FormConflictError:
                    continue
                if kinds[index] == own:
                    break
        is_wide = {number for _, number, _ in matches} == set(range(len(theirs)))
        is_narrow = {index for index, _, _ in matches} == set(range(len(ours)))
        if not is_wide and not is_narrow:
            _fail(path, f"{text_of(writer)} cannot be read as {text_of(reader)}")
        changes = Changes()
        choices = []
        for _, number, part in matches:
            if part is not None:
                changes.also(part)
                choices.append((target_of(theirs[number], self._writer_forms), part))
        changes.set(lambda value: changed_by_choice(choices, value))
        return changes if choices else None

    def _object(self, reader: Form, writer: Form, path: str) -> Changes | None:
        ours: dict[str, Form] = reader.get("properties", {})
        theirs: dict[str, Form] = writer.get("properties", {})
        if "properties" not in reader or "properties" not in writer:
            return self._mapping(reader, writer, path)
        sources = {name: _source(name, ours, theirs) for name in ours}
        found = {name: source for name, source in sources.items() if source is not None}
        if ours and theirs and not found and reader.get("title") != writer.get("title"):
            _fail(path, f"{text_of(writer)} and {text_of(reader)} have no field in common")
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
        return self._changed_object(ours, writer, found, path)

    def _changed_object(
        self, ours: dict[str, Form], writer: Form, found: dict[str, str], path: str
    ) -> Changes | None:
        """Reconcile the fields of an object; `found` has the writer's names by the reader's."""
        theirs = writer["properties"]
        changes = Changes()
        renamed = {source: name for name, source in found.items() if source != name}
        omitted = omitted_of(writer, self._writer_forms, has_bytes=self._has_bytes)
        omitted = {
            source: omitted[source]
            for name, source in found.items()
            if source in omitted
            and not _is_same(ours[name].get("default", _NONE), theirs[source]["default"])
        }
        if renamed or omitted:
            changes.mark()
        parts = {}
        for name, source in found.items():
            part = self.walk(ours[name], theirs[source], f"{path}.{name}")
            if part is not None:
                changes.also(part)
                parts[source] = part
        changes.set(lambda value: changed_object(value, omitted, renamed, parts))
        return changes

    def _completed(self, writer: Form) -> Changes | None:
        """Return what adds the fields that the writer left out to values that the reader takes as
        they are.
        """
        change = completion(writer, self._writer_forms, has_bytes=self._has_bytes)
        return None if change is None else Changes(change)

    def _mapping(self, reader: Form, writer: Form, path: str) -> Changes | None:
        """Handle a dict on one side or on both."""
        if "properties" in writer:
            return self._completed(writer)
        ours, theirs = reader.get("keys"), writer.get("keys")
        if theirs is not None and "properties" not in reader:
            _check_keys(ours, theirs, f"{path}[...]")
        ours, theirs = reader.get("additionalProperties"), writer.get("additionalProperties")
        if not isinstance(ours, dict) or not isinstance(theirs, dict):
            return None
        part = self.walk(ours, theirs, f"{path}[...]")
        if part is None:
            return None
        changes = Changes()
        changes.also(part)
        changes.set(lambda value: changed_mapping(value, part))
        return changes

    def _check_tags(self, ours: list[Form], theirs: list[Form], path: str) -> None:
        """Refuse a class of a union that has another tag than before: its messages would be read as
        another class.
        """
        tags = {}
        for form in ours:
            shape = target_of(form, self._reader_forms)
            if "title" in shape:
                tags[shape["title"]] = tag_of(shape)
        for form in theirs:
            shape = target_of(form, self._writer_forms)
            before, now = tag_of(shape), tags.get(shape.get("title", ""))
            if before is not None and now is not None and before[1] != now[1]:
                _fail(
                    path,
                    f"{shape['title']} had the tag {before[1]!r}, and the class has {now[1]!r}",
                )

    def _array(self, reader: Form, writer: Form, path: str) -> Changes | None:
        if "fields" in reader and "fields" in writer:
            return self._named_array(reader, writer, path)
        ours, theirs = reader.get("prefixItems", []), writer.get("prefixItems", [])
        most = reader.get("maxItems")
        if (ours or theirs) and most is not None and writer.get("minItems", 0) > most:
            _fail(path, f"the messages have {writer['minItems']} items, and the class {most}")
        has_rest = isinstance(writer.get("items"), dict)
        if theirs and not has_rest and reader.get("minItems", 0) > len(theirs):
            _fail(
                f"{path}[{len(theirs)}]", "the messages do not have the item, and it has no default"
            )
        changes = Changes()
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
        changes.set(lambda value: changed_array(value, parts, rest))
        return changes

    def _named_array(self, reader: Form, writer: Form, path: str) -> Changes | None:
        """Find the items of an object that is an array by their names, as the fields of others."""
        ours = dict(zip(reader["fields"], reader["prefixItems"], strict=True))
        theirs = dict(zip(writer["fields"], writer["prefixItems"], strict=True))
        sources = {name: _source(name, ours, theirs) for name in ours}
        if not set(sources.values()) - {None}:
            _fail(path, f"{text_of(writer)} and {text_of(reader)} have no field in common")
        unknown = theirs.keys() - set(sources.values())
        if "maxItems" in reader and unknown:
            _fail(f"{path}.{min(unknown)}", "the class does not have the field")
        changes = Changes()
        places: list[tuple[int | None, Any]] = []  # of each item: its index before, or its value
        parts: list[Changes | None] = []
        order = list(theirs)
        while sources and list(sources.values())[-1] is None and len(sources) > _least(reader):
            sources.popitem()  # the decoder knows the defaults at the end
        for name, source in sources.items():
            if source is None and "default" not in ours[name]:
                _fail(
                    f"{path}.{name}",
                    "the messages do not have the field, and the schema has no default of it: "
                    "give it one, or put it at the end",
                )
            index = None if source is None else order.index(source)
            default = ours[name].get("default")
            if self._has_bytes:
                default = native_default(ours[name], default, self._reader_forms)
            places.append((index, default))
            part = None
            if source is not None:
                part = self.walk(ours[name], theirs[source], f"{path}.{name}")
                changes.also(part)
            parts.append(part)
        if [index for index, _ in places] != list(range(len(theirs))):
            changes.mark()
        changes.set(lambda value: _moved(value, places, parts))
        return changes


def _moved(value: Any, places: list[tuple[int | None, Any]], parts: list[Changes | None]) -> Any:
    """Return the items of an array at the places that the reader has for them."""
    if not isinstance(value, list):
        return value
    found = []
    for (index, default), part in zip(places, parts, strict=True):
        if index is None:
            found.append(default)
        elif index < len(value):
            found.append(value[index] if part is None else part(value[index]))
        else:
            raise ValueError(f"the message has {len(value)} items, and item {index} is missing")
    return found


def _least(reader: Form) -> int:
    return int(reader.get("minItems", 0))


def _is_same(ours: Any, theirs: Any) -> bool:
    return type(ours) is type(theirs) and bool(ours == theirs)


def _check_keys(ours: Form | None, theirs: Form, path: str) -> None:
    """Refuse keys of dicts that would be read as others. They are read as they are."""
    if ours is None or not _are_keys(ours, theirs):
        _fail(path, f"keys of {text_of(theirs)} cannot be read as {_keys_text(ours)}")
    for one in alternatives_of(ours):
        for other in alternatives_of(theirs):
            _check_members(one, other, path)
            if one.get("fields") != other.get("fields") and "fields" in one and "fields" in other:
                _fail(path, f"keys had the items {other['fields']}, and have {one['fields']}")


def _are_keys(ours: Form, theirs: Form) -> bool:
    kinds = [{kind_of(each) for each in alternatives_of(form)} for form in (ours, theirs)]
    return None in kinds[0] | kinds[1] or kinds[1] <= kinds[0]


def _keys_text(ours: Form | None) -> str:
    return "string" if ours is None else text_of(ours)


def _fail(path: str, why: str) -> NoReturn:
    raise FormConflictError(path, why)


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


def _check_enum(reader: Form, writer: Form, path: str) -> None:
    ours, theirs = reader.get("enum"), writer.get("enum")
    if ours is not None and theirs is not None:
        _check_members(reader, writer, path)
        if not set(ours) & set(theirs):
            _fail(path, f"{text_of(writer)} has no value of {text_of(reader)}")
        return
    values, other = (ours, writer) if ours is not None else (theirs, reader)
    kind = kind_of(other)
    fits = {"integer": (int,), "number": (int, float), "string": (str,)}.get(kind or "", ())
    if kind is not None and not all(isinstance(each, fits) for each in values or ()):
        _fail(path, f"{text_of(writer)} cannot be read as {text_of(reader)}")


def _check_members(reader: Form, writer: Form, path: str) -> None:
    members = reader.get("members", {})
    for name, value in writer.get("members", {}).items():
        if members.get(name, value) != value:
            _fail(path, f"{name} was {value!r}, and is {members[name]!r} in the class")

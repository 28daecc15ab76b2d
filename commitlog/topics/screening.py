"""Screening: find out which messages a codec of msgspec would give back as something else.

JSON writes NaN as null; a field of any type turns a tuple into a list, or a subclass into its base.
What is read is what was appended, so an append refuses such a message. Most classes need no look at
their messages, and of most others a short one is enough: see `MessageScreen`.
"""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import math
import uuid
from collections import abc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, get_args, get_origin, get_type_hints

from commitlog.base.extras import imported
from commitlog.topics.compiled.messages import MessageScreen
from commitlog.topics.pydantic_models import is_model
from commitlog.topics.schema_form import WITH_FIELDS, bare, components_of

_LEAVES = (bytes, bytearray, Decimal, uuid.UUID, dt.date, dt.timedelta)
# A value of another class, such as a tuple, is one of these, and is read as a list or a set.
_ABSTRACT = (abc.Collection, abc.Sequence, abc.MutableSequence, abc.Set, abc.MutableSet)
_SIMPLE = frozenset([str, int, float, bool, bytes, type(None)])
_DEEPEST = 100
_HAS_NUMBERS = 'the codec "msgpack" has such numbers'
_SHOWN = 100  # characters of a value in an error


class ReadBackError(ValueError):
    """Raised if a message would be read back as something else."""


def screen_of(
    message_class: Any,
    codec: str,
    decode: Callable[[bytes], Any],
    *,
    validate: bool,
) -> MessageScreen | None:
    """Return what refuses the messages that would be read back as something else; None if there are
    none.

    Parameters
    ----------
    message_class : type
        A type of msgspec.
    codec : str
        The format that the messages have: "json" or "msgpack".
    decode : callable
        Decodes messages of the class.
    validate : bool
        Decode each message.
    """
    msgspec = imported("msgspec", "the screen of a topic", "topics")
    look = _Look(takes_any_float=codec != "json")
    look.at(msgspec.inspect.type_info(message_class))
    look.is_open |= _has_abstract(message_class)
    walks = not (validate or look.needs_decoding)
    if walks and not (look.is_open or look.has_parts or look.has_null):
        return None
    return MessageScreen(
        lambda message, value: check_read_back(message, value, decode),
        walks=walks,
        only_null=walks and not look.is_open and not look.has_parts,
        takes_any_float=codec != "json",
        is_open=look.is_open,
        classes=look.classes,
        leaves=frozenset([*_LEAVES, *look.enums, type(msgspec.UNSET)]),
        names=look.names,
    )


@dataclass
class _Look:
    """What the types of a message class say about its values."""

    takes_any_float: bool
    is_open: bool = False  # a field takes any value, or any collection
    has_parts: bool = False  # a value may be of a subclass, or a time of a zone with seconds
    has_null: bool = False  # JSON may write null for a number
    needs_decoding: bool = False
    classes: dict[Any, tuple[str, ...] | None] = field(default_factory=dict)
    enums: list[Any] = field(default_factory=list)
    names: frozenset[str] | None = None

    def at(self, info: Any) -> None:
        """Look at a type and at all its parts."""
        seen: set[int] = set()
        dicts = 0  # uses of a TypedDict
        pending = [info]
        while pending:
            kind = bare(pending.pop())
            name = type(kind).__name__
            dicts += name == "TypedDictType"
            if name in WITH_FIELDS:
                if id(kind) in seen or self._class_of(kind) in self.classes:
                    continue
                seen.add(id(kind))
            self._part(kind, name)
            pending += components_of(kind)
        root = bare(info)
        if type(root).__name__ not in WITH_FIELDS:
            self.has_parts |= bool(self.classes)
        self.has_parts |= len(self.classes) > 1
        if type(root).__name__ == "TypedDictType":
            self.names = frozenset(each.encode_name for each in root.fields)
            self.has_parts = True
            dicts -= 1
        # The walk knows the keys of the message itself only.
        self.needs_decoding |= dicts > 0 or self._are_related()

    def _are_related(self) -> bool:
        """Return whether one class derives from another: the walk does not see which is meant."""
        return any(
            one is not other and issubclass(one, other)
            for one in self.classes
            for other in self.classes
        )

    def _class_of(self, kind: Any) -> Any:
        return getattr(kind.cls, "__origin__", kind.cls)

    def _part(self, kind: Any, name: str) -> None:
        if name in ("AnyType", "RawType", "ExtType"):
            self.is_open = True
        elif name == "CustomType":  # a model of pydantic, which decides what it writes
            self.needs_decoding = True
        elif name in ("FloatType", "NoneType"):
            self.has_null |= not self.takes_any_float
        elif name in ("DateTimeType", "TimeType"):
            self.has_parts = True
        elif name in ("DictType", "FrozenDictType"):
            self.needs_decoding |= _has_doubtful_keys(bare(kind.key_type))
        elif name == "EnumType":
            self.enums.append(kind.cls)
        elif name in WITH_FIELDS and name != "TypedDictType":
            self._note_class(kind)

    def _note_class(self, kind: Any) -> None:
        cls = self._class_of(kind)
        if issubclass(cls, tuple):
            self.classes[cls] = None
            return
        self.classes[cls] = tuple(each.name for each in kind.fields)
        self.needs_decoding |= hasattr(cls, "__post_init__")  # a reader calls it again
        try:
            hints = get_type_hints(cls)
        except (NameError, TypeError, AttributeError):
            hints = {}
        unset = imported("msgspec", "the screen of a topic", "topics").UnsetType
        self.is_open |= any(map(_has_abstract, hints.values()))
        for each in kind.fields:
            # The encoder leaves an unset field out, and a reader gives it the default.
            if unset in get_args(hints.get(each.name)) and type(each.default) is not type(
                each.default_factory
            ):
                self.needs_decoding = True


def _has_abstract(hint: Any) -> bool:
    """Return whether a type, or a part of it, is an abstract collection."""
    plain = getattr(hint, "__supertype__", hint)  # of a NewType
    return (get_origin(plain) or plain) in _ABSTRACT or any(map(_has_abstract, get_args(plain)))


def _has_doubtful_keys(kind: Any) -> bool:
    """Return whether keys of JSON may be read as others: NaN, or text that looks like a number."""
    name = type(kind).__name__
    if name == "UnionType":
        return True
    return name == "FloatType"


def check_read_back(message: Any, value: bytes, decode: Callable[[bytes], Any]) -> None:
    """Raise ReadBackError if a message is not read back from its value as it is."""
    try:
        found = decode(value)
    except (ValueError, RecursionError) as error:
        hint = f"; JSON writes NaN and infinity as null: {_HAS_NUMBERS}" if b"null" in value else ""
        raise ReadBackError(f"readers could not decode it: {error}{hint}") from error
    place = _difference(message, found)
    if place is not None:
        path, given, read = place
        is_number = isinstance(given, float) and read is None
        advice = _HAS_NUMBERS if is_number else "give one that is kept"
        raise ReadBackError(
            f"${path} is {_text(given)}, and would be read as {_text(read)}: {advice}"
        )


def _text(value: Any) -> str:
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _difference(given: Any, read: Any, depth: int = 0) -> tuple[str, Any, Any] | None:
    """Return the first difference of two values: its path, and both; None if there is none. The
    parts decide, because the `__eq__` of a class may leave fields out.
    """
    if type(given) in _SIMPLE and type(given) is type(read) and given == read:
        return None
    pairs = None if depth > _DEEPEST else _pairs(given, read)
    if pairs is None:
        return None if _are_equal(given, read) else ("", given, read)
    for step, one, other in pairs:
        found = _difference(one, other, depth + 1)
        if found is not None:
            path, *both = found
            return f"{_step_text(given, step)}{path}", both[0], both[1]
    return None


def _pairs(given: Any, read: Any) -> Iterable[tuple[Any, Any, Any]] | None:
    """Return the parts of two values, each with its key, index or name; None if they have no common
    parts.
    """
    if type(given) is not type(read):
        return None
    if isinstance(given, dict):
        if given.keys() != read.keys():
            return None
        return [(name, part, read[name]) for name, part in given.items()]
    if isinstance(given, list | tuple):
        return zip(itertools.count(), given, read) if len(given) == len(read) else None
    names = _field_names(given)
    if names is None:
        return None
    return [(name, getattr(given, name), getattr(read, name)) for name in names]


def _step_text(whole: Any, step: Any) -> str:
    if isinstance(whole, dict):
        return f"[{step!r:.40}]"
    return "[...]" if isinstance(whole, list | tuple) else f".{step}"


def _are_equal(given: Any, read: Any) -> bool:
    """Return whether two values without common parts are equal. NaN equals NaN."""
    if isinstance(given, float) and isinstance(read, float) and math.isnan(given):
        return math.isnan(read)
    if type(given) is not type(read) and _field_names(given) is not None:
        return False
    try:
        return are_same_time(given, read) or bool(given == read)
    except (ArithmeticError, RecursionError, TypeError):  # a signaling NaN of decimal
        return str(given) == str(read)


def are_same_time(given: Any, read: Any) -> bool:
    """Return whether two values are times with zones, and the same moment. While clocks change,
    times of different zones are never equal for Python.
    """
    if not (isinstance(given, dt.datetime) and isinstance(read, dt.datetime)):
        return False
    if given.utcoffset() is None or read.utcoffset() is None:
        return False
    return given - read == dt.timedelta()


def _field_names(value: Any) -> tuple[str, ...] | None:
    """Return the names of the fields of a value; None if its class has no fields."""
    if isinstance(value, enum.Enum):
        return None
    if is_model(type(value)):
        return (*type(value).model_fields, *(value.model_extra or ()))
    names: Iterable[str] | None = getattr(value, "__struct_fields__", None)
    if names is None:
        names = getattr(value, "__dataclass_fields__", None)
    return None if names is None else tuple(names)

"""Changes: convert decoded values of one form to another one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeAlias

from commitlog.topics.forms import Form, fits

Change: TypeAlias = Callable[[Any], Any]
"""Converts a decoded value; raises ValueError."""


class Changes:
    """Changes of the parts of a value. Recursive forms have changes that contain themselves, so
    whether one is needed is known only when the walk has ended.
    """

    def __init__(self, own: Change | None = None) -> None:
        self._own = own
        self._parts: list[Changes] = []
        self._change: Change = unchanged if own is None else own

    def also(self, part: Changes | None) -> None:
        """Add the change of a part."""
        if part is not None:
            self._parts.append(part)

    def set(self, change: Change) -> None:
        """Set what converts the value and its parts."""
        self._change = change

    def mark(self) -> None:
        """Note that the value itself changes."""
        self._own = self._own or unchanged

    def is_needed(self, seen: frozenset[int] = frozenset()) -> bool:
        """Return whether the value or a part changes."""
        if self._own is not None:
            return True
        below = seen | {id(self)}
        return any(part.is_needed(below) for part in self._parts if id(part) not in below)

    def __call__(self, value: Any) -> Any:
        return self._change(value)


def needed(changes: Changes | None) -> Change | None:
    """Return the changes; None if no value changes."""
    return changes if changes is not None and changes.is_needed() else None


def unchanged(value: Any) -> Any:
    return value


def changed_by_choice(choices: list[tuple[Form, Changes]], value: Any) -> Any:
    """Change a value by the first alternative that it fits."""
    for form, part in choices:
        if fits(form, value):
            return part(value)
    return value


def changed_object(
    value: Any,
    omitted: dict[str, Any],
    renamed: dict[str, str],
    parts: dict[str, Changes],
) -> Any:
    """Change an object: add the fields that the writer omitted, and rename and change fields."""
    if not isinstance(value, dict):
        return value
    for name, default in omitted.items():
        if name not in value:
            value[name] = copy.deepcopy(default) if isinstance(default, list | dict) else default
    if not renamed and not parts:
        return value
    return {
        renamed.get(name, name): parts[name](each) if name in parts else each
        for name, each in value.items()
    }


def changed_array(value: Any, parts: list[Changes | None], rest: Changes | None) -> Any:
    """Change the items of an array: the first ones by their own changes."""
    if not isinstance(value, list):
        return value
    more = len(value) - len(parts)
    return [
        each if change is None else change(each)
        for each, change in zip(value, [*parts, *[rest] * more], strict=False)
    ]


def changed_mapping(value: Any, part: Changes) -> Any:
    """Change the values of a dict."""
    if not isinstance(value, dict):
        return value
    return {name: part(each) for name, each in value.items()}

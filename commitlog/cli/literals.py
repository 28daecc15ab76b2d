"""Which bytes a regular expression cannot match without: they are found much faster than it is."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_MOST = 8  # alternatives that are looked for one by one

# The parser of `re` has no public name. Where it is not what we know, nothing is found out, and every record is searched.
_Items = Sequence[tuple[Any, Any]]


@dataclass(frozen=True)
class Needles:
    """What stands in every value that a regular expression matches.

    Attributes
    ----------
    texts : tuple of bytes
        At least one of them does.
    lowered : bool
        They are lower case, and so has the value to be when it is looked at.
    exact : bool
        A value with one of them is always a match.
    """

    texts: tuple[bytes, ...]
    lowered: bool
    exact: bool


def needles(pattern: re.Pattern[bytes]) -> Needles | None:
    """What has to be there for a match, as far as that is easily said; None where it is not."""
    try:
        items = list(importlib.import_module("re._parser").parse(pattern.pattern, pattern.flags))
        found = _required(items)
        whole = _literal(items)
    except (ImportError, AttributeError, TypeError, ValueError, RecursionError):
        return None
    if found is None or pattern.flags & re.LOCALE:
        return None
    lowered = bool(pattern.flags & re.IGNORECASE)
    texts = tuple(sorted({text.lower() for text in found} if lowered else found))
    return Needles(texts, lowered, whole is not None and texts == (whole.lower() if lowered else whole,))


def _required(items: _Items) -> frozenset[bytes] | None:
    """The best set of which one has to be there: its shortest text is the longest."""
    found: list[frozenset[bytes]] = []
    run = b""
    for operation, argument in items:
        kind = str(operation)
        if kind == "LITERAL":
            run += bytes([argument])
        elif kind == "AT":
            continue  # it takes no room
        elif (text := _literal([(operation, argument)])) is not None:
            run += text
        else:
            onward, within = _part(kind, argument)
            found += [frozenset({run + onward}), *within]
            run = onward
    found.append(frozenset({run}))
    best = max(found, key=_worth)
    return None if b"" in best or len(best) > _MOST else best


def _worth(texts: Iterable[bytes]) -> tuple[int, int]:
    listed = list(texts)
    return (min(map(len, listed)), -len(listed)) if len(listed) <= _MOST else (0, 0)


def _part(kind: str, argument: Any) -> tuple[bytes, list[frozenset[bytes]]]:
    """Of what is no plain text: what it begins and ends with, and what has to be there inside."""
    inside: frozenset[bytes] | None = None
    onward = b""
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, _, repeated = argument
        if least > 0:
            inside = _required(list(repeated))
            onward = _literal(list(repeated)) or b""
    elif kind == "SUBPATTERN":
        _, added, removed, content = argument
        if not (added | removed) & re.IGNORECASE:
            inside = _required(list(content))
    elif kind == "ATOMIC_GROUP":
        inside = _required(list(argument))
    elif kind == "BRANCH":
        ways = [_required(list(way)) for way in argument[1]]
        known = [way for way in ways if way is not None]
        if len(known) == len(ways):
            inside = frozenset().union(*known)
    return onward, [] if inside is None else [inside]


def _literal(items: _Items) -> bytes | None:
    """The text that alone matches, where it is one."""
    text = b""
    for operation, argument in items:
        kind = str(operation)
        if kind == "LITERAL":
            text += bytes([argument])
        elif kind == "SUBPATTERN" and not (argument[1] | argument[2]):
            inner = _literal(list(argument[3]))
            if inner is None:
                return None
            text += inner
        else:
            return None
    return text

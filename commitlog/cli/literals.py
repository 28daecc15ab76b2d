"""Which bytes a regular expression cannot match without: they are found much faster than it is."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
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
    choices : tuple of tuples of bytes
        Of each, at least one text does. The best comes first, as far as that can be said without the values.
    lowered : bool
        They are lower case, and so has the value to be when it is looked at.
    exact : bool
        There is one choice, and a value with its text is always a match.
    """

    choices: tuple[tuple[bytes, ...], ...]
    lowered: bool
    exact: bool


def needles(pattern: re.Pattern[bytes]) -> Needles | None:
    """What has to be there for a match, as far as that is easily said; None where it is not."""
    try:
        items = list(importlib.import_module("re._parser").parse(pattern.pattern, pattern.flags))
        found = _choices(items)
        whole = _literal(items)
    except (ImportError, AttributeError, TypeError, ValueError, RecursionError):
        return None
    if not found or pattern.flags & re.LOCALE:
        return None
    lowered = bool(pattern.flags & re.IGNORECASE)
    choices = tuple(tuple(sorted({text.lower() for text in texts} if lowered else texts)) for texts in found)
    return Needles(choices, lowered, whole is not None and choices == ((whole.lower() if lowered else whole,),))


def _choices(items: _Items) -> list[frozenset[bytes]]:
    """Sets of which one text each has to be there, the one whose shortest text is the longest first."""
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
    return sorted((texts for texts in found if b"" not in texts and len(texts) <= _MOST), key=_worth, reverse=True)


def _required(items: _Items) -> frozenset[bytes] | None:
    """The best of them."""
    found = _choices(items)
    return found[0] if found else None


def _worth(texts: frozenset[bytes]) -> tuple[int, int, list[bytes]]:
    return min(map(len, texts)), -len(texts), sorted(texts)


def _part(kind: str, argument: Any) -> tuple[bytes, list[frozenset[bytes]]]:
    """Of what is no plain text: what it begins and ends with, and what has to be there inside."""
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, _, repeated = argument
        if least > 0:
            return _literal(list(repeated)) or b"", _choices(list(repeated))
    elif kind == "SUBPATTERN":
        _, added, removed, content = argument
        if not (added | removed) & re.IGNORECASE:
            return b"", _choices(list(content))
    elif kind == "ATOMIC_GROUP":
        return b"", _choices(list(argument))
    elif kind == "BRANCH":
        ways = [_required(list(way)) for way in argument[1]]
        known = [way for way in ways if way is not None]
        if len(known) == len(ways):
            return b"", [frozenset().union(*known)]
    return b"", []


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

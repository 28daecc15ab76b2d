"""What stands in every match of a regular expression that no text is known of: bytes of certain kinds, one behind the other."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from commitlog._kernel.needle import RUN_MOST

_ONE_BYTE = ("LITERAL", "NOT_LITERAL", "ANY", "IN")
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_BREAK = b""  # what stands here is not known
# Runs that most values have are not worth while: so much of an even mixture of bytes has the best of them.
_WORTH = 1.0


@dataclass(frozen=True)
class Run:
    """Bytes that stand in every value that a regular expression matches.

    Attributes
    ----------
    kinds : tuple of bytes
        Of each place, the bytes that may stand there.
    exact : bool
        A value with such a run is always a match.
    """

    kinds: tuple[bytes, ...]
    exact: bool


def run_of(pattern: re.Pattern[bytes]) -> Run | None:
    """The run that is the hardest to find; None where there is none, or nearly everything is one."""
    # The parser of `re` has no public name. Where it is not what we know, nothing is found out, and every record is searched.
    try:
        parser, compiler = (importlib.import_module(f"re.{name}") for name in ("_parser", "_compiler"))
        parsed = parser.parse(pattern.pattern, pattern.flags)
        kinds, exact = _Walk(parser, compiler, parsed.state).of(parsed, last=True)
    except (ImportError, AttributeError, TypeError, ValueError, RecursionError, re.error):
        return None
    if pattern.flags & re.LOCALE:
        return None
    best = max(_pieces(kinds), key=_rareness, default=())
    return Run(best, exact and len(best) == len(kinds)) if best and _rareness(best) > _WORTH else None


def _rareness(kinds: tuple[bytes, ...]) -> float:
    """In bits: by how often such bytes come in an even mixture."""
    return sum(8 - math.log2(len(kind)) for kind in kinds)


def _pieces(kinds: list[bytes]) -> Iterator[tuple[bytes, ...]]:
    """What stands between two breaks, no more of it than can be looked for."""
    start = 0
    for stop in [at for at, kind in enumerate(kinds) if kind == _BREAK] + [len(kinds)]:
        for first in range(start, max(start + 1, stop - RUN_MOST + 1)):
            if first < stop:
                yield tuple(kinds[first : min(stop, first + RUN_MOST)])
        start = stop + 1


class _Walk:
    """Goes through a parsed expression. Beside the kinds it says whether they are all that a match needs."""

    def __init__(self, parser: Any, compiler: Any, state: Any) -> None:
        self._parser = parser
        self._compiler = compiler
        self._state = state

    def of(self, items: Any, *, last: bool) -> tuple[list[bytes], bool]:
        """The kinds of some items; `last`: nothing comes behind them."""
        found: list[bytes] = []
        exact = True
        for place, item in enumerate(items, 1):
            kinds, whole = self._item(*item, last=last and place == len(items))
            if len(found) < 4 * RUN_MOST:
                found += kinds
            else:
                whole = False
            exact = exact and whole
        return found, exact

    def _item(self, operation: Any, argument: Any, *, last: bool) -> tuple[list[bytes], bool]:
        kind = str(operation)
        if kind in _ONE_BYTE:
            return [self._bytes(operation, argument)], True
        if kind == "AT":
            return [], False  # it takes no room
        if kind == "SUBPATTERN" and not (argument[1] | argument[2]):
            return self.of(argument[3], last=last)
        if kind in _REPEATS and argument[0] > 0:
            return self._repeated(*argument, last=last)
        return [_BREAK], False

    def _repeated(self, least: int, most: Any, repeated: Any, *, last: bool) -> tuple[list[bytes], bool]:
        kinds, whole = self.of(repeated, last=False)
        if _BREAK in kinds:
            return [_BREAK, *kinds, _BREAK], False
        if least * len(kinds) > RUN_MOST:
            return [*(kinds * min(least, RUN_MOST))[:RUN_MOST], _BREAK], False
        kinds = kinds * least
        # More of them may follow: what comes next stands behind the last ones. Behind the very last nothing does.
        return (kinds, whole) if last or least == most else ([*kinds, _BREAK, *kinds], False)

    def _bytes(self, operation: Any, argument: Any) -> bytes:
        """What one item matches: as the very compiler of `re` says."""
        one = self._compiler.compile(self._parser.SubPattern(self._state, [(operation, argument)]), self._state.flags)
        return bytes(byte for byte in range(256) if one.fullmatch(bytes([byte])))

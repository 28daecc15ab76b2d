"""Conditions on the fields of messages: ``amount > 3 and customer.city in ["Berlin", "Rome"]``."""

from __future__ import annotations

import base64
import datetime as dt
import json
import operator
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from commitlog.messages.narrowing import bounded_decimal

_Test = Callable[[Any], bool]
_Operand = Callable[[Any], Any]

_LONGEST = 10_000  # characters of a condition
_DEEPEST = 50  # parentheses and `not` within each other
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?!\w))
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<name>[^\W\d]\w*|`[^`]+`)
      | (?P<sign>[=!<>]=|[<>=()\[\],.])
    )""",
    re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "null": None}
_KEYWORDS = ("and", "or", "not", "in", *_WORDS)
_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MISSING = object()


class Condition:
    """A condition on a message, as dicts and lists: see `condition`."""

    def __init__(self, meets: _Test, fields: list[_Field]) -> None:
        self._meets = meets
        self._fields = fields

    def __call__(self, message: Any) -> bool:
        return self._meets(message)

    @property
    def unknown(self) -> list[str]:
        """Return the fields that no message had, of those that were looked for."""
        missed = [each.text for each in self._fields if each.is_missed and not each.is_found]
        return list(dict.fromkeys(missed))


class _Field:
    """A field of messages, by the names and indexes that lead to it."""

    def __init__(self, text: str, steps: list[str | int]) -> None:
        self.text = text
        self.is_found = self.is_missed = False
        self._steps = steps

    def __call__(self, message: Any) -> Any:
        value = _value_at(message, self._steps)
        if value is _MISSING:
            self.is_missed = True
        else:
            self.is_found = True
        return value


def condition(text: str) -> Condition:
    """Read a condition.

    It compares fields with each other and with numbers, texts in quotes, true, false, null, by ==,
    !=, <, <=, >, >=, and by ``in`` with a list; ``and``, ``or``, ``not`` and parentheses join
    comparisons. A field is a name, with those of the objects in it behind dots, and indexes in
    brackets; a name in backquotes may have any characters. A field alone means that it is true.

    A comparison with a field that the message does not have is false, except ``== null``.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST:,} characters")
    parser = _Parser(text)
    found = parser.either(0)
    parser.end()
    return Condition(found, parser.fields)


class _Parser:
    """Read the tokens of a condition from left to right."""

    def __init__(self, text: str) -> None:
        self.fields: list[_Field] = []
        self._text = text
        self._at = 0
        self._before = 0  # the end of the token before this one
        self._kind: str | None = None
        self._token = ""
        self._step()

    def _step(self) -> None:
        self._before = self._at
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            self._at += len(self._text) - self._at - len(self._text[self._at :].lstrip())
            self._kind, self._token = None, ""
            if self._at < len(self._text):
                self._refuse(f"{self._text[self._at]!r} is not expected")
            return
        self._at = match.end()
        self._kind = match.lastgroup
        self._token = match[self._kind or 0]

    def _refuse(self, why: str) -> NoReturn:
        raise ValueError(f"{why} at character {self._at - len(self._token) + 1}")

    def _is(self, *tokens: str) -> bool:
        return self._kind in ("sign", "name") and self._token in tokens

    def _took(self, *tokens: str) -> bool:
        if not self._is(*tokens):
            return False
        self._step()
        return True

    def _expect(self, token: str) -> None:
        if not self._took(token):
            self._refuse(f"{token!r} is missing")

    def end(self) -> None:
        """Refuse what is behind the condition."""
        if self._kind is not None:
            self._refuse(f"{self._token!r} is not expected")

    def either(self, depth: int) -> _Test:
        """Read conditions that are joined by ``or``."""
        parts = [self._both(depth)]
        while self._took("or"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else lambda found: any(part(found) for part in parts)

    def _both(self, depth: int) -> _Test:
        parts = [self._negated(depth)]
        while self._took("and"):
            parts.append(self._negated(depth))
        return parts[0] if len(parts) == 1 else lambda found: all(part(found) for part in parts)

    def _negated(self, depth: int) -> _Test:
        if depth > _DEEPEST:
            self._refuse(f"more than {_DEEPEST} levels are nested")
        if self._took("not"):
            part = self._negated(depth + 1)
            return lambda found: not part(found)
        if self._took("("):
            part = self.either(depth + 1)
            self._expect(")")
            return part
        return self._comparison()

    def _comparison(self) -> _Test:
        left = self._operand()
        if self._is(*_SIGNS):
            compare = _SIGNS[self._token]
            self._step()
            right = self._operand()
            return lambda found: _compared(compare, left(found), right(found))
        negated = self._took("not")
        if not self._took("in"):
            if negated:
                self._refuse("'in' is missing")
            return lambda found: _is_true(left(found))
        choice = self._list() if self._is("[", "(") else self._operand()
        return lambda found: _within(left(found), choice(found)) is not negated

    def _list(self) -> _Operand:
        end = "]" if self._token == "[" else ")"
        self._step()
        items = []
        while not self._took(end):
            items.append(self._operand())
            if not self._took(","):
                self._expect(end)
                break
        return lambda found: [item(found) for item in items]

    def _operand(self) -> _Operand:
        value: Any
        if self._kind == "number":
            value = Decimal(self._token) if set(self._token) & set(".eE") else int(self._token)
        elif self._kind == "text":
            value = _unquoted(self._token)
            if value is None:
                self._refuse(f"{self._token} has a wrong backslash")
        elif self._is(*_WORDS):
            value = _WORDS[self._token]
        else:
            return self._path()
        self._step()
        return lambda _: value

    def _path(self) -> _Operand:
        start = self._at - len(self._token)
        steps: list[str | int] = [self._name()]
        while self._is(".", "["):
            if self._took("."):
                steps.append(self._name())
                continue
            self._step()
            if self._kind != "number" or not self._token.isdigit():
                self._refuse("an index is missing")
            steps.append(int(self._token))
            self._step()
            self._expect("]")
        # The token behind the field is read already.
        field = _Field(self._text[start : self._before].strip(), steps)
        self.fields.append(field)
        return field

    def _name(self) -> str:
        if self._kind != "name" or self._token in _KEYWORDS:
            self._refuse("a field or a value is missing")
        name = self._token.strip("`")
        self._step()
        return name


def _unquoted(token: str) -> str | None:
    """Return the text in quotes, with the backslash sequences of JSON."""
    inner = token[1:-1]
    if token[0] == "'":
        inner = re.sub(r'\\(.)|(")', lambda each: '\\"' if each[2] else _plain(each), inner)
    try:
        found: str = json.loads(f'"{inner}"', strict=False)
    except json.JSONDecodeError:
        return None
    return found


def _plain(escape: re.Match[str]) -> str:
    return "'" if escape[1] == "'" else escape[0]


# --- values ---------------------------------------------------------------------------------------


def _value_at(found: Any, steps: list[str | int]) -> Any:
    for step in steps:
        try:
            found = found[step]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return found


def _is_true(value: Any) -> bool:
    return value is not _MISSING and bool(value)


def _within(value: Any, choice: Any) -> bool:
    if value is _MISSING:
        return False
    if isinstance(choice, str):
        return isinstance(value, str) and value in choice
    if isinstance(choice, list | tuple | dict):
        return any(_compared(operator.eq, value, each) for each in choice)
    return False


def _compared(compare: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
    if left is _MISSING or right is _MISSING:
        return compare is operator.eq and (left is None or right is None)
    if compare in (operator.eq, operator.ne) and (left is None or right is None):
        return bool(compare(left, right))
    try:
        pair = _comparable(_simple(left), _simple(right))
        if pair is None:
            return compare is operator.ne  # values of different kinds are different
        return bool(compare(*pair))
    except (TypeError, ValueError, ArithmeticError):
        return False


def _simple(value: Any) -> Any:
    """Return bytes as they are printed."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _comparable(left: Any, right: Any) -> tuple[Any, Any] | None:
    """Bring two values to one kind; None if they have none in common.

    A number also compares with a text that is a decimal number, and a time with an ISO text.
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return (left, right) if type(left) is type(right) else None
    if _is_number(left) and _is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            return float(left), float(right)
        return left, right
    for text, other, turned in ((left, right, False), (right, left, True)):
        if isinstance(text, str) and not isinstance(other, str):
            read = _read_as(other, text)
            if read is None:
                return None
            return (other, read) if turned else (read, other)
    return (left, right) if type(left) is type(right) else None


def _read_as(other: Any, text: str) -> Any:
    try:
        if _is_number(other):
            return bounded_decimal(text)
        if isinstance(other, dt.datetime | dt.date | dt.time):
            return type(other).fromisoformat(text)
    except (ValueError, ArithmeticError):
        pass
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal)

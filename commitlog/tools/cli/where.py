"""Conditions on the fields of messages: ``amount > 3 and customer.city in ["Berlin", "Rome"]``."""

from __future__ import annotations

import ast
import base64
import datetime as dt
import json
import operator
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from commitlog.topics.narrowing import bounded_decimal

_Test = Callable[[Any], bool]
_Operand = Callable[[Any], Any]

_LONGEST = 10_000  # characters of a condition
_DEEPEST = 50  # `and`, `or` and `not` within each other
_NAME = r"(?:[^\W\d]\w*|`[^`]+`)"
_TOKEN = re.compile(
    rf"""(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?!\w))
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<operator>(?:and|or|not|in)\b|[=!<>]=|[<>()\[\],])
      | (?P<field>{_NAME}(?:\s*\.\s*{_NAME}|\s*\[\s*\d+\s*\])*)
      | (?P<equal>=)
      | (?P<space>\s)
      | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_TOO_DEEP = f"more than {_DEEPEST} levels are nested"
_STEP = re.compile(r"`([^`]+)`|([^\W\d]\w*)|(\d+)")
_WORDS = {"true": True, "false": False, "null": None}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
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

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_found = self.is_missed = False
        self._steps = [
            int(index) if index else quoted or name for quoted, name, index in _STEP.findall(text)
        ]

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
    brackets; a name in backquotes may have any characters. A field alone is true if it is there,
    and not false, null, zero or empty.

    A comparison with a field that the message does not have is false, except ``== null``.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST:,} characters")
    reader = _Reader(text)
    return Condition(reader.read(), reader.fields)


class _Reader:
    """Read a condition with Python's grammar.

    `ast` sees only operators and brackets. Each field and each value is a name there, `_0`, `_1`
    and so on: the keywords, literals and attributes of Python cannot be in a condition.
    """

    def __init__(self, text: str) -> None:
        self.fields: list[_Field] = []
        self._operands: list[_Operand] = []
        self._texts: list[str] = []  # as they are in the condition
        self._source = _TOKEN.sub(self._translate, text).strip()

    def read(self) -> _Test:
        try:
            found = ast.parse(self._source, mode="eval").body
        except SyntaxError as error:
            if not error.offset:
                raise ValueError("a field or a value is missing at the end") from None
            why, rest = error.msg.partition(".")[0], self._original(error.offset - 1)
            raise ValueError(f"{why} near {rest!r}") from None
        except (RecursionError, MemoryError):
            raise ValueError(_TOO_DEEP) from None
        return self._test(found, 0)

    def _translate(self, token: re.Match[str]) -> str:
        text = token.group()
        match token.lastgroup:
            case "operator":
                return text
            case "equal":
                return "=="
            case "space":
                return " "
            case "other":
                raise ValueError(f"{text!r} is not expected at character {token.start() + 1}")
            case "field" if text not in _WORDS:
                field = _Field(text)
                self.fields.append(field)
                self._operands.append(field)
            case _:
                self._operands.append(_constant(token))
        self._texts.append(text)
        return f" _{len(self._texts) - 1} "

    def _original(self, start: int, stop: int | None = None) -> str:
        """Return a part of the condition, by its place in the source for `ast`."""
        source = self._source[start:stop]
        return re.sub(r" ?_(\d+) ?", lambda name: self._texts[int(name[1])], source)

    def _test(self, node: ast.expr, depth: int) -> _Test:
        if depth > _DEEPEST:
            raise ValueError(_TOO_DEEP)
        match node:
            case ast.BoolOp(op, values):
                parts = [self._test(each, depth + 1) for each in values]
                joined = all if isinstance(op, ast.And) else any
                return lambda found: joined(part(found) for part in parts)
            case ast.UnaryOp(ast.Not(), operand):
                negated = self._test(operand, depth + 1)
                return lambda found: not negated(found)
            case ast.Compare(left, [sign], [right]):
                return self._comparison(self._operand(left), sign, right)
        value = self._operand(node)
        return lambda found: _is_true(value(found))

    def _comparison(self, left: _Operand, sign: ast.cmpop, node: ast.expr) -> _Test:
        compare = _COMPARISONS.get(type(sign))
        if compare is not None:
            right = self._operand(node)
            return lambda found: _compared(compare, left(found), right(found))
        negated = isinstance(sign, ast.NotIn)
        choice = self._choice(node)
        return lambda found: _within(left(found), choice(found)) is not negated

    def _choice(self, node: ast.expr) -> _Operand:
        """Return what is behind `in`: a field, a text, or a list, also in parentheses."""
        if isinstance(node, ast.List | ast.Tuple):
            items = [self._operand(each) for each in node.elts]
        elif self._source[: node.col_offset].rstrip().endswith("("):
            items = [self._operand(node)]
        else:
            return self._operand(node)
        return lambda found: [item(found) for item in items]

    def _operand(self, node: ast.expr) -> _Operand:
        if isinstance(node, ast.Name):
            return self._operands[int(node.id[1:])]
        text = self._original(node.col_offset, node.end_col_offset)
        raise ValueError(f"{text!r} is not a field or a value")


def _constant(token: re.Match[str]) -> _Operand:
    """Return a number, a text, true, false or null."""
    text = token.group()
    value: Any
    if token["field"] is not None:
        value = _WORDS[text]
    elif token["text"] is not None:
        value = _unquoted(text)
        if value is None:
            raise ValueError(f"{text} has a wrong backslash")
    else:
        try:
            value = Decimal(text) if set(text) & set(".eE") else int(text)
        except (ValueError, ArithmeticError):
            raise ValueError("a number has too many digits") from None
    return lambda _: value


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

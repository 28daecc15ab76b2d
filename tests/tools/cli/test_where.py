"""Conditions on fields: what they mean, and what is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from commitlog.tools.cli.where import condition

MESSAGE: dict[str, Any] = {
    "amount": 5,
    "price": "12.50",
    "rate": 0.1,
    "exact": Decimal("0.1"),
    "item": 'a "big" lamp',
    "paid": True,
    "note": None,
    "raw": b"abcd",
    "at": dt.datetime(2026, 5, 1, tzinfo=dt.UTC),
    "customer": {"city": "Berlin", "first-name": "Lena"},
    "lines": [{"sku": "x1", "n": 2}, {"sku": "x2", "n": 7}],
    "tags": ["red", "blue"],
}
TRUE = [
    "amount > 3",
    "amount >= 5 and amount <= 5",
    "amount = 5",
    "amount != 6",
    "3 < amount",
    "not amount > 5",
    "amount > 100 or amount < 6",
    "(amount > 100 or amount < 6) and paid",
    "not (amount > 100 and missing)",
    "amount == 5.0",
    "amount > -1e3",
    "price == 12.5",
    "price > 9",
    'price == "12.50"',
    "rate == 0.1",
    "exact == 0.1",
    "item == 'a \"big\" lamp'",
    r'item == "a \"big\" lamp"',
    r"item != 'it\'s'",
    "'lamp' in item",
    "paid",
    "paid == true",
    "paid != 1",
    "note == null",
    "missing == null",
    "amount != null",
    "raw == 'YWJjZA=='",
    "at > '2026-04-30T00:00:00Z'",
    "at == '2026-05-01T02:00:00+02:00'",
    "customer.city in ['Berlin', 'Rome']",
    'customer.city in ("Berlin")',
    "customer.`first-name` = 'Lena'",
    "'city' in customer",
    "lines[1].n > lines[0].n",
    "'red' in tags and not 'green' in tags",
    "'green' not in tags",
    "amount not in [1, 2]",
    "amount in [4, amount]",
    "amount != 'five'",
]
FALSE = [
    "amount > 5",
    "amount > 'x'",
    "amount < item",
    "missing != 3",
    "missing > 3",
    "missing == missing",
    "missing",
    "note",
    "note != null",
    "missing != null",
    "missing in [1]",
    "amount in 5",
    "amount in []",
    "paid == 1",
    "lines[2].n == 7",
    "lines.n == 7",
    "amount.x == 7",
    "at > 'yesterday'",
    "rate > 1e999999",
    "at > '2026-05-01'",
    "price > 'x' and paid",
]
REFUSED = {
    "": "a field or a value is missing at the end",
    "amount >": "a field or a value is missing at the end",
    "amount > 3 4": "invalid syntax near '4'",
    "amount > 3)": r"unmatched '\)' near '\)'",
    "(amount > 3": r"'\(' was never closed near '\(amount > 3'",
    "amount & 3": "'&' is not expected at character 8",
    "amount > 3 # and paid": "'#' is not expected at character 12",
    "and": "invalid syntax near 'and'",
    "amount not 3": "invalid syntax near '3'",
    "lines[x] > 3": r"'lines\[x\]' is not a field or a value",
    "lines[-1] > 3": r"'lines\[-1\]' is not a field or a value",
    "a.": "'.' is not expected at character 2",
    '"open': "'\"' is not expected at character 1",
    r'a == "\x"': "wrong backslash",
    "a in [1": "was never closed",
    "a in [1,,2]": "invalid syntax near ',2\\]'",
    "3x > 1": "'3' is not expected at character 1",
    "1 < a < 3": "'1 < a < 3' is not a field or a value",
    "a == [1]": r"'\[1\]' is not a field or a value",
    "a > 1e" + "9" * 30: "too many digits",
    "a > " + "9" * 5000: "too many digits",
}
HOSTILE = [
    "__import__('os')",
    "a.__class__.__mro__[1].__subclasses__()",
    "(lambda: 1)()",
    "(a := 3)",
    "[x for x in a]",
    "{x for x in a}",
    "{**a}",
    "f'{a}'",
    "b'x' == a",
    "a if b else c",
    "await a",
    "a; import os",
    "a\nimport os",
    "9**9**9**9",
    "'x' * 9999999999",
    "a @ b",
    "~a",
    "...",
    "*a, b",
    "a, b",
    "a[1:2]",
    "not " * 60 + "a",
    "not " * 2_400 + "a",
    "-" * 9_999,
    "(" * 9_999,
    "(" * 4_000 + "a" + ")" * 4_000,
    "[" * 10_000,
    "a in " + "[" * 150 + "]" * 150,
    "a" + "()" * 4_999,
    "a == " * 1_999 + "a",
    "(" * 10_001,
    "a\0b",
    "\ud800",
]


@pytest.mark.parametrize("text", TRUE)
def test_met_condition_includes_the_message(text: str) -> None:
    assert condition(text)(MESSAGE)


@pytest.mark.parametrize("text", FALSE)
def test_unmet_condition_excludes_the_message(text: str) -> None:
    assert not condition(text)(MESSAGE)


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:20])
def test_invalid_condition_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ValueError, match=REFUSED[text]):
        condition(text)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:20])
def test_hostile_condition_is_refused_with_one_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not|near|nested|missing|longer"):
        condition(text)


def test_fields_may_have_the_names_of_keywords() -> None:
    message = {"from": 1, "lambda": {"class": 2}, "__class__": 3, "µs": 4, "in": 5, "None": 6}
    text = "from == 1 and lambda.class == 2 and __class__ == 3 and µs == 4 and `in` == 5"
    assert condition(f"{text} and None == 6")(message)
    assert not condition("__class__.__name__ == 'dict'")({})


def test_long_list_and_long_path_are_bounded_by_the_text_alone() -> None:
    assert condition(f"a in [{', '.join(map(str, range(1_500)))}]")({"a": 1_499})
    assert condition("a" + ".b" * 4_000 + " == null")({})
    assert condition(" or ".join(["a == 1"] * 900))({"a": 1})


@pytest.mark.parametrize("message", [None, 3, "text", [1], [], {}, b"x"])
def test_fields_of_a_message_without_fields_are_null(message: Any) -> None:
    assert not condition("amount > 3")(message)
    assert condition("amount == null")(message)


@given(some.text(alphabet="abn()[]'\"<>=!.,0123 -e\\`", max_size=40))
def test_any_text_is_a_condition_or_a_value_error(text: str) -> None:
    try:
        found = condition(text)
    except ValueError:
        return
    assert found({"a": 1, "b": {"n": [1, "2"]}}) in (True, False)


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("amont > 3", ["amont"]),
        ("customer.city == Rome", ["Rome"]),
        ("customer . town == 'Rome' or lines[7].sku == 'x'", ["customer . town", "lines[7].sku"]),
        ("`first name` in [1] or amount > amont", ["`first name`", "amont"]),
        ("amount > 5 and amont > 3", []),  # no message made it look for the second field
        ("amount > 3 and item == 'x'", []),
    ],
)
def test_fields_that_no_message_had_are_known(text: str, unknown: list[str]) -> None:
    found = condition(text)
    for _ in range(2):
        found(MESSAGE)
    assert found.unknown == unknown


def test_field_that_one_message_had_is_not_unknown() -> None:
    found = condition("note > 3")
    for message in ({}, {"note": 1}, {}):
        found(message)
    assert found.unknown == []


values = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(),
    some.floats(),
    some.decimals(),
    some.text(max_size=4),
    some.binary(max_size=4),
    some.datetimes(),
    some.dates(),
    some.lists(some.integers(), max_size=2),
)


@given(values, values)
def test_any_two_values_compare_without_an_error(left: Any, right: Any) -> None:
    for sign in ("==", "!=", "<", "<=", ">", ">=", "in", "not in"):
        assert condition(f"a {sign} b")({"a": left, "b": right}) in (True, False)

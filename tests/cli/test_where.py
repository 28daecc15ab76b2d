"""Conditions on fields: what they mean, and what is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from commitlog.cli.where import condition

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
    "": "a field or a value is missing at character 1",
    "amount >": "a field or a value is missing at character 9",
    "amount > 3 4": "'4' is not expected at character 12",
    "amount > 3)": r"'\)' is not expected at character 11",
    "(amount > 3": r"'\)' is missing",
    "amount & 3": "'&' is not expected at character 8",
    "and": "a field or a value is missing at character 1",
    "amount not 3": "'in' is missing",
    "lines[x] > 3": "an index is missing",
    "lines[-1] > 3": "an index is missing",
    "a.": "a field or a value is missing",
    '"open': "'\"' is not expected at character 1",
    r'a == "\x"': "wrong backslash",
    "a in [1": "']' is missing",
    "a in [1,,2]": "a field or a value is missing",
    "3x > 1": "'3' is not expected",
    "__import__('os')": r"'\(' is not expected",
    "not " * 60 + "a": "more than 50 levels",
    "(" * 10_001: "longer than 10,000",
}


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

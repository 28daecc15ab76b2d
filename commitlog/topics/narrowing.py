"""Numbers of one width as numbers of another one, without a loss."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

WIDTH = {"integer": 0, "number": 1, "decimal": 2}
# A short text such as 1E1000000000 stands for a number that takes minutes and gigabytes to write.
_MOST_DIGITS = 400


def number_change(reader: str, writer: str) -> Callable[[Any], Any] | None:
    """Return what converts numbers of one kind of `WIDTH` to another one; None if they stay."""
    if reader in (writer, "decimal"):
        return None
    if reader == "integer":
        return _integer
    return _float_of_integer if writer == "integer" else _float_of_decimal


def bounded_decimal(text: str) -> Decimal | None:
    """Return the decimal number that a text writes; None if it is not finite or has too many
    digits.
    """
    if len(text) > _MOST_DIGITS:
        return None
    try:
        found = Decimal(text)
    except InvalidOperation:
        return None
    if not found.is_finite() or abs(found.adjusted()) > _MOST_DIGITS:
        return None
    return found


def _integer(value: Any) -> Any:
    """Return a whole number; the decoder refuses any other."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, str):
        exact = bounded_decimal(value)
        if exact is not None and exact == exact.to_integral_value():
            return int(exact)
    return value


def _float_of_integer(value: Any) -> Any:
    if type(value) is int:
        try:
            if int(float(value)) == value:
                return value
        except OverflowError:
            pass
        raise ValueError(f"the integer {_shown(value)} has no exact float")
    return value


def _float_of_decimal(value: Any) -> Any:
    """Return the float that a text of digits means; the decoder refuses a text."""
    if not isinstance(value, str):
        return value
    exact = bounded_decimal(value)
    if exact is None:
        return value
    found = float(exact)
    is_kept = found - found == 0 and Decimal(repr(found)) == exact
    return found if is_kept else value


def _shown(value: int) -> str:
    text = f"{value:x}" if value.bit_length() > 1000 else str(value)
    return text if len(text) <= 40 else f"of {value.bit_length()} bits"

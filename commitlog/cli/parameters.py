"""What is given on the command line, read into numbers: positions, counts, sizes. What cannot be read is refused with what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

from commitlog.errors import InvalidOptionError
from commitlog.options import parse_size

_POSITION = re.compile(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19}")
_WHOLE = re.compile(r"[0-9]{1,19}")
_LARGEST = (1 << 63) - 1


def position(text: str) -> int:
    """A position, decimal or hexadecimal."""
    found = _position_of(text)
    if found is None:
        raise click.BadParameter(f"expected a position, decimal or 0x..., not {text!r}")
    return found


def start(text: str) -> int | str:
    """Where to begin: a position, or "first"."""
    if text == "first":
        return text
    found = _position_of(text)
    if found is None:
        raise click.BadParameter(f"expected 'first' or a position, decimal or 0x..., not {text!r}")
    return found


def _position_of(text: str) -> int | None:
    if _POSITION.fullmatch(text) is None:
        return None
    value = int(text, 16 if text[:2] in ("0x", "0X") else 10)
    return value if value <= _LARGEST else None


def whole(least: int, most: int = _LARGEST) -> Callable[[str], int]:
    """Reads whole numbers between two bounds."""

    def number(given: str | int) -> int:
        text = str(given)  # a default comes as it is
        value = int(text) if _WHOLE.fullmatch(text) else -1
        if not least <= value <= most:
            bounds = f"of at least {least}" if most == _LARGEST else f"from {least} to {most}"
            raise click.BadParameter(f"expected a whole number {bounds}, not {text!r}")
        return value

    return number


def size(text: str) -> int:
    """Bytes, or a number with a unit."""
    try:
        return parse_size(int(text) if _WHOLE.fullmatch(text) else text, "size")
    except InvalidOptionError:
        raise click.BadParameter(f"expected a size such as 65536 or 64MiB, not {text!r}") from None

"""Text of files and peers, before a terminal or a log shows it."""

from __future__ import annotations

import re

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNPRINTABLE = re.compile(r"[^ -~]")


def printable(text: str) -> str:
    """Return text in one line, with what is not printable escaped.

    A terminal acts on control characters: it hides or overwrites lines, changes its title, and
    shows text in another order. An ASCII control character becomes ``\\xNN``, another unprintable
    character ``\\uNNNN``.
    """
    return text if text.isprintable() else _UNPRINTABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return _NAMED.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

"""Choices: refuse a word that an option does not have."""

from __future__ import annotations

import json
from collections.abc import Sequence

from commitlog.errors import InvalidOptionError


def check_choice(option: str, given: object, choices: Sequence[str | None]) -> None:
    """Refuse a value that is none of the choices of an option.

    Raises
    ------
    InvalidOptionError
        The message names them.
    """
    if given in choices and (given is None or isinstance(given, str)):
        return
    words = ["None" if each is None else json.dumps(each) for each in choices]
    raise InvalidOptionError(
        f"{option} must be {', '.join(words[:-1])} or {words[-1]}, not {given!r}"
    )

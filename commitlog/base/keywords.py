"""Refusal of keyword arguments that a class of options does not have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from commitlog.base.option import did_you_mean
from commitlog.errors import InvalidOptionError

Class = TypeVar("Class", bound=type[Any])
Explain = Callable[[str], str | None]


def unknown(name: str, known: Iterable[str]) -> str:
    """Return the message about an option that is not known: a similar one, or all of them."""
    names = list(known)
    similar = did_you_mean(name, names) or "; the options are " + ", ".join(names)
    return f"there is no option {name!r}{similar}"


def refuses_unknown(explain: Explain = lambda name: None) -> Callable[[Class], Class]:
    """Return a decorator of a class of options: its constructor raises `InvalidOptionError` for
    arguments that it does not take. `explain` may say more about a name.
    """

    def decorate(made: Class) -> Class:
        make = vars(made)["__init__"]
        signature = inspect.signature(make)
        known = [name for name in signature.parameters if name != "self"]

        @functools.wraps(make)
        def checked(self: Any, *given: Any, **named: Any) -> None:
            try:
                make(self, *given, **named)
            except TypeError:
                for name in named:
                    if name not in known:
                        raise InvalidOptionError(explain(name) or unknown(name, known)) from None
                try:
                    signature.bind(self, *given, **named)
                except TypeError as error:
                    raise InvalidOptionError(f"{made.__name__}: {error}") from None
                raise

        type.__setattr__(made, "__init__", checked)
        return made

    return decorate

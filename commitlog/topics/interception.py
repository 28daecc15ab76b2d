"""Interception: a callable of the program can inspect, change or drop the calls of methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from commitlog.topics.method import Method

# Takes the name of the method, the arguments of a call by their names, and a function that
# continues the call with such arguments.
Intercept = Callable[[str, dict[str, Any], Callable[[dict[str, Any]], Any]], object]


def intercepted(
    method: Method, intercept: Intercept, call: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a callable that takes the arguments of a call, and leaves the call to `intercept`.

    The idea is Chronicle Queue's, whose method writers and readers take interceptors.

    Parameters
    ----------
    method : Method
        The method that is called.
    intercept : callable
        As for `commitlog.method_writer`.
    call : callable
        Continues the call; takes all arguments by position.
    """
    title, names = method.title, method.names

    def proceed(named: dict[str, Any]) -> Any:
        return call(*method.arguments(named))

    def through(*arguments: Any) -> object:
        return intercept(title, dict(zip(names, arguments, strict=True)), proceed)

    return through

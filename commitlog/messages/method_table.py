"""MethodTable: what decodes the calls in a log, and the methods of objects that they are for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from commitlog.errors import InvalidOptionError, MessageError, SchemaError
from commitlog.log.commit_log import CommitLog
from commitlog.messages.catalog import SchemaCatalog
from commitlog.messages.codec import Decode
from commitlog.messages.history import behind_history
from commitlog.messages.method import Method, methods_of, plain_decoder
from commitlog.messages.schema import is_message_type


class Target(NamedTuple):
    """What calls of one type number are decoded with, and the method that takes their arguments;
    None if no object has it.
    """

    decode: Decode[Any]
    call: Callable[..., Any] | None
    name: str


class MethodTable(dict[int, Target | None]):
    """The target of each type number; None for records that are no calls.

    Parameters
    ----------
    log : CommitLog
        The log of the calls.
    objects : tuple of object
        Each public method belongs to one of them.

    Attributes
    ----------
    with_history : set of int
        The type numbers of calls that have a history.
    async_method : str or None
        The first method that is a coroutine function; None if there is none.

    Raises
    ------
    InvalidOptionError, MessageError, SchemaError
        As for `commitlog.method_reader`.
    """

    def __init__(self, log: CommitLog, objects: tuple[object, ...]) -> None:
        super().__init__()
        self.with_history: set[int] = set()
        self._catalog = SchemaCatalog(log)
        self._methods = dict(_methods(objects))
        methods = (method for method, _ in self._methods.values())
        self.async_method = next((each.title for each in methods if each.is_async), None)
        for schema in self._catalog.schemas().values():
            if schema.codec == Method.name and schema.topic in self._methods:
                self._methods[schema.topic][0].decoder(schema)

    def __missing__(self, number: int) -> Target | None:
        target = self[number] = self._target(number)
        return target

    def _target(self, number: int) -> Target | None:
        if not is_message_type(number):
            return None
        schema = self._catalog.find(number)
        if schema is None:
            raise SchemaError("no schema of its type number is in the log")
        if schema.codec != Method.name:
            return None
        if schema.has_history:
            self.with_history.add(number)
        if schema.topic not in self._methods:
            return Target(behind_history(schema, plain_decoder(schema)), None, schema.topic)
        method, bound = self._methods[schema.topic]
        decode = behind_history(schema, method.decoder(schema))
        return Target(decode, _positional(method, bound), schema.topic)


def _positional(method: Method, bound: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable that takes all arguments by position."""
    named = [each.name for each in method.parameters if each.kind is each.KEYWORD_ONLY]
    if not named:
        return bound
    plain = len(method.parameters) - len(named)

    def call(*arguments: Any) -> Any:
        return bound(*arguments[:plain], **dict(zip(named, arguments[plain:], strict=True)))

    return call


def _methods(
    objects: tuple[object, ...],
) -> Iterator[tuple[str, tuple[Method, Callable[..., Any]]]]:
    if not objects:
        raise InvalidOptionError("a method reader needs at least one object")
    seen: set[str] = set()
    for each in objects:
        owner = type(each).__name__
        found = list(methods_of(type(each)))
        if not found:
            raise InvalidOptionError(f"{owner} has no public method: no call could be handled")
        for name, function in found:
            if name in seen:
                raise MessageError(f"two objects have a method {name!r}: rename one of them")
            seen.add(name)
            yield name, (Method(owner, function), getattr(each, name))

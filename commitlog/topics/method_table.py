"""MethodTable: for each type number of calls, their decoder and the method to call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from commitlog import CommitLog, Record
from commitlog.errors import InvalidOptionError, MessageError
from commitlog.topics.codec import Decode, plain_decoder, typed_decoder
from commitlog.topics.floor_watch import FloorWatch
from commitlog.topics.interception import Intercept, intercepted
from commitlog.topics.key_ring import KeyRing
from commitlog.topics.layer import RecordDecoder, layered
from commitlog.topics.method import Method, methods_of
from commitlog.topics.schema import is_message_type
from commitlog.topics.topics_state import catalog_of

Target: TypeAlias = tuple[Any, Callable[..., Any] | None, str, bool]
"""Of the calls of one type number: what decodes them, the method that takes their arguments or None
if no object has it, its name, and whether the decoder is a `RecordDecoder`, for records, and not
for values. It is a plain tuple, because unpacking a named one takes longer for each call."""


class MethodTable(dict[int, Target | None]):
    """The target of each type number; None for records that are no calls.

    Parameters
    ----------
    log : CommitLog
        The log of the calls.
    objects : tuple of object
        Each public method belongs to one of them.
    keys : KeyRing
        Opens sealed calls.
    intercept : callable, optional
        As for `commitlog.method_reader`.

    Attributes
    ----------
    with_history : set of int
        The type numbers of calls that have a history.
    async_method : str or None
        The first method that is awaited, because it or `intercept` is a coroutine function; None if
        there is none.

    Raises
    ------
    InvalidOptionError, MessageError, SchemaError
        As for `commitlog.method_reader`.
    """

    def __init__(
        self,
        log: CommitLog,
        objects: tuple[object, ...],
        keys: KeyRing,
        intercept: Intercept | None = None,
    ) -> None:
        super().__init__()
        self.with_history: set[int] = set()
        self._log = log
        self._keys = keys
        self._catalog = catalog_of(log)
        self._watch = FloorWatch(log)
        self._intercept = intercept
        self._methods = {each.title: (each, owner) for each, owner in _methods(objects)}
        methods = (method for method, _ in self._methods.values())
        is_async = inspect.iscoroutinefunction(intercept)
        self.async_method = next(
            (each.title for each in methods if each.is_async or is_async), None
        )
        for schema in self._catalog.schemas_of(*self._methods).values():
            if schema.codec == Method.name:
                typed_decoder(self._methods[schema.topic][0], schema)

    def __missing__(self, number: int) -> Target | None:
        target = self[number] = self._target(number)
        return target

    def note(self, record: Record) -> None:
        """Take a schema that the reader passes."""
        if self._watch.note(record.key, record.value):
            self.clear()

    def _target(self, number: int) -> Target | None:
        if not is_message_type(number):
            return None
        schema = self._catalog.schema_of(number)
        if schema.codec != Method.name:
            return None
        if schema.has_history:
            self.with_history.add(number)
        if schema.topic not in self._methods:
            decode: Decode[Any] = plain_decoder(schema)
            call = None
        else:
            method, owner = self._methods[schema.topic]
            decode, call = typed_decoder(method, schema), method.bound(owner)
            if self._intercept is not None:
                call = intercepted(method, self._intercept, call)
        made = layered(self._log, schema, decode, self._keys)
        return made, call, schema.topic, isinstance(made, RecordDecoder)


def _methods(objects: tuple[object, ...]) -> Iterator[tuple[Method, object]]:
    """Yield the methods of objects, each with its object."""
    if not objects:
        raise InvalidOptionError("a method reader needs at least one object")
    seen: set[str] = set()
    for each in objects:
        found = methods_of(type(each))
        if not found:
            owner = type(each).__name__
            raise InvalidOptionError(f"{owner} has no public method: no call could be handled")
        for method in found:
            if method.title in seen:
                raise MessageError(
                    f"two objects have a method {method.title!r}: rename one of them"
                )
            seen.add(method.title)
            yield method, each

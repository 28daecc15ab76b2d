"""Method: the signature of a method as the schema of its calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

from commitlog.base.extras import imported
from commitlog.errors import MessageError
from commitlog.messages.codec import Decode, conflict, other_codec
from commitlog.messages.reconciling import ConflictError, reconciled
from commitlog.messages.schema import Schema

_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Method:
    """A method and the codec of its calls: the arguments are one array of MessagePack.

    Parameters
    ----------
    owner : str
        The name of the class, for errors.
    function : callable
        The method as its class has it.

    Raises
    ------
    MessageError
        The method does not return None, or msgspec cannot encode a parameter.
    MissingExtraError
        msgspec is not installed.
    """

    # These four are the attributes of a codec.
    name = "method"
    message_class = tuple

    def __init__(self, owner: str, function: Callable[..., Any]) -> None:
        msgspec = imported("msgspec", "a method writer or reader", "topics")
        self._convert = msgspec.convert
        self._plain = msgspec.msgpack.Decoder().decode
        self.title = function.__name__
        self.is_async = inspect.iscoroutinefunction(function)
        self.signature = inspect.signature(function)
        self.parameters = list(self.signature.parameters.values())[1:]  # without self
        hints = _hints(owner, function)
        fields = []
        for each in self.parameters:
            if each.kind not in _KINDS:
                raise MessageError(f"{owner}.{self.title}: a call cannot have {each}: name it")
            field = (each.name, hints.get(each.name, Any))
            fields.append(field if each.default is each.empty else (*field, each.default))
        self._names = [each.name for each in self.parameters]
        try:
            self._fields = msgspec.defstruct(self.title, fields, kw_only=True)
            schema = msgspec.json.schema(self._fields)
            arguments = tuple.__class_getitem__(tuple(field[1] for field in fields))
            self._decode = msgspec.msgpack.Decoder(arguments).decode
        except (TypeError, NameError) as error:
            raise MessageError(f"{owner}.{self.title}: msgspec cannot encode it: {error}") from None
        self.form: dict[str, Any] = {**schema, "arguments": self._names}
        self.encode: Callable[[tuple[Any, ...]], bytes] = msgspec.msgpack.Encoder().encode

    def decoder(self, schema: Schema, /) -> Decode[tuple[Any, ...]]:
        """Return what decodes the calls of a schema to arguments, in the order of this method.

        Raises
        ------
        SchemaError
            The method cannot take them: the error names the parameter.
        """
        if schema.codec != self.name:
            raise other_codec(schema, self.name)
        if schema.form == self.form:
            return self._decode  # type: ignore[no-any-return]
        try:
            change = reconciled(self.form, schema.form)
        except ConflictError as error:
            raise conflict(schema, self.form, error.field, error.why) from None
        plain = plain_decoder(schema)

        def converted(value: bytes) -> tuple[Any, ...]:
            named = plain(value)
            found = self._convert(named if change is None else change(named), self._fields)
            return tuple([getattr(found, name) for name in self._names])

        return converted


def plain_decoder(schema: Schema) -> Decode[dict[str, Any]]:
    """Return what decodes calls to dicts of their arguments."""
    decode = imported("msgspec", "the codec 'method'", "topics").msgpack.Decoder(list).decode
    names = schema.form.get("arguments", [])

    def named(value: bytes) -> dict[str, Any]:
        return dict(zip(names, decode(value), strict=True))

    return named


def methods_of(owner: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public methods of a class, in the order of their names."""
    for name, function in inspect.getmembers(owner, inspect.isfunction):
        if not name.startswith("_"):
            yield name, function


def _hints(owner: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise MessageError(f"{owner}.{function.__name__}: {error}: define the type") from None
    if hints.get("return", "nothing") is not type(None):
        raise MessageError(
            f"{owner}.{function.__name__} must return None, because a call is appended and not "
            "answered: annotate it with -> None, or begin its name with _"
        )
    return hints

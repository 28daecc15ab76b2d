"""MessageEncoder: turn the messages of a topic into values; an error names the failing field."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, is_typeddict

from commitlog.errors import MessageError, MessageValueError
from commitlog.topics.codec import Codec
from commitlog.topics.compiled.messages import MessageScreen
from commitlog.topics.method import Method
from commitlog.topics.msgspec_codec import MsgspecCodec
from commitlog.topics.schema import Schema

T = TypeVar("T")
# What a codec raises for a value that it cannot encode.
REFUSALS = (ValueError, TypeError, ArithmeticError, RecursionError)
_BUILT_IN = (bool, int, float, str, bytes, list, tuple, dict, set, frozenset)


class MessageEncoder(Generic[T]):
    """Encode the messages of one class.

    Attributes
    ----------
    encode : callable
        Returns the value of a message; raises one of `REFUSALS`.
    screen : MessageScreen or None
        Refuses values that readers would take for others.
    message_class : type or None
        The class that messages have; None if the codec alone can tell.
    """

    def __init__(self, codec: Codec[T], schema: Schema, *, path: str, validate: bool) -> None:
        self.message_class = _class_to_check(codec.message_class)
        self.encode = codec.encode
        self.screen = _screen_of(codec, schema, validate=validate)
        self._codec = codec
        self._topic = schema.topic
        self._path = path

    def encoded(self, message: T) -> bytes:
        """Return the value of a message.

        Raises
        ------
        MessageError
            The message is of another class.
        MessageValueError
            The codec cannot encode a value, or it would be read back as another one: the error
            names its field.
        """
        if message.__class__ is not self.message_class:
            self.check_class(message)
        try:
            value = self.encode(message)
            if self.screen is not None:
                self.screen.screen(message, value)
            return value
        except REFUSALS as error:
            raise self.value_error(message, error) from error

    def encoded_many(self, messages: list[T]) -> list[bytes]:
        """Return the values of messages; raise as `encoded` does."""
        if self.screen is None and set(map(type, messages)) == {self.message_class}:
            with contextlib.suppress(*REFUSALS):
                return list(map(self.encode, messages))
        return [self.encoded(message) for message in messages]

    def check_class(self, message: object) -> None:
        """Raise `MessageError` if a message is of another class. One of a subclass would be read
        back without the fields that the subclass adds.
        """
        wanted = self.message_class
        if wanted is None or type(message) is wanted:
            return
        if wanted not in _BUILT_IN or not isinstance(message, wanted):
            raise MessageError(
                f"topic {self._topic!r} takes {name_of(self._codec.message_class)}, not "
                f"{type(message).__name__}: append it to its own topic",
                path=self._path,
            )

    def value_error(self, message: object, error: Exception) -> MessageValueError:
        """Return the error for a message that cannot be encoded, with its field."""
        field, value = _failing_field(message, self._codec.encode)
        where = "" if field is None else f" at $.{field}, which is {value!r}"
        return MessageValueError(
            f"a message of topic {self._topic!r} cannot be encoded{where}: {error}",
            path=self._path,
        )


def _class_to_check(message_class: Any) -> Any:
    """Return the class that messages have; None if the codec alone can tell."""
    if is_typeddict(message_class):
        return dict
    return message_class if isinstance(message_class, type) else None


def name_of(message_class: Any) -> str:
    """Return the name of a message class, for topics and errors."""
    return str(getattr(message_class, "__name__", message_class))


def _screen_of(codec: Codec[T], schema: Schema, *, validate: bool) -> MessageScreen | None:
    """Return what refuses messages that the decoder would refuse, or read as others."""
    if isinstance(codec, MsgspecCodec | Method):
        return codec.screen(validate=validate)
    if not validate:
        return None
    decode = codec.decoder(schema)
    return MessageScreen(
        lambda _, value: decode(value),
        walks=False,
        only_null=False,
        takes_any_float=True,
        is_open=False,
        classes={},
        leaves=frozenset(),
    )


def _failing_field(message: Any, encode: Callable[[Any], bytes]) -> tuple[str | None, Any]:
    """Return the name and the value of the first field that cannot be encoded alone."""
    if isinstance(message, dict):
        fields = dict(message)
    else:
        names: Iterable[str] = getattr(
            message, "__struct_fields__", getattr(message, "__dataclass_fields__", ())
        )
        fields = {name: getattr(message, name) for name in names if hasattr(message, name)}
    for name, value in fields.items():
        try:
            encode(value)
        except REFUSALS:
            return str(name), value
    return None, None

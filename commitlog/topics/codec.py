"""Codec: how the messages of a topic become bytes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from commitlog.errors import CommitLogError, InvalidOptionError, SchemaError
from commitlog.topics.compiled.messages import MessageBytes
from commitlog.topics.schema import Schema

T = TypeVar("T")
CodecName: TypeAlias = Literal["json", "msgpack", "protobuf", "fixed"]
Decode = Callable[[bytes], T]
"""Raises ValueError for bytes that are no message."""


class Codec(Protocol[T]):
    """Encode and decode the messages of one class.

    Attributes
    ----------
    name : str
        Stored with each schema.
    message_class : type
        The class of the messages.
    form : dict
        The fields, as plain JSON.
    """

    @property
    def name(self) -> str: ...
    @property
    def message_class(self) -> type[T]: ...
    @property
    def form(self) -> dict[str, Any]: ...
    def encode(self, message: T, /) -> bytes:
        """Return a message's bytes; raise ValueError or TypeError if it cannot be encoded."""

    def decoder(self, schema: Schema, /) -> Decode[T]:
        """Return what decodes messages of a schema; raise SchemaError if the class cannot take
        them.
        """


# The module of each codec, which has a class of it, and a function `plain_decoder` that decodes
# without a message class.
_MODULES = {
    "json": ("msgspec_codec", "JsonCodec"),
    "msgpack": ("msgspec_codec", "MessagePackCodec"),
    "fixed": ("fixed_codec", "FixedCodec"),
    "avro": ("avro_codec", "AvroCodec"),
    "protobuf": ("protobuf_codec", "ProtobufCodec"),
    "arrow": ("arrow_codec", "ArrowCodec"),
    "method": ("method", "Method"),
}
_PARTS = ("name", "message_class", "form", "encode", "decoder")
_CONSTRUCTED = {"avro": "AvroCodec", "arrow": "ArrowCodec"}
# Programs do not choose these codecs; readers decode their messages.
_DECODED_ONLY = ("method",)
_CHOICE = '"json", "msgpack", "protobuf", "fixed", or an object with the attributes of topics.Codec'


def codec_for(message_class: type[T], codec: CodecName | Codec[T] | None) -> Codec[T]:
    """Return the codec that a program names for a message class; by default, the class decides.

    Raises
    ------
    InvalidOptionError
        There is no such codec.
    MessageError
        The codec cannot encode the class.
    MissingExtraError
        A package of the codec is not installed.
    """
    name = _default_for(message_class) if codec is None else codec
    if not isinstance(name, str):
        if all(hasattr(name, part) for part in _PARTS):
            if name.message_class is not message_class:
                raise InvalidOptionError(
                    f"the codec {name.name!r} encodes {name.message_class!r}, not "
                    f"{message_class!r}: name its class"
                )
            return name
        raise InvalidOptionError(f"codec must be {_CHOICE}, not {name!r}")
    if name in ("pickle", "cloudpickle", "dill"):
        raise InvalidOptionError(
            f"codec {name!r} is refused, because unpickling runs code that the log contains: use "
            '"json" or "msgpack"'
        )
    if name in _CONSTRUCTED:
        raise InvalidOptionError(
            f"codec {name!r} needs a schema: use codec=topics.{_CONSTRUCTED[name]}(schema)"
        )
    if name not in _MODULES or name in _DECODED_ONLY:
        raise InvalidOptionError(f"there is no codec {name!r}: use {_CHOICE}")
    module, attribute = _MODULES[name]
    made: Codec[T] = getattr(_module(module), attribute)(message_class)
    return made


def _default_for(message_class: Any) -> CodecName:
    if isinstance(message_class, type) and issubclass(message_class, MessageBytes):
        return "fixed"
    if hasattr(message_class, "DESCRIPTOR") and hasattr(message_class, "SerializeToString"):
        return "protobuf"
    return "json"


def _module(name: str) -> Any:
    return importlib.import_module(f"commitlog.topics.{name}")


def plain_decoder(schema: Schema) -> Decode[Any]:
    """Return what decodes messages of a schema to dicts and lists, without their class.

    Raises
    ------
    SchemaError
        This release does not know the codec.
    MissingExtraError
        A package of the codec is not installed.
    """
    if schema.codec not in _MODULES:
        raise unknown_codec(schema)
    make = _module(_MODULES[schema.codec][0]).plain_decoder
    decoder: Decode[Any] = made_by_schema(schema, lambda: make(schema))
    return decoder


def typed_decoder(codec: Codec[T], schema: Schema) -> Decode[T]:
    """Return what decodes messages of a schema to the class of a codec.

    Raises
    ------
    SchemaError
        The class cannot take the messages, or the schema is damaged.
    """
    return made_by_schema(schema, lambda: codec.decoder(schema))


def made_by_schema(schema: Schema, make: Callable[[], T]) -> T:
    """Return what a function makes of a schema. Any program may have appended the schema, so what
    it refers to may be missing or of a wrong type.

    Raises
    ------
    SchemaError
        The function raised another error than one of this package.
    """
    try:
        return make()
    except CommitLogError:
        raise
    except Exception as error:
        raise SchemaError(
            f"topic {schema.topic!r}: its schema is not one of the codec {schema.codec!r} "
            f"({type(error).__name__}: {error}): read its messages as raw records",
            topic=schema.topic,
        ) from error


def unknown_codec(schema: Schema) -> SchemaError:
    """Return the error for a schema whose codec this release does not know."""
    return SchemaError(
        f"topic {schema.topic!r}: there is no codec {schema.codec!r} in this release: use a newer "
        "one",
        topic=schema.topic,
    )


def other_codec(schema: Schema, name: str) -> SchemaError:
    """Return the error for a codec that cannot decode the messages of a schema."""
    if schema.codec not in _MODULES:
        return unknown_codec(schema)
    return SchemaError(
        f"topic {schema.topic!r} has messages of the codec {schema.codec!r}, which the codec "
        f"{name!r} cannot decode: use that codec, or another name for the topic; their schema is "
        f"{schema}",
        topic=schema.topic,
    )


def conflict(schema: Schema, ours: Any, field: str, why: str) -> SchemaError:
    """Return the error for a class that cannot take the messages of a schema."""
    return SchemaError(
        f"topic {schema.topic!r}: its messages cannot be read at {field}: {why}; their schema is "
        f"{schema}, that of the class is {Schema(schema.topic, schema.codec, ours)}",
        topic=schema.topic,
        field=field,
    )

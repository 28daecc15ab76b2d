"""The codecs of msgspec: JSON and MessagePack, for structs, dataclasses, TypedDicts, and models of
pydantic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, get_type_hints

from commitlog.base.extras import imported
from commitlog.errors import MessageError
from commitlog.topics.changes import Change
from commitlog.topics.codec import Decode, conflict, other_codec
from commitlog.topics.compiled.messages import MessageScreen
from commitlog.topics.completing import completed
from commitlog.topics.pydantic_models import form_of_model, read_model, write_model
from commitlog.topics.reconciling import FormConflictError, reconciled
from commitlog.topics.schema import Schema
from commitlog.topics.schema_form import form_of
from commitlog.topics.screening import screen_of

T = TypeVar("T")
_CUSTOM = re.compile(r"type (.*) is not supported")


class MsgspecCodec(Generic[T]):
    """The base of both codecs: a message is what msgspec encodes.

    Parameters
    ----------
    message_class : type
        A `msgspec.Struct`, a dataclass, a TypedDict, a `pydantic.BaseModel`, or another type of
        msgspec.

    Raises
    ------
    MessageError
        msgspec cannot encode the class.
    MissingExtraError
        msgspec is not installed.
    """

    name = ""

    def __init__(self, message_class: type[T]) -> None:
        self.message_class = message_class
        try:
            self.form: dict[str, Any] = form_of(message_class)
            format = _format(self.name)
            self.encode: Callable[[T], bytes] = format.Encoder(enc_hook=write_model).encode
            self._decode = decoder_of(self.name, message_class)
        except (TypeError, NameError) as error:
            raise MessageError(_refusal(message_class, error)) from None

    def decoder(self, schema: Schema, /) -> Decode[T]:
        """Return what decodes messages of a schema.

        Raises
        ------
        SchemaError
            The class cannot take them: the error names the field.
        """
        if schema.codec not in FORMATS:
            raise other_codec(schema, self.name)
        try:
            change = reconciled(self.form, schema.form, has_bytes=schema.codec == "msgpack")
        except FormConflictError as error:
            raise conflict(schema, self.form, error.field, error.why) from None
        if change is not None:
            return self._converting(schema.codec, change)
        if schema.codec == self.name:
            return self._decode
        return decoder_of(schema.codec, self.message_class)

    def _converting(self, codec: str, change: Change) -> Decode[T]:
        """Return what decodes to plain values, changes them, and decodes their bytes again, because
        only the codec knows how it writes each type.
        """
        format = _format(codec)
        plain, encode = format.Decoder().decode, format.Encoder().encode
        decode: Decode[T] = decoder_of(codec, self.message_class)

        def converted(value: bytes) -> T:
            try:
                return decode(encode(change(plain(value))))
            except (TypeError, OverflowError) as error:  # values that the format cannot write
                raise ValueError(str(error)) from error

        return converted

    def screen(self, *, validate: bool) -> MessageScreen | None:
        """Return what refuses messages that would be read back as something else."""
        return screen_of(self.message_class, self.name, self._decode, validate=validate)


class JsonCodec(MsgspecCodec[T]):
    """Messages as JSON."""

    name = "json"


class MessagePackCodec(MsgspecCodec[T]):
    """Messages as MessagePack."""

    name = "msgpack"


def decoder_of(codec: str, kind: Any) -> Decode[Any]:
    """Return what decodes values of a type."""
    decode: Decode[Any] = _format(codec).Decoder(kind, dec_hook=read_model).decode
    return decode


def plain_decoder(schema: Schema) -> Decode[Any]:
    """Return what decodes messages to dicts and lists."""
    decode: Decode[Any] = _format(schema.codec).Decoder().decode
    return completed(schema, decode)


FORMATS = ("json", "msgpack")


def aliases(former: str | Sequence[str]) -> Any:
    """Name the former names of a field: ``amount: Annotated[int, aliases("price")]``.

    Messages that have the field under a former name are read, and programs that know only the
    former name read new messages.

    Parameters
    ----------
    former : str or sequence of str
        One name or several, as they are encoded.
    """
    names = [former] if isinstance(former, str) else list(former)
    return _msgspec("json").Meta(extra_json_schema={"aliases": names})


def _msgspec(codec: str) -> Any:
    return imported("msgspec", f"the codec {codec!r} of a topic", "topics")


def _format(codec: str) -> Any:
    return getattr(_msgspec(codec), codec)


def _refusal(message_class: Any, error: Exception) -> str:
    """Return a message that names the field, if a single one is at fault."""
    msgspec = _msgspec("json")
    name = getattr(message_class, "__name__", repr(message_class))
    try:
        hints = get_type_hints(message_class, include_extras=True)
    except (NameError, TypeError, AttributeError):
        hints = {}
    for field, hint in hints.items():
        try:
            msgspec.json.schema(hint, schema_hook=form_of_model)
        except (TypeError, NameError):
            name = f"{name}.{field}"
            break
    return f"{name}: {unsupported(error)}"


def unsupported(error: Exception) -> str:
    """Return what msgspec does not support, of an error that it raised for a type."""
    found = _CUSTOM.search(str(error))
    why = f"msgspec cannot encode {found[1]}" if found else f"msgspec cannot encode it: {error}"
    return f"{why}; use a type that msgspec supports"

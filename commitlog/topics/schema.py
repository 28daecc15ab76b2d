"""Schema: what a topic's messages look like, as a record of the log."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from commitlog.base.cached import Cached
from commitlog.errors import SchemaError

# Schemas without history and layers have version 1, so that older releases read them.
FORMAT = 2
HISTORY_FORMAT = 1
# The type numbers from here on belong to topics: the first one is that of schemas, the others are
# those of messages.
SCHEMA_TYPE = 0xC000_0000
_NUMBER_MASK = 0x3FFF_FFFF


@dataclass(frozen=True)
class Schema:
    """One version of a topic's schema.

    Attributes
    ----------
    topic : str
        The topic's name.
    codec : str
        The name of the codec that encodes the messages.
    form : dict
        The fields, as the codec describes them; plain JSON.
    has_history : bool
        Whether the messages begin with their history.
    layers : tuple of dict
        What is applied to the codec's bytes, in this order; plain JSON.
    """

    topic: str
    codec: str
    form: dict[str, Any]
    has_history: bool = False
    layers: tuple[dict[str, Any], ...] = ()

    @Cached
    def value(self) -> bytes:
        """The value of the schema's record."""
        content: dict[str, Any] = {
            "codec": self.codec,
            "format": FORMAT if self.has_history or self.layers else 1,
            "schema": self.form,
            "topic": self.topic,
        }
        if self.has_history:
            content["history"] = HISTORY_FORMAT
        if self.layers:
            content["layers"] = self.layers
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

    @Cached
    def number(self) -> int:
        """The type number of the messages: a hash of the value, so that all processes find the
        same number without an agreement.
        """
        return number_of(self.value)

    @property
    def key(self) -> bytes:
        """The key of the schema's record."""
        return key_of(self.number)

    @classmethod
    def of_value(cls, value: bytes) -> Schema:
        """Read the value of a schema's record.

        Raises
        ------
        SchemaError
            The value is damaged, or a newer release wrote it.
        """
        try:
            content = json.loads(value)
            version = content["format"]
            _check_version("a schema", version, FORMAT, content)
            history = content.get("history", 0)
            _check_version("the history of a topic", history, HISTORY_FORMAT, content)
            parts = [content[name] for name in ("topic", "codec", "schema")]
            layers = content.get("layers", [])
        except (KeyError, TypeError, RecursionError, json.JSONDecodeError, UnicodeError) as error:
            raise _damaged(f"{type(error).__name__}: {error}") from None
        types = [type(part) for part in (version, history, *parts)]
        if types != [int, int, str, str, dict] or version < 1 or history < 0:
            raise _damaged("its fields have wrong types")
        if not parts[0].isprintable():
            raise _damaged(f"its topic has the name {parts[0]!r:.100}")
        if not _are_layers(layers):
            raise _damaged("its layers have wrong types")
        return cls(parts[0], parts[1], parts[2], history > 0, tuple(layers))

    def __str__(self) -> str:
        form = json.dumps(self.form, sort_keys=True, separators=(",", ":"))
        return f"{self.codec} {form}"


def _are_layers(layers: object) -> bool:
    return isinstance(layers, list) and all(
        isinstance(each, dict) and isinstance(each.get("name"), str) for each in layers
    )


def _check_version(what: str, version: Any, newest: int, content: dict[str, Any]) -> None:
    if isinstance(version, int) and version > newest:
        raise SchemaError(
            f"{what} has version {version}, and this release reads versions up to {newest}: use a "
            "newer release",
            topic=content.get("topic"),
        )


def _damaged(why: str) -> SchemaError:
    return SchemaError(
        f"a schema record is damaged ({why}): restore the log from a copy, or read its messages as "
        "raw records"
    )


def number_of(value: bytes) -> int:
    """Return the type number of the messages whose schema record has this value."""
    digest = hashlib.blake2b(value, digest_size=4).digest()
    # The number of the schema records themselves is left out.
    return SCHEMA_TYPE + max(1, int.from_bytes(digest, "big") & _NUMBER_MASK)


def key_of(number: int) -> bytes:
    """Return the key of the schema record for a type number."""
    return b"schema:%08x" % number


def is_message_type(number: int) -> bool:
    """Return whether the type number is one of a topic's messages."""
    return number > SCHEMA_TYPE

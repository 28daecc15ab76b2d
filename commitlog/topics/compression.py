"""Compression of messages by zstd, with a dictionary that is trained on messages of the topic."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from commitlog.base.extras import imported
from commitlog.base.keywords import refuses_unknown
from commitlog.errors import InvalidOptionError, SchemaError

NAME = "zstd"
# Of messages that a release before 1.0.0 appended, whole or as deltas; only whole ones are read.
DELTA_NAME = "zstd-delta"
_WHOLE = b"\0"  # in front of a frame of zstd
Form: TypeAlias = dict[str, Any]
Compression: TypeAlias = Literal["zstd"] | "Zstd"
# A dictionary is repeated in each segment, and one of 4 KiB has nearly all of the gain.
DICTIONARY_BYTES = 4096
GIVEN_MOST = 1 << 16  # bytes of a dictionary that a program gives
_LEVELS = (-7, 22)


@refuses_unknown()
@dataclass(frozen=True)
class Zstd:
    """How the messages of a topic are compressed.

    Attributes
    ----------
    level : int
        From -7, the fastest, to 22, the smallest.
    dictionary : bytes, optional
        A dictionary, such as one that `zstd --train` made. Empty bytes compress without one. By
        default it is trained on the first messages of the topic.
    """

    level: int = 1
    dictionary: bytes | None = None

    def __post_init__(self) -> None:
        low, high = _LEVELS
        if type(self.level) is not int or not low <= self.level <= high:
            raise InvalidOptionError(
                f"level must be a whole number from {low} to {high}, not {self.level!r}"
            )
        if self.dictionary is None:
            return
        if type(self.dictionary) is not bytes or len(self.dictionary) > GIVEN_MOST:
            raise InvalidOptionError(
                f"dictionary must be at most {GIVEN_MOST} bytes, not {_shown(self.dictionary)}: "
                "train a smaller one, because each segment has a copy"
            )


def zstd_of(compress: Compression | None) -> Zstd | None:
    """Return the value of the option `compress` of a topic."""
    if compress is None or isinstance(compress, Zstd):
        return compress
    if compress != NAME:
        raise InvalidOptionError(f'compress must be "zstd" or topics.Zstd, not {compress!r}')
    return Zstd()


def _shown(value: object) -> str:
    return f"{len(value)} bytes" if isinstance(value, bytes) else repr(value)


# --- the layer of a schema ------------------------------------------------------------------------


def form_of(dictionary: bytes) -> Form:
    """Return the layer of a schema whose messages are compressed with a dictionary, or without."""
    if not dictionary:
        return {"name": NAME}
    return {"name": NAME, "dictionary": base64.b64encode(dictionary).decode()}


def has_deltas(form: Form) -> bool:
    """Return whether the messages of a layer may be deltas."""
    return bool(form["name"] == DELTA_NAME)


def dictionary_of(form: Form) -> bytes:
    """Return the dictionary of a layer.

    Raises
    ------
    SchemaError
        The layer is damaged.
    """
    try:
        return base64.b64decode(form.get("dictionary", ""), validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise SchemaError(
            "the dictionary of a schema is damaged: restore the log from a copy"
        ) from None


# --- the work -------------------------------------------------------------------------------------


class Decompressor:
    """Decompress messages, from any thread.

    Parameters
    ----------
    dictionary : bytes
        May be empty.
    limit : int
        How many bytes a message may have. The size is checked before memory is allocated.
    """

    def __init__(self, dictionary: bytes, limit: int) -> None:
        zstandard = library()
        loaded = load_dictionary(dictionary)
        window = max(1024, limit)
        self._make: Callable[[], Any] = lambda: zstandard.ZstdDecompressor(
            dict_data=loaded, max_window_size=window
        )
        self._idle: list[Any] = [self._make()]
        self._size_of = zstandard.frame_content_size
        self._error: type[Exception] = zstandard.ZstdError
        self._limit = limit

    def decompressed(self, value: bytes) -> bytes:
        """Return the decompressed bytes; raise ValueError if the value is no such frame."""
        try:
            size = self._size_of(value)
            if not 0 <= size <= self._limit:
                raise ValueError(
                    f"the compressed message says it has {size} bytes, and a record of this log "
                    f"has room for {self._limit}"
                )
            try:
                worker = self._idle.pop()
            except IndexError:
                worker = self._make()
            found: bytes = worker.decompress(value, allow_extra_data=False)
        except self._error as error:
            raise ValueError(f"the compressed message is damaged: {error}") from None
        self._idle.append(worker)
        return found


def whole_of(value: bytes) -> bytes:
    """Return the frame of zstd of a message of the layer `DELTA_NAME`; raise ValueError if the
    message is a delta.
    """
    if value[:1] != _WHOLE:
        raise ValueError(
            "it is a delta of an earlier message, which this release does not read: read the topic "
            "with the release that wrote it, and append its messages to a new log"
        )
    return value[1:]


def size_before(value: bytes) -> int:
    """Return the size before compression that a message states; 0 if it is damaged."""
    zstandard = library()
    try:
        return max(0, int(zstandard.frame_content_size(value)))
    except zstandard.ZstdError:
        return 0


def load_dictionary(dictionary: bytes) -> Any:
    """Load a dictionary; refuse one that zstd would refuse for each message."""
    if not dictionary:
        return None
    zstandard = library()
    loaded = zstandard.ZstdCompressionDict(dictionary)
    try:
        zstandard.ZstdDecompressor(dict_data=loaded)
    except zstandard.ZstdError:
        raise SchemaError(
            "zstd cannot load the dictionary of a topic: give another one, or restore the log from "
            "a copy"
        ) from None
    return loaded


def check_installed() -> None:
    """Raise `MissingExtraError` if zstandard is not installed."""
    library()


def library() -> Any:
    """Return the package zstandard; raise `MissingExtraError` if it is not installed."""
    return imported("zstandard", "the compression of a topic", "sealed")

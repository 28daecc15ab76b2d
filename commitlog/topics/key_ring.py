"""KeyRing: the master keys that wrap the data keys of sealed messages."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Sequence
from typing import Self

from commitlog.base.path import translate_errors
from commitlog.base.process_bound import ProcessBound
from commitlog.errors import InvalidOptionError, KeyUnavailableError
from commitlog.topics.cipher import KEY_BYTES, NONCE_BYTES, Cipher

VARIABLE = "COMMITLOG_KEYS"
LONGEST_ID = 64
Wrap = Callable[[str, bytes], bytes]
Unwrap = Callable[[str, bytes], bytes]


class KeyRing(ProcessBound):
    """Wrap and unwrap data keys by master keys.

    The constructor takes the callables of a key management service. `of_text`, `of_file` and
    `of_environment` take keys.

    Parameters
    ----------
    key_ids : str or sequence of str
        The ids of the master keys, the last of which is active. The log has the id of the master
        key beside each data key. An id has 1 to 64 printable characters without a space or a colon.
    wrap : callable
        Takes the id of the active key and a data key of 32 bytes, and returns that data key
        encrypted. It is called at the first append to each segment.
    unwrap : callable
        Takes an id, which may be another one, and what `wrap` returned; returns the data key.

    Attributes
    ----------
    key_ids : tuple of str
        As given.

    Raises
    ------
    InvalidOptionError
        A key id is invalid, or occurs twice.
    """

    _instead = f"set {VARIABLE} in each process"

    def __init__(self, key_ids: str | Sequence[str], wrap: Wrap, unwrap: Unwrap) -> None:
        self.key_ids = (key_ids,) if isinstance(key_ids, str) else tuple(key_ids)
        if not all(map(is_id, self.key_ids)) or len(set(self.key_ids)) < len(self.key_ids):
            raise InvalidOptionError(
                f"key ids must differ, and have 1 to {LONGEST_ID} printable characters without a "
                f"space or a colon, not {', '.join(map(repr, self.key_ids))}"
            )
        self._wrap = wrap
        self._unwrap = unwrap

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Make a ring of lines ``id:base64``, each a key of 32 bytes; the last one is active.

        Parameters
        ----------
        text : str
            The lines. Other white space separates keys, too.
        """
        return cls._of_lines(text, "a key ring")

    @classmethod
    def of_file(cls, path: str | os.PathLike[str]) -> Self:
        """Make a ring of a file with the lines of `of_text`.

        Parameters
        ----------
        path : str or path-like
            The file. Only the user of the program should be able to read it.
        """
        source = os.fspath(path)
        with (
            translate_errors(source, "read the keys"),
            open(source, encoding="utf-8", errors="replace") as file,
        ):
            return cls._of_lines(file.read(), source)

    @classmethod
    def of_environment(cls) -> Self:
        """Make a ring of the environment variable `COMMITLOG_KEYS`, which has the lines of
        `of_text`. Without the variable the ring has no key.
        """
        return cls._of_lines(os.environ.get(VARIABLE, ""), VARIABLE)

    @classmethod
    def _of_lines(cls, text: str, source: str) -> Self:
        keys: dict[str, bytes] = {}
        for number, line in enumerate(text.split(), 1):
            key_id, _, encoded = line.partition(":")
            key = _decoded(encoded)
            if len(key) != KEY_BYTES or key_id in keys or not is_id(key_id):
                raise InvalidOptionError(
                    f"{source}: key {number} must be id:base64 with an id of its own and 32 bytes: "
                    "make one with `head -c 32 /dev/urandom | base64`"
                )
            keys[key_id] = key
        master = _MasterKeys(keys)
        return cls(tuple(keys), master.wrapped, master.unwrapped)

    def __repr__(self) -> str:
        return f"<KeyRing {', '.join(self.key_ids) or 'without a key'}>"


def key_ring_of(keys: KeyRing | None) -> KeyRing:
    """Return the ring that an option `keys` names; by default that of the environment."""
    if keys is None:
        return KeyRing.of_environment()
    if not isinstance(keys, KeyRing):
        raise InvalidOptionError(f"keys must be a topics.KeyRing, not a {type(keys).__name__}")
    return keys


def wrapped_by(ring: KeyRing, data_key: bytes) -> tuple[str, bytes]:
    """Return the id of the active key, and a data key wrapped by it.

    Raises
    ------
    KeyUnavailableError
        The ring has no key, or the service did not wrap.
    """
    if not ring.key_ids:
        raise KeyUnavailableError(
            f"sealed messages need a key: give keys=, or set {VARIABLE}", key_id=None
        )
    active = ring.key_ids[-1]
    try:
        return active, ring._wrap(active, data_key)
    except Exception as error:
        raise _unavailable(active, f"does not wrap a data key: {_why(error)}") from error


def unwrapped_by(ring: KeyRing, key_id: str, wrapped: bytes) -> bytes:
    """Return a data key.

    Raises
    ------
    KeyUnavailableError
        The ring does not have the master key, or that key does not open the data key.
    """
    try:
        data_key = ring._unwrap(key_id, wrapped)
    except KeyError as error:
        known = ", ".join(ring.key_ids) or "none"
        raise _unavailable(key_id, f"is not in the key ring, which has {known}") from error
    except Exception as error:
        raise _unavailable(key_id, f"does not open a data key: {_why(error)}") from error
    if type(data_key) is not bytes or len(data_key) != KEY_BYTES:
        raise _unavailable(key_id, "opens no data key: unwrap must return 32 bytes")
    return data_key


class _MasterKeys:
    """Wrap by AES-256-GCM, with a random nonce in front of what it makes."""

    def __init__(self, keys: dict[str, bytes]) -> None:
        self._keys = keys

    def wrapped(self, key_id: str, data_key: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + Cipher(self._keys[key_id]).sealed(nonce, data_key, key_id.encode())

    def unwrapped(self, key_id: str, wrapped: bytes) -> bytes:
        cipher = Cipher(self._keys[key_id])
        return cipher.opened(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], key_id.encode())


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def is_id(text: object) -> bool:
    """Return whether a value may be the id of a key."""
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_ID:
        return False
    return text.isprintable() and not set(text) & {" ", ":"}


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__


def _unavailable(key_id: str, why: str) -> KeyUnavailableError:
    return KeyUnavailableError(
        f"the key {key_id!r} {why}: give the key by keys=, or in {VARIABLE}", key_id=key_id
    )

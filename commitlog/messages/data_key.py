"""DataKey: the key of some messages of a topic, and the record that has this key wrapped."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import struct
from collections.abc import Sequence
from itertools import repeat

from commitlog.log.commit_log import CommitLog
from commitlog.messages.cipher import KEY_BYTES, NONCE_BYTES, TAG_BYTES, Cipher
from commitlog.messages.key_ring import KeyRing, is_id, unwrapped_by, wrapped_by

FORMAT = 1
ID_BYTES = 8
HEAD_BYTES = ID_BYTES + NONCE_BYTES
SEALED_MORE = HEAD_BYTES + TAG_BYTES  # bytes that a sealed value has more
# Log, type number, and how many bytes the key id has, which is behind them.
_BOUND = struct.Struct("<16sIH")
_POSITION = struct.Struct("<q")


class DataKey:
    """Seal and open messages of one type number by one key. Any thread may use it.

    A sealed value is the id of the data key, a nonce, the sealed bytes and their tag. Log, type
    number, key id and record key are associated data, and the position if it is given: the value
    opens only with the same ones.

    Parameters
    ----------
    key : bytes
        32 bytes.
    key_id : str
        The id of the master key.
    wrapped : bytes
        The key, wrapped by the master key.
    log : CommitLog
        The log of the messages.
    number : int
        Their type number.

    Attributes
    ----------
    key_id : str
        As given.
    record : tuple of bytes
        Key and value of its record.
    uses : int
        How many values it has sealed.
    """

    def __init__(
        self, key: bytes, key_id: str, wrapped: bytes, log: CommitLog, number: int
    ) -> None:
        self.key_id = key_id
        self.uses = 0
        self._key = key
        self._log = log
        self._number = number
        self._cipher = Cipher(key)
        content = {
            "format": FORMAT,
            "key_id": key_id,
            "wrapped": base64.b64encode(wrapped).decode(),
        }
        value = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        self._id = id_of(value)
        self.record = (key_of(self._id), value)
        encoded = key_id.encode()
        bound = _BOUND.pack(log.identity.uuid, number, len(encoded)) + encoded
        self._unkeyed, self._keyed = bound + b"\0", bound + b"\1"
        self._placed_unkeyed, self._placed_keyed = bound + b"\2", bound + b"\3"

    @classmethod
    def new(cls, ring: KeyRing, log: CommitLog, number: int) -> DataKey:
        """Make a new data key.

        Raises
        ------
        KeyUnavailableError
            The ring cannot wrap it.
        """
        key = os.urandom(KEY_BYTES)
        return cls(key, *wrapped_by(ring, key), log, number)

    @classmethod
    def of_value(cls, value: bytes, ring: KeyRing, log: CommitLog, number: int) -> DataKey:
        """Read the value of a data key's record.

        Raises
        ------
        KeyUnavailableError
            The ring cannot open it.
        ValueError
            The record is damaged, or a newer release wrote it.
        """
        try:
            content = json.loads(value)
            version, key_id = content["format"], content["key_id"]
            wrapped = base64.b64decode(content["wrapped"], validate=True)
        except (KeyError, TypeError, RecursionError, ValueError):
            raise ValueError("the record of its data key is damaged") from None
        if version != FORMAT or not is_id(key_id):
            raise ValueError(
                f"the record of its data key has version {version!r}, and this release reads "
                f"version {FORMAT}: use a newer release"
            )
        return cls(unwrapped_by(ring, key_id, wrapped), key_id, wrapped, log, number)

    def rewrapped(self, ring: KeyRing) -> DataKey:
        """Return the same key, wrapped by the active master key of a ring; raise as `new`."""
        return DataKey(self._key, *wrapped_by(ring, self._key), self._log, self._number)

    def derived(self, purpose: bytes) -> bytes:
        """Return a key of 64 bytes for another purpose."""
        return hmac.digest(self._key, purpose, "sha512")

    def sealed(self, value: bytes, key: bytes | bytearray | None) -> bytes:
        """Return a value sealed with a new nonce, for a record with that key."""
        self.uses += 1
        nonce = os.urandom(NONCE_BYTES)
        return self._id + nonce + self._cipher.sealed(nonce, value, self._associated(key))

    def sealed_at(
        self, value: bytes, key: bytes | bytearray | None, position: int, nonce: bytes
    ) -> bytes:
        """Return a value sealed with a nonce, for a record with that key at that position."""
        self.uses += 1
        return self._id + nonce + self._cipher.sealed(nonce, value, self._associated(key, position))

    def sealed_list(
        self, values: list[bytes], keys: Sequence[bytes | bytearray | None] | None
    ) -> list[bytes]:
        """Return values sealed with a new nonce each, for records with those keys."""
        self.uses += len(values)
        drawn = os.urandom(NONCE_BYTES * len(values))
        nonces = [drawn[at : at + NONCE_BYTES] for at in range(0, len(drawn), NONCE_BYTES)]
        bound = repeat(self._unkeyed, len(values)) if keys is None else map(self._associated, keys)
        data_key_id, seal = self._id, self._cipher.sealed
        return [
            data_key_id + nonce + seal(nonce, value, associated)
            for nonce, value, associated in zip(nonces, values, bound, strict=True)
        ]

    def opened(self, value: bytes, key: bytes | None, position: int | None = None) -> bytes:
        """Return what was sealed; raise ValueError if it is not authentic."""
        nonce, sealed = value[ID_BYTES:HEAD_BYTES], value[HEAD_BYTES:]
        return self._cipher.opened(nonce, sealed, self._associated(key, position))

    def _associated(self, key: bytes | bytearray | None, position: int | None = None) -> bytes:
        if position is None:
            return self._unkeyed if key is None else b"".join((self._keyed, key))
        place = _POSITION.pack(position)
        if key is None:
            return self._placed_unkeyed + place
        return b"".join((self._placed_keyed, place, key))


def id_of(value: bytes) -> bytes:
    """Return the id of the data key whose record has this value."""
    return hashlib.blake2b(value, digest_size=ID_BYTES).digest()


def key_of(data_key_id: bytes) -> bytes:
    """Return the key of a data key's record."""
    return b"datakey:" + data_key_id.hex().encode()

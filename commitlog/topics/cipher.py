"""Cipher: AES-256-GCM with one key."""

from __future__ import annotations

from collections.abc import Callable

from commitlog.base.extras import imported

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
_PACKAGE = "cryptography"
NEEDING = ("a sealed topic", "sealed")


class Cipher:
    """Seal and open bytes by AES-256-GCM, from any thread.

    Parameters
    ----------
    key : bytes
        32 bytes.

    Attributes
    ----------
    sealed : callable
        Takes a nonce, bytes and associated data, and returns the bytes sealed with their tag. A
        nonce must not be used twice.

    Raises
    ------
    MissingExtraError
        cryptography is not installed.
    """

    def __init__(self, key: bytes) -> None:
        made = imported(f"{_PACKAGE}.hazmat.primitives.ciphers.aead", *NEEDING).AESGCM(key)
        self.sealed: Callable[[bytes, bytes, bytes], bytes] = made.encrypt
        self._opened: Callable[[bytes, bytes, bytes], bytes] = made.decrypt
        self._refused = imported(f"{_PACKAGE}.exceptions", *NEEDING).InvalidTag

    def opened(self, nonce: bytes, sealed: bytes, associated: bytes) -> bytes:
        """Return what was sealed; raise ValueError if the key, the nonce or a byte is wrong."""
        try:
            return self._opened(nonce, sealed, associated)
        except self._refused:
            raise ValueError("the key is wrong, or the bytes were changed") from None


def check_installed() -> None:
    """Raise `MissingExtraError` if cryptography is not installed."""
    imported(_PACKAGE, *NEEDING)

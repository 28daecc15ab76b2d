"""Sealed dictionaries: the dictionary of a sealed and compressed topic, encrypted in its schema."""

from __future__ import annotations

import base64

from commitlog import CommitLog
from commitlog.topics import compression
from commitlog.topics.compression import Form
from commitlog.topics.data_key import DataKey
from commitlog.topics.key_ring import KeyRing
from commitlog.topics.schema import SCHEMA_TYPE

# At least what a seal adds to a dictionary, unless a service returns a long wrapped key.
SEAL_BYTES = 512
_SEALED = "sealed_dictionary"


def sealed_form(dictionary: bytes, keys: KeyRing, log: CommitLog) -> Form:
    """Return the layer of a schema whose messages are compressed with a dictionary, and sealed.

    Raises
    ------
    KeyUnavailableError
        The ring cannot wrap the data key of the dictionary.
    """
    if not dictionary:
        return compression.form_of(dictionary)
    data_key = DataKey.new(keys, log, SCHEMA_TYPE)
    _, value = data_key.record
    (sealed,) = data_key.seal_all([dictionary], [None])
    return {
        "name": compression.NAME,
        "data_key": value.decode(),
        _SEALED: base64.b64encode(sealed).decode(),
    }


def has_sealed(form: Form) -> bool:
    """Return whether a layer has a sealed dictionary."""
    return _SEALED in form


def opened_dictionary(form: Form, keys: KeyRing, log: CommitLog) -> tuple[str, bytes]:
    """Return the id of the master key of a sealed dictionary, and the dictionary.

    Raises
    ------
    KeyUnavailableError
        The ring cannot open its data key.
    ValueError
        The layer is damaged, or comes from another log.
    """
    try:
        record = form["data_key"].encode()
        sealed = base64.b64decode(form[_SEALED], validate=True)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError("the sealed dictionary of its schema is damaged") from None
    data_key = DataKey.of_value(record, keys, log, SCHEMA_TYPE)
    try:
        return data_key.key_id, data_key.opened(sealed, None)
    except ValueError:
        raise ValueError(
            "the sealed dictionary of its schema is not authentic: restore the log from a copy"
        ) from None

"""Unsealer: open the sealed messages of a topic by the data keys in their log."""

from __future__ import annotations

import contextlib

from commitlog import CommitLog
from commitlog.errors import PositionError
from commitlog.topics.cipher import check_installed
from commitlog.topics.data_key import ID_BYTES, DataKey, id_of, key_of
from commitlog.topics.key_ring import KeyRing
from commitlog.topics.schema import SCHEMA_TYPE
from commitlog.types import Start, Visibility

_KEPT = 256  # data keys; in a log with more segments, older ones are looked up again


class Unsealer:
    """Open the sealed messages of one type number, from any thread.

    Parameters
    ----------
    log : CommitLog
        The log of the messages.
    number : int
        Their type number.
    keys : KeyRing
        Unwraps the data keys.
    has_positions : bool
        Whether the messages are sealed for their positions.

    Raises
    ------
    MissingExtraError
        cryptography is not installed.
    """

    def __init__(self, log: CommitLog, number: int, keys: KeyRing, *, has_positions: bool) -> None:
        check_installed()
        self._log = log
        self._number = number
        self._keys = keys
        self._has_positions = has_positions
        self._found: dict[bytes, DataKey] = {}
        self._missed: dict[bytes, int] = {}  # the tail of the log when a data key was not there

    def opened(self, value: bytes, position: int, key: bytes | None) -> bytes:
        """Return what was sealed into the value of the record at a position.

        Raises
        ------
        KeyUnavailableError
            The key ring cannot open the data key.
        ValueError
            The value was changed, or comes from another log, topic, key or position.
        """
        data_key_id = value[:ID_BYTES]
        data_key = self._found.get(data_key_id)
        if data_key is None:
            data_key = self._data_key(data_key_id, position)
        try:
            return data_key.opened(value, key, position if self._has_positions else None)
        except ValueError:
            places = "log, topic, key or position" if self._has_positions else "log, topic or key"
            raise ValueError(
                "the sealed message is not authentic: its bytes changed, or it comes from another "
                f"{places}; restore the log from a copy"
            ) from None

    def _data_key(self, data_key_id: bytes, position: int) -> DataKey:
        record = self._record_of(data_key_id, position)
        if record is None:
            raise ValueError(
                f"the log has no data key {data_key_id.hex()}: the message is not sealed, comes "
                "from another log, or was changed"
            )
        found = DataKey.of_value(record, self._keys, self._log, self._number)
        if len(self._found) >= _KEPT:
            self._found = {}
        self._found[data_key_id] = found
        return found

    def _record_of(self, data_key_id: bytes, position: int) -> bytes | None:
        """Return the value of a data key's record: from the segment of the message, else from the
        whole log, because a kill may have left it in an earlier segment only.
        """
        log = self._log
        tail = log.tail_position
        if self._missed.get(data_key_id) == tail:
            return None
        base = max(log.first_position, position - position % log.segment_size)
        starts: tuple[Start, ...] = (base, "first")
        for start in starts:
            found = self._next_record_of(data_key_id, start)
            if found is not None:
                return found
        if len(self._missed) >= _KEPT:
            self._missed = {}
        self._missed[data_key_id] = tail
        return None

    def _next_record_of(self, data_key_id: bytes, start: Start) -> bytes | None:
        visibility: Visibility = "committed" if self._log.mode == "r" else "appended"
        with self._log.tailer(on_damage="skip", visibility=visibility) as tailer:
            with contextlib.suppress(
                PositionError
            ):  # nothing begins there: continue from the first
                tailer.seek(start)
            while tailer.seek(key=key_of(data_key_id)):
                record = tailer.read()
                if record is None:
                    return None
                if record.type == SCHEMA_TYPE and id_of(record.value) == data_key_id:
                    return record.value
        return None

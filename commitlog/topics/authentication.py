"""Authentication: open each sealed message of a log, and count those that are not authentic."""

from __future__ import annotations

from collections import Counter

import numpy as np

from commitlog import CommitLog
from commitlog.errors import KeyUnavailableError
from commitlog.topics.floor_watch import refusing
from commitlog.topics.key_ring import KeyRing
from commitlog.topics.layer import RecordDecoder, unsealing
from commitlog.topics.schema import Schema, is_message_type
from commitlog.topics.seal_layer import is_sealed
from commitlog.topics.topics_state import catalog_of

_MOST_PROBLEMS = 100


class Authentication:
    """Open each sealed message of a log, without decoding it, and find those that should be sealed.

    Parameters
    ----------
    log : CommitLog
        An open log; it is read once.
    keys : KeyRing
        Opens the messages.

    Attributes
    ----------
    authentic : int
        The number of sealed messages that are authentic.
    refused : int
        The number of messages that are not authentic, because they were changed or moved, or are
        not sealed although their topic is.
    problems : list of str
        Of the first messages that are not authentic, each with its position.
    unavailable : Counter of str
        The numbers of messages whose master key the ring does not have, by its id.
    """

    def __init__(self, log: CommitLog, keys: KeyRing) -> None:
        self.authentic = self.refused = 0
        self.problems: list[str] = []
        self.unavailable: Counter[str] = Counter()
        self._log = log
        self._keys = keys
        self._catalog = catalog_of(log)
        self._seals: dict[int, bool] = {}
        self._decoders: dict[int, RecordDecoder[bytes] | None] = {}
        with log.tailer(on_damage="skip") as tailer:
            while len(batch := tailer.read_batch()):
                for number in np.unique(batch.types).tolist():
                    decoder = self._decoder_of(number)
                    if decoder is None:
                        continue
                    for row in np.flatnonzero(batch.types == number).tolist():
                        position = int(batch.positions[row])
                        record = batch.value(row), position, batch.key(row)
                        self._open(decoder, *record, is_sealed=self._seals[number])

    def _decoder_of(self, number: int) -> RecordDecoder[bytes] | None:
        if number not in self._decoders:
            self._decoders[number] = None
            schema = self._catalog.checked(number) if is_message_type(number) else None
            if isinstance(schema, Schema):
                self._seals[number] = is_sealed(schema)
                if self._seals[number] or refusing(self._log, schema, self._keys) is not None:
                    self._decoders[number] = unsealing(self._log, schema, bytes, self._keys)
        return self._decoders[number]

    def _open(
        self,
        decoder: RecordDecoder[bytes],
        value: bytes,
        position: int,
        key: bytes | None,
        *,
        is_sealed: bool,
    ) -> None:
        try:
            decoder.of_value(value, position, key)
        except KeyUnavailableError as error:
            self.unavailable[str(error.key_id)] += 1
        except ValueError as error:
            self.refused += 1
            if self.refused <= _MOST_PROBLEMS:
                self.problems.append(f"position {position}: {error}")
        else:
            self.authentic += is_sealed

    def notes(self) -> list[str]:
        """Return what was checked and what was not, in words."""
        found = []
        if self.authentic:
            found.append(f"sealed messages that are authentic: {self.authentic}")
        for key_id, count in sorted(self.unavailable.items()):
            found.append(
                f"sealed messages that need the key {key_id!r} to be authenticated: {count}"
            )
        more = self.refused - len(self.problems)
        if more:
            found.append(f"more messages that are not authentic: {more}")
        return found

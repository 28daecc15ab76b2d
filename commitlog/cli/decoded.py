"""The records of `--decode`: messages of topics as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from commitlog.cli.filter import Rows
from commitlog.cli.record_format import RecordFormat
from commitlog.errors import UndecodableError
from commitlog.log.commit_log import CommitLog
from commitlog.messages.decoding import Decoded, MessageDecoder, as_json
from commitlog.tail.batch import Batch


class BatchDecoder:
    """Decode the messages of batches; report what cannot be decoded, and leave it as it is.

    Parameters
    ----------
    log : CommitLog
        The open log.

    Attributes
    ----------
    undecodable : int
        How many messages were reported.
    """

    def __init__(self, log: CommitLog) -> None:
        self._decoder = MessageDecoder(log)
        self.undecodable = 0

    def decoded(self, batch: Batch, rows: Rows) -> list[Decoded | None]:
        """Decode some rows; None for what is no message or cannot be decoded."""
        found = []
        for row in rows.tolist():
            try:
                found.append(
                    self._decoder.decode(
                        int(batch.types[row]), batch.value(row), int(batch.positions[row])
                    )
                )
            except UndecodableError as error:
                click.echo(f"commitlog: {error.message}: position {error.position}", err=True)
                self.undecodable += 1
                found.append(None)
        return found

    def texts(self, form: RecordFormat) -> RecordFormat:
        """Return a format that prints messages as JSON where `form` prints values."""
        return lambda batch, rows: form(*self.converted(batch, rows))

    def converted(self, batch: Batch, rows: Rows) -> tuple[Batch, Rows]:
        """Return the batch with messages as JSON in place of their values."""
        values = batch.values()
        for row, found in zip(rows.tolist(), self.decoded(batch, rows), strict=True):
            if found is not None:
                values[row] = as_json(found.message).encode()
        offsets = np.zeros(len(values) + 1, dtype=np.int64)
        np.cumsum([len(value) for value in values], out=offsets[1:])
        data = np.frombuffer(b"".join(values), dtype=np.uint8)
        return dataclasses.replace(batch, data=data, offsets=offsets), rows

    def objects(self, lines: Callable[[Batch, Rows], bytes]) -> RecordFormat:
        """Return a format of JSON lines with `topic` and `message` in place of `value`."""

        def changed(batch: Batch, rows: Rows) -> bytes:
            text = lines(batch, rows).splitlines()
            return b"".join(
                _with_message(line, found) + b"\n"
                for line, found in zip(text, self.decoded(batch, rows), strict=True)
            )

        return changed


def _with_message(line: bytes, found: Decoded | None) -> bytes:
    if found is None:
        return line
    fields: dict[str, Any] = json.loads(line)
    for name in ("value", "value_encoding"):
        fields.pop(name, None)
    text = json.dumps({**fields, "topic": found.topic})
    return f'{text[:-1]}, "message": {as_json(found.message)}}}'.encode()

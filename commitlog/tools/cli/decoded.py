"""The records of `--decode`: messages of topics as JSON."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from commitlog import Batch, CommitLog
from commitlog.errors import UndecodableError
from commitlog.tools.cli.filter import Rows
from commitlog.tools.cli.output import echo
from commitlog.tools.cli.record_format import RecordFormat
from commitlog.tools.cli.where import Condition
from commitlog.topics.decoding import Decoded, MessageDecoder, as_json
from commitlog.topics.history import History

# Inside of its strings only: json.dumps escapes control characters of ASCII, but for the last one.
_BEYOND_ASCII = re.compile(r"[^ -~]")


class BatchDecoder:
    """Decode the messages of batches; report what cannot be decoded, and leave it as it is.

    Only messages of `topics` that meet the condition `where` are chosen; all without these.

    Attributes
    ----------
    undecodable : int
        How many messages were reported.
    """

    def __init__(
        self,
        log: CommitLog,
        topics: Collection[str] = (),
        where: Condition | None = None,
        *,
        shows_history: bool = False,
    ) -> None:
        self._decoder = MessageDecoder(log, topics or None, history=shows_history)
        self._where = where
        self._chooses = bool(topics) or where is not None
        self.undecodable = 0
        # The messages of the batch that was decoded last, by row.
        self._batch: Batch | None = None
        self._found: dict[int, Decoded | UndecodableError | None] = {}

    def chosen(self, batch: Batch, rows: list[int]) -> list[int]:
        """Return the rows whose messages are of the topics and meet the condition."""
        if not self._chooses:
            return rows
        where = self._where
        found = [(row, self._decode(batch, row)) for row in rows]
        return [
            row
            for row, each in found
            if isinstance(each, Decoded) and (where is None or where(each.message))
        ]

    def report_fields(self) -> None:
        """Report the fields of the condition that no message had."""
        unknown = [] if self._where is None else self._where.unknown
        if unknown:
            echo(f"commitlog: --where: no message has {' and no '.join(unknown)}", err=True)

    def report(self, batch: Batch, count: int) -> None:
        """Report what could not be decoded among the first rows of a batch."""
        if batch is self._batch:
            for row in sorted(self._found):
                if row < count:
                    self._report(row)

    def decode(self, batch: Batch, rows: Rows) -> list[Decoded | None]:
        """Decode some rows; None for what is no message or cannot be decoded."""
        found = []
        for row in rows.tolist():
            self._decode(batch, row)
            found.append(self._report(row))
        return found

    def _decode(self, batch: Batch, row: int) -> Decoded | UndecodableError | None:
        if batch is not self._batch:
            self._batch = batch
            self._found = {}
            self._decoder.refresh()
        if row not in self._found:
            try:
                self._found[row] = self._decoder.decode(
                    int(batch.types[row]),
                    batch.value(row),
                    int(batch.positions[row]),
                    batch.key(row),
                )
            except UndecodableError as error:
                self._found[row] = error
        return self._found[row]

    def _report(self, row: int) -> Decoded | None:
        found = self._found[row]
        if isinstance(found, UndecodableError):
            echo(f"commitlog: {found.message}: position {found.position}", err=True)
            self.undecodable += 1
            self._found[row] = None
            return None
        return found

    def texts(self, form: RecordFormat) -> RecordFormat:
        """Return a format that prints messages as JSON where `form` prints values."""
        return lambda batch, rows: form(*self.converted(batch, rows))

    def converted(self, batch: Batch, rows: Rows) -> tuple[Batch, Rows]:
        """Return the batch with messages as JSON in place of their values, and with their keys."""
        values = batch.values()
        for row, found in zip(rows.tolist(), self.decode(batch, rows), strict=True):
            text = None if found is None else self._json_of(found, batch, row)
            if text is not None:
                values[row] = text.encode()
        data, offsets = _concatenated(values)
        return dataclasses.replace(self._keyed(batch, rows), data=data, offsets=offsets), rows

    def _keyed(self, batch: Batch, rows: Rows) -> Batch:
        """Return the batch with the keys that its messages were appended with."""
        messages = zip(rows.tolist(), self.decode(batch, rows), strict=True)
        opened = {row: found.key for row, found in messages if found is not None}
        if all(key == batch.key(row) for row, key in opened.items()):
            return batch
        keys = [opened.get(row, batch.key(row)) or b"" for row in range(len(batch))]
        data, offsets = _concatenated(keys)
        return dataclasses.replace(batch, keys=data, key_offsets=offsets)

    def objects(self, lines: Callable[[Batch, Rows], bytes]) -> RecordFormat:
        """Return a format of JSON lines with `topic` and `message` in place of `value`."""

        def changed(batch: Batch, rows: Rows) -> bytes:
            text = lines(self._keyed(batch, rows), rows).splitlines()
            decoded = zip(text, rows.tolist(), self.decode(batch, rows), strict=True)
            return b"".join(
                (line if found is None else self._with_message(line, found, batch, row)) + b"\n"
                for line, row, found in decoded
            )

        return changed

    def _json_of(self, found: Decoded, batch: Batch, row: int) -> str | None:
        """Return a message as JSON; report one that is nested too deeply, and return None."""
        try:
            return json_of(found.message)
        except ValueError as error:
            position = int(batch.positions[row])
            echo(f"commitlog: {error}: position {position}", err=True)
            self.undecodable += 1
            return None

    def _with_message(self, line: bytes, found: Decoded, batch: Batch, row: int) -> bytes:
        """Return a JSON line with `topic` and `message` in place of `value`."""
        message = self._json_of(found, batch, row)
        if message is None:
            return line
        fields: dict[str, Any] = json.loads(line)
        for name in ("value", "value_encoding"):
            fields.pop(name, None)
        fields["topic"] = found.topic
        if found.history is not None:
            fields["history"] = _fields_of(found.history)
        text = json.dumps(fields)
        return f'{text[:-1]}, "message": {message}}}'.encode()


def json_of(message: Any) -> str:
    """Return a message as JSON in which each character is printable or escaped."""
    text = as_json(message)
    return text if text.isprintable() else _BEYOND_ASCII.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1]


def _concatenated(parts: list[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the columns of a batch that have these parts."""
    offsets = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return np.frombuffer(b"".join(parts), dtype=np.uint8), offsets


def _fields_of(history: History) -> dict[str, Any]:
    fields = dataclasses.asdict(history)
    return {**fields, "hops": [{**hop, "source": str(hop["source"])} for hop in fields["hops"]]}

"""Pipeline: write the outputs of each message of one log exactly once to another log."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from commitlog import CommitLog, Record, Tailer
from commitlog.errors import InvalidOptionError, PositionError
from commitlog.topics.catalog import SchemaCatalog
from commitlog.topics.history import History, Hop
from commitlog.topics.outputs import Outputs
from commitlog.topics.schema import is_message_type
from commitlog.topics.topics_state import catalog_of
from commitlog.types import Start


class Pipeline:
    """Resume a tailer behind the last message whose outputs are in a log.

    Parameters
    ----------
    source, target : CommitLog
        The log that is read, and the one that has the outputs.
    tailer : Tailer
        Reads `source`.
    start : {"first"} or int, optional
        Where to begin if `target` has no outputs.
    is_resumed : bool
        Whether the tailer begins at a saved position.

    Attributes
    ----------
    outputs : Outputs
        Collects the outputs of the message that is handled.
    """

    def __init__(
        self,
        source: CommitLog,
        target: CommitLog,
        tailer: Tailer,
        *,
        start: Start | None,
        is_resumed: bool,
    ) -> None:
        if target.mode == "r":
            raise InvalidOptionError(
                "after_last_written must be a log open for appending", path=target.path
            )
        if start == "end":
            raise InvalidOptionError(
                'after_last_written needs start="first" or a position, because the end of the log '
                "moves from one start to the next"
            )
        self.outputs = Outputs(target)
        self._source = source
        self._target = target
        self._tailer = tailer
        self._is_resumed = is_resumed
        self._is_certain = True
        history = self._last_history()
        if history is not None:
            self._move_behind(history)
        elif not is_resumed or target.first_position < target.segment_size:
            # The kill may have lost outputs in pool buffers: the saved position is behind their
            # inputs.
            tailer.seek("first" if start is None else start)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Handle messages in a `with` block. After an exception it is unknown whether the outputs
        were appended, so the next block begins by reading the log of the outputs.
        """
        if not self._is_certain:
            self.outputs.missing = None
            history = self._last_history()
            if history is not None and history.hops[-1].position >= self._tailer.position:
                self._move_behind(history)
            self._is_certain = True
        try:
            yield
        except BaseException:
            self._is_certain = False
            self.outputs.discard()
            raise

    def _move_behind(self, history: History) -> None:
        """Move the tailer behind the message that the last output was written for, or before it if
        outputs are missing.
        """
        hop = history.hops[-1]
        first = self._source.first_position
        if self._is_resumed and hop.position < first <= self._tailer.position:
            self._tailer.seek("first")  # the message was handled and deleted
            return
        record = None
        with contextlib.suppress(PositionError):
            self._tailer.seek(hop.position)
            record = self._tailer.read()
        if record is None or not self._is_input(record, hop):
            raise PositionError(
                f"{self._target.path} has outputs of a message at position {hop.position}, but "
                "this log has another record there, or none: restore this log from a copy, or "
                "write to a new log; if retention deleted the message, use a named reader",
                path=self._source.path,
                position=hop.position,
                first_position=self._source.first_position,
            )
        if history.remaining:
            self._tailer.seek(hop.position)
            self.outputs.missing = history.remaining

    def _last_history(self) -> History | None:
        """Return the history of the last output of this source."""
        self._target.flush()  # waits for open claims, such as those of the process that was killed
        source = self._source.identity.uuid
        catalog = catalog_of(self._target)
        with self._target.tailer(direction="backward", visibility="appended") as tailer:
            while len(batch := tailer.read_batch(4096)):  # the newest record is the first one
                numbers = np.unique(batch.types).tolist()
                carrying = [number for number in numbers if _has_history(catalog, number)]
                for row in np.flatnonzero(np.isin(batch.types, carrying)).tolist():
                    history = History.of_value(batch.value(row))
                    if history.hops[-1].source.bytes == source:
                        return history
        return None

    def _is_input(self, record: Record, hop: Hop) -> bool:
        """Return whether a record is the message of a hop."""
        if record.position != hop.position:
            return False
        written_ns = record.timestamp_ns
        if _has_history(catalog_of(self._source), record.type):
            written_ns = History.of_value(record.value).written_ns
        return written_ns == hop.written_ns


def _has_history(catalog: SchemaCatalog, number: int) -> bool:
    schema = catalog.find(number) if is_message_type(number) else None
    return schema is not None and schema.has_history

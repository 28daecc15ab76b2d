"""CallHandler: call the method that a record is for, and append what it writes."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from time import time_ns
from typing import Any, Literal, TypeAlias

from commitlog import CommitLog, Record
from commitlog.errors import InvalidOptionError, KeyUnavailableError, UndecodableError
from commitlog.topics.handled import HANDLED, Handled
from commitlog.topics.history import History
from commitlog.topics.method_table import MethodTable
from commitlog.topics.outputs import Outputs
from commitlog.topics.schema import SCHEMA_TYPE

OnUnknown = Callable[[str, dict[str, Any]], object]
OnError = Callable[[Exception, Record], object]
OnUndecodableCall: TypeAlias = Literal["raise", "skip"]


class CallHandler:
    """Call the method that a record is for, and append what it writes.

    Parameters
    ----------
    log : CommitLog
        The log of the calls.
    table : MethodTable
        Their methods.
    on_unknown, on_error, on_undecodable, on_missing_key
        As for `commitlog.method_reader`.
    history : bool
        Whether what a method writes carries the history of its call.
    outputs : Outputs, optional
        Collects the messages that a method writes.

    Attributes
    ----------
    unknown : int
        How many calls no object has a method for.
    undecodable : int
        How many calls could not be decoded and were skipped or handed to `on_error`.
    """

    def __init__(
        self,
        log: CommitLog,
        table: MethodTable,
        on_unknown: OnUnknown | None,
        on_error: OnError | None,
        *,
        on_undecodable: OnUndecodableCall | None = None,
        on_missing_key: OnUndecodableCall = "raise",
        history: bool,
        outputs: Outputs | None,
    ) -> None:
        self.unknown = self.undecodable = 0
        self._on_undecodable = on_undecodable
        self._on_missing_key = on_missing_key
        self._log = log
        self._table = table
        self._on_unknown = on_unknown
        self._on_error = on_error
        self._has_history = history
        self._handled: Handled | None = None
        self._outputs = outputs

    @property
    def history(self) -> History | None:
        """Return the history of the last call; None if it has none."""
        record = None if self._handled is None else self._handled.record
        if record is None or record.type not in self._table.with_history:
            return None
        return History.of_value(record.value)

    @property
    def headers(self) -> dict[str, bytes]:
        """Return the headers of the last call."""
        if not self._has_history:
            raise InvalidOptionError(
                "a method reader with history=False does not keep the call that it handles: leave "
                "history=False out",
                path=self._log.path,
            )
        record = None if self._handled is None else self._handled.record
        return {} if record is None else record.headers

    @contextlib.contextmanager
    def handling(self) -> Iterator[None]:
        """Give the messages that a `with` block writes the history of the call that is handled."""
        if not self._has_history:
            yield
            return
        handled = Handled(self._log, self._table.with_history.__contains__, self._outputs)
        if self._handled is not None:
            handled.record = self._handled.record
        self._handled = handled
        token = HANDLED.set(handled)
        try:
            yield
        finally:
            handled.is_over = True
            HANDLED.reset(token)

    def handle(self, record: Record) -> bool:
        """Handle a record; return whether it is a call."""
        refused: UndecodableError | None = None
        try:
            target = self._table[record.type]
            if target is None:
                if record.type == SCHEMA_TYPE:
                    self._table.note(record)
                return False
            decode, call, name, is_sealed = target
            arguments = decode.of_record(record) if is_sealed else decode(record.value)
        except (ValueError, RecursionError, KeyUnavailableError) as error:
            refused = self._refuse(record, error)
            if refused is None:
                return False
        handled = self._handled
        if handled is not None:
            handled.record = record
            handled.read_ns = time_ns()
        try:
            if refused is not None:
                raise refused
            if call is not None:
                call(*arguments)
            else:
                self._call_unknown(name, arguments)
        except Exception as error:
            if self._on_error is None:
                raise
            self._discard()
            self._on_error(error, record)
        if self._outputs is not None and handled is not None:
            self._outputs.append(handled.head)
        return True

    async def handle_async(self, record: Record) -> bool:
        """As `handle`, and await what the method and the other callables return."""
        refused: UndecodableError | None = None
        try:
            target = self._table[record.type]
            if target is None:
                if record.type == SCHEMA_TYPE:
                    self._table.note(record)
                return False
            decode, call, name, is_sealed = target
            arguments = decode.of_record(record) if is_sealed else decode(record.value)
        except (ValueError, RecursionError, KeyUnavailableError) as error:
            refused = self._refuse(record, error)
            if refused is None:
                return False
        handled = self._handled
        if handled is not None:
            handled.begin(record)
        try:
            if refused is not None:
                raise refused
            if call is not None:
                await _end(call(*arguments))
            else:
                await _end(self._call_unknown(name, arguments))
        except Exception as error:
            if self._on_error is None:
                raise
            self._discard()
            await _end(self._on_error(error, record))
        if self._outputs is not None and handled is not None:
            handled.is_over = True  # a task that the method left may write during this await
            await self._outputs.append_async(handled.head)
        return True

    def _call_unknown(self, name: str, arguments: dict[str, Any]) -> object:
        self.unknown += 1
        return None if self._on_unknown is None else self._on_unknown(name, arguments)

    def _discard(self) -> None:
        if self._outputs is not None:
            self._outputs.discard()

    def _refuse(self, record: Record, error: Exception) -> UndecodableError | None:
        """Return the error for `on_error` of a call that cannot be decoded, None if the call is
        skipped, or raise the error.
        """
        if isinstance(error, KeyUnavailableError):
            if self._on_missing_key == "raise":
                raise error
            self.undecodable += 1
            return None
        found = UndecodableError(
            f"a call cannot be decoded: {getattr(error, 'message', error)}; correct the method, or "
            'read with on_undecodable="skip"',
            path=self._log.path,
            position=record.position,
        )
        is_given = self._on_undecodable is None and self._on_error is not None
        if self._on_undecodable != "skip" and not is_given:
            raise found from error
        self.undecodable += 1
        found.__cause__ = error
        return found if is_given else None


async def _end(result: object) -> None:
    """Wait for the end of a coroutine; do nothing with other results."""
    if inspect.isawaitable(result):
        await result

"""MethodReader: call the methods of objects with the calls in a log."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from commitlog._kernel.readers import Record
from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import (
    CommitLogError,
    InvalidOptionError,
    MessageError,
    SchemaError,
    UndecodableError,
)
from commitlog.log.commit_log import CommitLog
from commitlog.messages.catalog import SchemaCatalog
from commitlog.messages.codec import Decode
from commitlog.messages.handled import HANDLED, Handled
from commitlog.messages.history import History, behind_history
from commitlog.messages.method import Method, methods_of, plain_decoder
from commitlog.messages.pipeline import Pipeline
from commitlog.messages.schema import Schema, is_message_type
from commitlog.tail.seek import Start
from commitlog.tail.tailer import Tailer

OnUnknown = Callable[[str, dict[str, Any]], object]
OnError = Callable[[Exception, Record], object]
_STOP_INTERVAL_S = 0.1  # how often a waiting reader looks whether it shall stop


class MethodReader(ProcessBound):
    """Call the methods of objects; `commitlog.method_reader` returns it.

    Only one thread at a time may use it, except for `stop`.

    Attributes
    ----------
    unknown : int
        How many calls of unknown methods were skipped or handed to `on_unknown`.
    """

    def __init__(
        self,
        log: CommitLog,
        tailer: Tailer,
        methods: dict[str, tuple[Method, Callable[..., Any]]],
        on_unknown: OnUnknown | None,
        on_error: OnError | None,
        *,
        history: bool,
        pipeline: Pipeline | None,
    ) -> None:
        """Take the parts of a reader; only `commitlog.method_reader` calls this."""
        self.unknown = 0
        self._log = log
        self._tailer = tailer
        self._methods = methods
        self._on_unknown = on_unknown
        self._on_error = on_error
        self._catalog = SchemaCatalog(log)
        self._decoders: dict[int, tuple[Decode[Any], Callable[..., Any] | None, str] | None] = {}
        self._with_history: set[int] = set()  # the type numbers of calls that have one
        self._handled: Handled | None = None
        if history:
            outputs = None if pipeline is None else pipeline.outputs
            self._handled = Handled(log, self._with_history.__contains__, outputs)
        self._pipeline = pipeline
        self._is_stopping = False

    @property
    def history(self) -> History | None:
        """Return where the call came from that is handled, or was handled last.

        None if it has no history, or without ``history=``.
        """
        record = None if self._handled is None else self._handled.record
        if record is None or record.type not in self._with_history:
            return None
        return History.of_value(record.value)

    @contextlib.contextmanager
    def _handling(self) -> Iterator[None]:
        """Let what is written in a `with` block have the history of the call that is handled."""
        token = HANDLED.set(self._handled)
        try:
            if self._pipeline is None:
                yield
            else:
                with self._pipeline.running():
                    yield
        finally:
            HANDLED.reset(token)

    def read_one(self, timeout: Duration | None = 0) -> bool:
        """Handle the next call.

        Parameters
        ----------
        timeout : float, str or None
            How long to wait for it; None waits without end.

        Returns
        -------
        bool
            False if no call arrived in time.

        Raises
        ------
        UndecodableError
            The arguments cannot be decoded. The reader stays before the call.
        Exception
            What the method raised, without `on_error`. The reader stays before the call.
        """
        end = None if timeout is None else time.monotonic() + parse_duration(timeout, "timeout")
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            with self._handling(), self._tailer.reading(left) as record:
                if record is None:
                    return False
                if self._handle(record):
                    return True

    def run(self, timeout: Duration | None = None) -> int:
        """Handle calls as they arrive, until `stop`, Ctrl-C or an error.

        Parameters
        ----------
        timeout : float, str or None
            End if no record arrives for that long, whether or not it is a call; None does not end.

        Returns
        -------
        int
            How many calls were handled.
        """
        limit = None if timeout is None else parse_duration(timeout, "timeout")
        count = 0
        end = None if limit is None else time.monotonic() + limit
        while not self._is_stopping:
            left = _STOP_INTERVAL_S
            if end is not None:
                left = min(left, max(0.0, end - time.monotonic()))
            with self._handling():
                records, handled = self._handle_arriving(left)
            count += handled
            if end is not None and limit is not None:
                now = time.monotonic()
                if records:
                    end = now - left + limit
                elif now >= end:
                    break
        return count

    def _handle_arriving(self, timeout_s: float) -> tuple[int, int]:
        """Handle calls until no record arrives for that long, or `stop`.

        Returns the numbers of records and of calls.
        """
        records = count = 0
        for record in self._tailer.follow(timeout_s):
            records += 1
            try:
                count += self._handle(record)
            except BaseException:
                with contextlib.suppress(CommitLogError):  # the log is closed
                    self._tailer.seek(record.position)
                raise
            if self._is_stopping:
                # The loop would save the place behind this record at its next step.
                self._tailer.seek(self._tailer.position)
                break
        return records, count

    def stop(self) -> None:
        """End `run` after the call that it handles, from any thread."""
        self._is_stopping = True

    def _handle(self, record: Record) -> bool:
        """Handle a record; return whether it is a call."""
        number = record.type
        try:
            if number not in self._decoders:
                self._decoders[number] = self._decoder_of(number)
            found = self._decoders[number]
            if found is None:
                return False
            decode, call, name = found
            arguments = decode(record.value)
        except ValueError as error:
            raise UndecodableError(
                f"a call cannot be decoded: {getattr(error, 'message', error)}; correct the method",
                path=self._log.path,
                position=record.position,
            ) from error
        handled = self._handled
        if handled is not None:
            handled.record = record
            handled.read_ns = time.time_ns()
        try:
            if call is not None:
                call(*arguments)
            else:
                self.unknown += 1
                if self._on_unknown is not None:
                    self._on_unknown(name, arguments)
        except Exception as error:
            if self._on_error is None:
                raise
            if self._pipeline is not None:
                self._pipeline.outputs.discard()
            self._on_error(error, record)
        if self._pipeline is not None and handled is not None:
            self._pipeline.outputs.append(handled.head)
        return True

    def _decoder_of(self, number: int) -> tuple[Decode[Any], Callable[..., Any] | None, str] | None:
        if not is_message_type(number):
            return None
        schema = self._catalog.find(number)
        if schema is None:
            raise SchemaError("no schema of its type number is in the log")
        if schema.codec != Method.name:
            return None
        if schema.has_history:
            self._with_history.add(number)
        if schema.topic not in self._methods:
            return behind_history(schema, plain_decoder(schema)), None, schema.topic
        method, bound = self._methods[schema.topic]
        decode = behind_history(schema, method.decoder(schema))
        return decode, _positional(method, bound), schema.topic

    def close(self) -> None:
        """Release the name and the segment. A second call does nothing."""
        self._tailer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _positional(method: Method, bound: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable that takes all arguments by position."""
    named = [each.name for each in method.parameters if each.kind is each.KEYWORD_ONLY]
    if not named:
        return bound
    plain = len(method.parameters) - len(named)

    def call(*arguments: Any) -> None:
        bound(*arguments[:plain], **dict(zip(named, arguments[plain:], strict=True)))

    return call


def method_reader(
    log: CommitLog,
    *objects: object,
    name: str | None = None,
    start: Start | None = None,
    on_unknown: OnUnknown | None = None,
    on_error: OnError | None = None,
    history: bool = True,
    after_last_written: CommitLog | None = None,
) -> MethodReader:
    """Return a reader that calls the public methods of objects with the calls in a log.

    If a method raises, a named reader repeats its call when it runs again.

    Parameters
    ----------
    log : CommitLog
        The log that a method writer appends to.
    *objects : object
        Each public method returns None, and belongs to one of the objects only.
    name, start
        As for `CommitLog.tailer`.
    on_unknown : callable, optional
        Takes name and arguments of a call that no object has a method for; by default such calls
        are skipped and counted.
    on_error : callable, optional
        Takes what a method raised, and the record of the call, which then counts as handled.
    history : bool
        Let messages that a method appends to topics, or by a method writer, carry the history of
        its call.
    after_last_written : CommitLog, optional
        A log open for appending, which has what the methods write. The reader begins behind the
        last call whose outputs it has, or at `start` if it has none. The place of the name is not
        used. The outputs of a call are appended when its method has returned, all of them or none.
        So each call has its outputs once, after any kill. `name` keeps a second reader away.

    Raises
    ------
    InvalidOptionError
        There is no object, an object has no public method, or `after_last_written` needs history.
    PositionError
        The last call whose outputs are in `after_last_written` is not in this log.
    MessageError
        Two objects have a method of the same name, a method returns a value, is async, or msgspec
        cannot decode a parameter.
    SchemaError
        A method cannot take the calls that the log has.
    """
    methods = dict(_methods(objects))
    for schema in SchemaCatalog(log).schemas().values():
        _check(schema, methods)
    if after_last_written is not None and not history:
        raise InvalidOptionError("after_last_written needs history: leave history=False out")
    is_resumed = name is not None and any(each.name == name for each in log.tailers())
    tailer = log.tailer(name, start=start)
    pipeline = None
    try:
        if after_last_written is not None:
            pipeline = Pipeline(log, after_last_written, tailer, start=start, is_resumed=is_resumed)
    except BaseException:
        tailer.close()
        raise
    return MethodReader(
        log, tailer, methods, on_unknown, on_error, history=history, pipeline=pipeline
    )


def _check(schema: Schema, methods: dict[str, tuple[Method, Callable[..., Any]]]) -> None:
    if schema.codec == Method.name and schema.topic in methods:
        methods[schema.topic][0].decoder(schema)


def _methods(
    objects: tuple[object, ...],
) -> Iterator[tuple[str, tuple[Method, Callable[..., Any]]]]:
    if not objects:
        raise InvalidOptionError("a method reader needs at least one object")
    seen: set[str] = set()
    for each in objects:
        owner = type(each).__name__
        found = list(methods_of(type(each)))
        if not found:
            raise InvalidOptionError(f"{owner} has no public method: no call could be handled")
        for name, function in found:
            if name in seen:
                raise MessageError(f"two objects have a method {name!r}: rename one of them")
            seen.add(name)
            method = Method(owner, function)
            if method.is_async:
                raise MessageError(f"{owner}.{name} is async: a method reader calls plain methods")
            yield name, (method, getattr(each, name))

"""Open a method reader."""

from __future__ import annotations

from commitlog import CommitLog
from commitlog.base.option import check_switches
from commitlog.errors import InvalidOptionError
from commitlog.topics.call_handler import CallHandler, OnError, OnUndecodableCall, OnUnknown
from commitlog.topics.choices import check_choice
from commitlog.topics.interception import Intercept
from commitlog.topics.key_ring import KeyRing, key_ring_of
from commitlog.topics.method_reader import MethodReader
from commitlog.topics.method_table import MethodTable
from commitlog.topics.pipeline import Pipeline
from commitlog.types import Start


def method_reader(
    log: CommitLog,
    *objects: object,
    name: str | None = None,
    start: Start | None = None,
    on_unknown: OnUnknown | None = None,
    on_error: OnError | None = None,
    on_undecodable: OnUndecodableCall | None = None,
    on_missing_key: OnUndecodableCall = "raise",
    intercept: Intercept | None = None,
    history: bool = True,
    after_last_written: CommitLog | None = None,
    keys: KeyRing | None = None,
) -> MethodReader:
    """Return a reader that calls the public methods of objects, one for each call in a log.

    If a method raises, a named reader repeats its call when it runs again.

    Parameters
    ----------
    log : CommitLog
        The log that a method writer appends to.
    *objects : object
        Each public method returns None, or an object whose methods continue the call, and belongs
        to one of the objects only. If one is `async def`, the reader needs `run_async`.
    name, start
        As for `CommitLog.tailer`.
    on_unknown : callable, optional
        Takes name and arguments of a call that no object has a method for; by default such calls
        are skipped and counted.
    on_error : callable, optional
        Takes what a method raised, and the record of the call, which then counts as handled.
    on_undecodable : {"raise", "skip"}, optional
        What to do with a call that cannot be decoded: raise `UndecodableError` and stay before it,
        or skip and count it. By default `on_error` takes the error; without it, the error is
        raised.
    on_missing_key : {"raise", "skip"}
        What to do with an encrypted call that the key ring has no key for: raise
        `KeyUnavailableError` and stay before it, or skip and count it. A key that arrives later
        does not bring a skipped call back.
    intercept : callable, optional
        Takes the name of a method, the arguments of a call by their names, and a function that
        calls the method with such arguments. It may change them, or drop the call, which then
        counts as handled. If the method is `async def`, the function returns a coroutine, which
        `intercept` returns or awaits.
    history : bool
        Let messages that a method appends to topics, or by a method writer, carry the history of
        its call.
    after_last_written : CommitLog, optional
        The log, open for appending, to which the methods write. Each call gets its outputs exactly
        once, after any kill: they are appended together when its method has returned. The reader
        begins after the last call that has outputs there, or at `start` if none has. It does not
        use the position that `name` keeps; `name` only excludes a second reader.
    keys : topics.KeyRing, optional
        Opens encrypted calls; by default that of the environment variable `COMMITLOG_KEYS`.

    Raises
    ------
    InvalidOptionError
        There is no object, an object has no public method, `after_last_written` needs history, or
        another option is invalid.
    PositionError
        The last call whose outputs are in `after_last_written` is not in this log.
    MessageError
        Two objects have a method of the same name, a method returns a value, or msgspec cannot
        decode a parameter.
    SchemaError
        A method cannot take the calls that the log has.
    """
    check_switches(history=history)
    table = MethodTable(log, objects, key_ring_of(keys), intercept)
    if after_last_written is not None and not history:
        raise InvalidOptionError("after_last_written needs history: leave history=False out")
    check_choice("on_undecodable", on_undecodable, (None, "raise", "skip"))
    check_choice("on_missing_key", on_missing_key, ("raise", "skip"))
    is_resumed = name is not None and any(each.name == name for each in log.tailers())
    tailer = log.tailer(name, start=start)
    pipeline = None
    try:
        if after_last_written is not None:
            pipeline = Pipeline(log, after_last_written, tailer, start=start, is_resumed=is_resumed)
    except BaseException:
        tailer.close()
        raise
    outputs = None if pipeline is None else pipeline.outputs
    handler = CallHandler(
        log,
        table,
        on_unknown,
        on_error,
        on_undecodable=on_undecodable,
        on_missing_key=on_missing_key,
        history=history,
        outputs=outputs,
    )
    return MethodReader(log, tailer, table, handler, pipeline)

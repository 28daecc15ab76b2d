"""Messages as an Arrow table, without their classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from commitlog.base.extras import pyarrow_for
from commitlog.base.option import check_switches
from commitlog.errors import CommitLogError, InvalidOptionError, UndecodableError
from commitlog.topics.arrow_column import message_column
from commitlog.topics.decoding import MessageDecoder
from commitlog.topics.history import History
from commitlog.topics.topics_state import catalog_of

if TYPE_CHECKING:
    import pyarrow as pa

    from commitlog import CommitLog
    from commitlog.topics.key_ring import KeyRing
    from commitlog.types import Bound

_COLUMNS = ("position", "sequence", "timestamp", "key")


def to_arrow(
    log: CommitLog,
    topics: Sequence[str] | None = None,
    *,
    start: Bound | None = None,
    end: Bound | None = None,
    history: bool = False,
    keys: KeyRing | None = None,
) -> pa.Table:
    """Read messages as an Arrow table, by the schemas in the log.

    Parameters
    ----------
    log : CommitLog
        An open log.
    topics : sequence of str, optional
        The names of the topics; all by default. With a topic that the log does not have, the call
        fails.
    start, end
        As for `CommitLog.to_arrow`.
    history : bool
        Add the column `history`.
    keys : topics.KeyRing, optional
        Opens encrypted messages; by default that of the environment variable `COMMITLOG_KEYS`.

    Returns
    -------
    pyarrow.Table
        A row for each message: position, sequence, timestamp, key, `topic`, and `message`, a struct
        with one field for each topic, of which the others are null. A field that is a dict is a
        map. What has no fields of its own, such as a dict without types, is JSON text, and so is a
        topic whose messages have no common Arrow type. `history` is a struct with the fields of
        `History`: `hops`, a list of structs with source, position, written and read; `written`,
        `earlier` and `remaining`. It is null for a message without a history.

    Raises
    ------
    TopicNotFoundError
        The log has no topic of a name.
    UndecodableError
        A message cannot be decoded.
    KeyUnavailableError
        A message is encrypted, and the key ring has no key for it.
    MissingExtraError
        pyarrow, or a package of a codec, is not installed.
    CommitLogError
        As for `CommitLog.to_arrow`.
    """
    check_switches(history=history)
    pa = pyarrow_for("topics.to_arrow")
    if isinstance(topics, str):
        raise InvalidOptionError(f"topics must be a list of names: use [{topics!r}]")
    catalog = catalog_of(log)
    catalog.check_topics(topics or ())
    decoder = MessageDecoder(log, topics, history=history, keys=keys)
    parts: list[Any] = []
    found_topics: list[str] = []
    messages: list[Any] = []
    histories: list[History | None] = []
    for batch in log.to_reader(start=start, end=end):
        columns = [batch.column(name).to_pylist() for name in ("type", "value", "position", "key")]
        rows, record_keys = [], []
        for row, record in enumerate(zip(*columns, strict=True)):
            found = decoder.decode(*record)
            if found is not None:
                rows.append(row)
                record_keys.append(found.key)
                found_topics.append(found.topic)
                messages.append(found.message)
                histories.append(found.history)
        part = batch.select(_COLUMNS).take(pa.array(rows, pa.int64()))
        at = _COLUMNS.index("key")
        field = part.schema.field(at)
        parts.append(part.set_column(at, field, pa.array(record_keys, field.type)))
    schema = log.to_reader(end=log.first_position, columns=_COLUMNS).schema
    table = pa.Table.from_batches(parts, schema)
    names = sorted(set(found_topics))
    of_topics = []
    for name in names:
        both = zip(found_topics, messages, strict=True)
        own = [message if topic == name else None for topic, message in both]
        try:
            of_topics.append(message_column(own, list(catalog.schemas_of(name).values())))
        except CommitLogError:
            raise
        except ValueError as error:
            raise UndecodableError(
                f"the messages of topic {name!r} cannot be a column: {error}; name the other "
                "topics with topics=",
                path=log.path,
                topic=name,
            ) from error
    fields = pa.struct([(name, column.type) for name, column in zip(names, of_topics, strict=True)])
    message = (
        pa.StructArray.from_arrays(of_topics, fields=list(fields))
        if names
        else pa.array([None] * len(messages), fields)
    )
    table = table.append_column("topic", pa.array(found_topics, pa.string()))
    table = table.append_column("message", message)
    return table.append_column("history", _histories(pa, histories)) if history else table


def _histories(pa: Any, histories: list[History | None]) -> Any:
    time = pa.timestamp("ns", "UTC")
    hop = [("source", pa.string()), ("position", pa.int64()), ("written", time), ("read", time)]
    form = [
        ("hops", pa.list_(pa.struct(hop))),
        ("written", time),
        ("earlier", pa.int32()),
        ("remaining", pa.int64()),
    ]
    rows = [
        None
        if each is None
        else {
            "hops": [
                (str(hop.source), hop.position, hop.written_ns, hop.read_ns) for hop in each.hops
            ],
            "written": each.written_ns,
            "earlier": each.earlier,
            "remaining": each.remaining,
        }
        for each in histories
    ]
    return pa.array(rows, pa.struct(form))

"""The history of a record, by the schemas in its log."""

from __future__ import annotations

from commitlog import CommitLog, Record
from commitlog.errors import UndecodableError
from commitlog.topics.history import History
from commitlog.topics.schema import is_message_type
from commitlog.topics.topics_state import catalog_of


def history_of(log: CommitLog, record: Record) -> History | None:
    """Return where a message came from. Its class is not needed.

    Parameters
    ----------
    log : CommitLog
        An open log.
    record : Record
        A record of it, from any reader.

    Returns
    -------
    History or None
        None if the record is no message, or a message that was appended while none was handled.

    Raises
    ------
    UndecodableError
        The message has no schema in the log, or its history is damaged, or a newer release wrote
        one of them.
    """
    topic = None
    try:
        if not is_message_type(record.type):
            return None
        schema = catalog_of(log).schema_of(record.type)
        topic = schema.topic
        return History.of_value(record.value) if schema.has_history else None
    except ValueError as error:
        raise UndecodableError(
            f"the history of a message cannot be read: {getattr(error, 'message', error)}",
            path=log.path,
            position=record.position,
            topic=topic,
        ) from None

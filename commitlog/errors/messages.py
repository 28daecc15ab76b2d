"""The exceptions of messages: those of topics, methods and buses."""

from __future__ import annotations

from commitlog.errors.base import CommitLogError


class MessageError(CommitLogError, TypeError):
    """Raised if a message class is invalid or does not match the message.

    Its type number or size differs from the message's, or two classes share a number. Nothing was
    read or written. Correct the class, or check `reader.type` before reading.
    """


class MessageValueError(CommitLogError, ValueError):
    """Raised if a value does not fit the message's field.

    Nothing was changed. Use a value in range, or declare the field with a wider kind.
    """


class SchemaError(CommitLogError, ValueError):
    """Raised if a schema in the log and a message class, or its codec, are incompatible.

    The message has both schemas. Nothing was appended. Give the field a default or an alias, or
    give the topic another name. If another handle has sealed the topic, open it again.

    Attributes
    ----------
    topic, field : str or None
        The topic, and the path of the field, such as ``$.amount``.
    """

    topic: str | None = None
    field: str | None = None


class UndecodableError(CommitLogError, ValueError):
    """Raised if the message at `position` cannot be decoded; the tailer stays before it.

    Correct the message class, or open the tailer with `on_undecodable="skip"` or `"raw"`.

    Attributes
    ----------
    topic, field : str or None
        The topic, and the path of the field, such as ``$.amount``, if known.
    """

    topic: str | None = None
    field: str | None = None


class KeyUnavailableError(CommitLogError, LookupError):
    """Raised if a key ring cannot open or make the data key of sealed messages.

    A tailer stays before the message at `position`, also with `on_undecodable="skip"`; an append
    appended nothing. Give the key by `keys=`, or in the environment variable `COMMITLOG_KEYS`.

    Attributes
    ----------
    key_id : str or None
        The id of the master key; None if the key ring has no key at all.
    """

    key_id: str | None = None


class TopicNotFoundError(CommitLogError, LookupError):
    """Raised if a log has no topic of that name, and the call does not create it.

    Check the name. A log that is open with mode "a" creates a topic when it is opened.

    Attributes
    ----------
    topic : str or None
        The topic.
    """

    topic: str | None = None

"""Broker: a topic of Kafka, its settings and its failures."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from concurrent.futures import TimeoutError as LateError
from typing import Any, NamedTuple

from commitlog.base.extras import imported
from commitlog.base.host import host
from commitlog.errors import InvalidOptionError, MirrorError

_URL = re.compile(r"kafka://([^/\s]+)/([A-Za-z0-9._-]{1,249})")
_PREFIX = "COMMITLOG_KAFKA_"
# What the mirror decides.
_OWN = {"bootstrap.servers", "enable.idempotence", "transactional.id", "group.id"}
_OWN |= {"enable.auto.commit"}
Settings = Mapping[str, object]
_logger = logging.getLogger("commitlog.mirror")
_NO_ID = "A" * 22


class _ClientLog:
    """Log what a client says, but not that it ignores the settings of the other kinds."""

    @staticmethod
    def log(level: int, text: str, *parts: str) -> None:
        if parts[:1] != ("CONFWARN",):
            _logger.log(level, text, *parts)


class Topic(NamedTuple):
    """A topic as its broker describes it. A topic that is created again has another `id`."""

    id: str
    partitions: int


class Broker:
    """Make clients for one topic.

    Parameters
    ----------
    url : str
        ``"kafka://host:port,host:port/topic"``.
    settings : mapping
        Of the clients; those of the environment are below them.
    timeout_s : float
        For the first answers.

    Attributes
    ----------
    ending : Event
        Set when the mirror is to end.
    """

    def __init__(self, url: str, settings: Settings | None, timeout_s: float) -> None:
        parts = _URL.fullmatch(url)
        if parts is None:
            raise InvalidOptionError(
                f"expected kafka://HOST:PORT/TOPIC, or several HOST:PORT with commas, not {url!r}"
            )
        self.url = url
        self.topic = parts[2]
        self.timeout_s = timeout_s
        self.kafka = imported("confluent_kafka", "a mirror", "kafka")
        self._admin = imported("confluent_kafka.admin", "a mirror", "kafka")
        self._servers = parts[1]
        self._given = {**_environment(), **(settings or {})}
        self._complaint: Any = None
        self.ending = host.event()
        wrong = sorted(_OWN & self._given.keys())
        if wrong:
            raise InvalidOptionError(
                f"the mirror sets {', '.join(wrong)} itself: leave it out; use the address, "
                "transactional_id= and group="
            )

    def client(self, kind: str, defaults: Settings, fixed: Settings) -> Any:
        """Return a "Producer", a "Consumer" or an "AdminClient". Settings of the user replace
        `defaults`.
        """
        own = {"bootstrap.servers": self._servers, "error_cb": self._complain, "logger": _ClientLog}
        module = self._admin if kind == "AdminClient" else self.kafka
        try:
            return getattr(module, kind)({**defaults, **self._given, **fixed, **own})
        except (self.kafka.KafkaException, TypeError, ValueError) as error:
            raise InvalidOptionError(f"settings of Kafka: {_text(error)}") from None

    def _complain(self, error: Any) -> None:
        if error.name() != "_ALL_BROKERS_DOWN":  # which says no reason
            self._complaint = error
        _logger.warning("%s: %s", self.url, error.str())

    def describe(self) -> Topic:
        """Ask for the topic; raise `MirrorError` if it cannot be used."""
        admin = self.client("AdminClient", {}, {})
        wanted = self.kafka.TopicCollection([self.topic])
        asked = admin.describe_topics(wanted, request_timeout=self.timeout_s)
        try:
            found = asked[self.topic].result(self.timeout_s + 1)
        except (self.kafka.KafkaException, LateError) as error:
            admin.poll(0)  # what it complains of
            raise self.failure(error, f"topic {self.topic!r} cannot be described") from None
        name = str(found.topic_id).replace("+", "-").replace("/", "_")
        if name == _NO_ID:
            raise MirrorError(f"{self.url}: the topic has no id: use Kafka 2.8 or later")
        return Topic(name, len(found.partitions))

    def failure(self, error: Any, what: str, position: int | None = None) -> MirrorError:
        """Return a `MirrorError` for a failure of a client, with what a user can do."""
        code, heard = code_of(error), ""
        if code in _UNREACHED and self._complaint is not None:
            heard, code = f" ({self._complaint.str()})", self._complaint.name()
        advice = next((text for names, text in _ADVICE.items() if re.fullmatch(names, code)), "")
        text = f"{self.url}: {what}: {_text(error)}{heard}{advice and ': '}{advice}"
        return MirrorError(text, position=position)


def _cause(error: Any) -> Any:
    return error.args[0] if isinstance(error, BaseException) and error.args else error


def code_of(error: Any) -> str:
    """Return the name of what failed, as Kafka calls it; empty for another failure."""
    found = _cause(error)
    return str(found.name()) if hasattr(found, "name") else ""


def _environment() -> dict[str, str]:
    """Return the settings of the environment: COMMITLOG_KAFKA_SASL_USERNAME is sasl.username."""
    return {
        name.removeprefix(_PREFIX).lower().replace("_", "."): value
        for name, value in os.environ.items()
        if name.startswith(_PREFIX)
    }


def _text(error: Any) -> str:
    found = _cause(error)
    return str(found.str() if hasattr(found, "str") else found) or "no answer in time"


_UNREACHED = ("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "")
_ADVICE = {
    "(_TIMED_OUT|_TRANSPORT|_ALL_BROKERS_DOWN)?": (
        "check host, port, security.protocol and that the broker runs"
    ),
    ".*AUTHENTICATION.*": (
        "check COMMITLOG_KAFKA_SASL_USERNAME and _PASSWORD, or the settings sasl.*"
    ),
    "_SSL": "check COMMITLOG_KAFKA_SSL_CA_LOCATION, or the settings ssl.*",
    ".*AUTHORIZATION_FAILED": "give this user the right to it at the broker",
    "_?UNKNOWN_TOPIC.*": "create it with as many partitions as it needs, or correct its name",
    "MSG_SIZE_TOO_LARGE": "the record, alone or in its batch, is larger than max.message.bytes of "
    "the topic: raise that, lower batch.size, or move the mirror's tailer past the record",
    "INVALID_(RECORD|TIMESTAMP)": "a compacted topic takes no record without a key, and a topic "
    "may refuse old timestamps: use another topic, or move the mirror's tailer past the record",
    ".*_FENCED|INVALID_PRODUCER_EPOCH": (
        "another mirror has taken this transactional_id: end one of the two"
    ),
    "_AUTO_OFFSET_RESET": "the broker has deleted records that the log does not have, or the topic "
    "was created again: start again; to go on without them, set auto.offset.reset=earliest",
}

"""Keys of the tests of sealed topics, and what they look at."""

from __future__ import annotations

import base64

import commitlog
from commitlog import topics
from commitlog.topics import KeyRing
from commitlog.topics.schema import SCHEMA_TYPE, is_message_type
from tests.topics.orders import Order, records

OLD = "2025:" + base64.b64encode(bytes(range(32))).decode()
NEW = "2026:" + base64.b64encode(bytes(range(32, 64))).decode()
RING = KeyRing.of_text(OLD)


def messages(log: commitlog.CommitLog) -> list[commitlog.Record]:
    return [record for record in records(log) if is_message_type(record.type)]


def data_keys(log: commitlog.CommitLog) -> list[commitlog.Record]:
    found = [record for record in records(log) if record.type == SCHEMA_TYPE]
    return [record for record in found if (record.key or b"").startswith(b"datakey:")]


def orders_of(log: commitlog.CommitLog, keys: KeyRing | None = RING) -> topics.Topic[Order]:
    return commitlog.topic(log, Order, keys=keys)

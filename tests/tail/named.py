"""Helpers for the tests of named tailers."""

from __future__ import annotations

from typing import Any

from commitlog import CommitLog, Tailer
from tests.setups import Logs


def filled(logs: Logs, count: int = 10, **options: Any) -> CommitLog:
    log = logs.open(**options)
    log.append_many([b"%d" % index for index in range(count)])
    return log


def read(tailer: Tailer, count: int) -> list[bytes]:
    records = [tailer.read() for _ in range(count)]
    return [record.value for record in records if record is not None]

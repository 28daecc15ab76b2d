"""Message classes of the tests of topics, and programs that other processes run."""

from __future__ import annotations

import datetime as dt
import subprocess
from decimal import Decimal
from typing import Any

import msgspec

import commitlog
from commitlog.topics.schema import SCHEMA_TYPE
from tests.host import start_code

WHEN = dt.datetime(2026, 5, 1, 12, 30, tzinfo=dt.UTC)


class Order(msgspec.Struct):
    id: int
    item: str = "lamp"
    amount: Decimal = Decimal("12.50")
    at: dt.datetime = WHEN


class Refund(msgspec.Struct):
    order: int


def records(log: commitlog.CommitLog, start: int | None = None) -> list[commitlog.Record]:
    """All records from a position on, those of schemas among them."""
    return list(log.tailer(start="first" if start is None else start))


def schema_positions(log: commitlog.CommitLog) -> list[int]:
    return [record.position for record in records(log) if record.type == SCHEMA_TYPE]


def run(code: str, *arguments: Any, stdin: int | None = None) -> subprocess.Popen[str]:
    """Run a program that has the classes of this module."""
    return start_code(
        f"from tests.topics.orders import *\n{code}",
        *arguments,
        imports=("tests.topics.orders", "commitlog.topics"),
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(program: subprocess.Popen[str]) -> int:
    """Wait for the end of a program and return its status."""
    program.communicate(timeout=200)
    return program.returncode

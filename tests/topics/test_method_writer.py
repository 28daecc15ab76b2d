"""Method writers in logs and environments without room for a call: one error, no record."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Protocol

import pytest

import commitlog
from commitlog.errors import (
    MessageError,
    MissingExtraError,
    ReadOnlyError,
    RecordTooLargeError,
)


class Shop(Protocol):
    def sold(self, item: str) -> None: ...


def test_missing_msgspec_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with commitlog.open(tmp_path / "log") as log:
        monkeypatch.setitem(sys.modules, "msgspec", None)
        with pytest.raises(MissingExtraError, match=r"commitlog-engine\[topics\]"):
            commitlog.method_writer(log, Shop)
        assert log.count() == 0


class Weird:
    pass


class Odd(Protocol):
    def sold(self, item: Weird) -> None: ...


def test_argument_of_an_unknown_type_is_refused_in_one_line(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        with pytest.raises(MessageError) as caught:
            commitlog.method_writer(log, Odd)
        assert caught.value.message.startswith("Odd.sold: msgspec cannot encode <class ")
        assert "\n" not in caught.value.message
        assert log.count() == 0


def test_read_only_log_takes_no_call(tmp_path: Path) -> None:
    with (
        commitlog.open(tmp_path / "log") as log,
        commitlog.open(tmp_path / "log", "r") as reader,
    ):
        with pytest.raises(ReadOnlyError):
            commitlog.method_writer(reader, Shop).sold("desk")
        commitlog.method_writer(log, Shop).sold("lamp")
        before = log.count()
        with pytest.raises(ReadOnlyError):
            commitlog.method_writer(reader, Shop).sold("desk")
        assert log.count() == before


def test_call_larger_than_a_record_appends_nothing(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size="64KiB") as log:
        shop = commitlog.method_writer(log, Shop)
        shop.sold("lamp")
        before = log.count()
        with pytest.raises(RecordTooLargeError):
            shop.sold("x" * log.largest_value)
        assert log.count() == before

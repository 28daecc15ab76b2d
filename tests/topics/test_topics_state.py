"""The state that the topics of a handle share, and the files that an append passes."""

from __future__ import annotations

import os
import sys
import weakref
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import commitlog
from commitlog import topics
from commitlog.topics.topics_state import state_of
from tests.topics.orders import Order, Refund
from tests.topics.sealed import RING

pytest.importorskip("zstandard")
pytest.importorskip("cryptography")
ALL_LAYERS: dict[str, Any] = {
    "compress": topics.Zstd(dictionary=b""),
    "keys": RING,
    "seal_keys": True,
    "seal_positions": True,
}


def test_handles_have_one_state_each(log: commitlog.CommitLog) -> None:
    orders = commitlog.topic(log, Order)
    state = state_of(log)
    commitlog.topic(log, Refund).append(Refund(1))
    orders.append(Order(1))
    assert state_of(log) is state
    assert state.classes == {"Order": Order, "Refund": Refund}
    assert {schema.topic for schema in state.catalog.listed()} == {"Order", "Refund"}
    with commitlog.open(log.path, "r") as other:
        assert state_of(other) is not state


def test_state_keeps_no_unused_log(tmp_path: Path) -> None:
    orders = commitlog.topic(tmp_path / "log", Order, **ALL_LAYERS)
    orders.append(Order(1), key=b"k")
    assert list(orders.tailer()) == [Order(1)]
    log = weakref.ref(orders.log)
    orders.close()
    del orders
    assert log() is None


def test_append_with_all_layers_passes_few_files(log: commitlog.CommitLog) -> None:
    """From `topic.append` to the kernel: the compiled `topic_writer`, and five Python files."""
    orders = commitlog.topic(log, Order, **ALL_LAYERS)
    orders.append(Order(1), key=b"k")
    passed: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "commitlog" in frame.f_code.co_filename:
            passed[os.path.basename(frame.f_code.co_filename)] = None

    sys.setprofile(note)
    try:
        orders.append(Order(2), key=b"k")
    finally:
        sys.setprofile(None)
    assert list(passed) == [
        "pipe.py",
        "topic_compressor.py",
        "sealer.py",
        "appender.py",
        "data_key.py",
    ]

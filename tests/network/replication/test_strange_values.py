"""Each value that a client sends is bounded: a strange one is refused, or it has no effect."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.replication.targets import SEGMENT, Questions

STRANGE: list[Any] = [
    None, True, False, -1, 0, 1, 33, 4095, 4097, 4104, SEGMENT - 1, SEGMENT, SEGMENT + 32,
    (1 << 31) - 1, 1 << 32, 1 << 40, (1 << 63) - 32, (1 << 63) - 1, 1 << 63, 1 << 64, 1 << 4000,
    -(1 << 63), -(1 << 64), 0.5, -0.5, 1e18, 1e308, float("nan"), float("inf"), float("-inf"), "",
    "x", "first", "end", "1h", "1e400", "a/b", "..", ".", "-", "\0", "\n", "\x1b[2J", "\ud800",
    "\u202e", "a" * 513, "b" * 20_000, [], [[]], [0], [[0, 0]], [[4097, 4098]], [[0, 1 << 63]],
    [[0, True]], {}, {"number": 1}, {"number": True, "id": "", "restart": 0},
    {"number": 1, "id": "\ud800" * 32, "restart": 0}, {"number": 1, "id": "~" * 32, "restart": 0},
]  # fmt: skip


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Questions]:
    found = Questions(tmp_path_factory.mktemp("questions"))
    yield found
    found.close()


@pytest.mark.parametrize("seed", range(19))
def test_strange_value_harms_no_thread_of_a_server(
    questions: Questions, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    request = json.loads(questions.seeds[seed])
    for name in request.keys() - {"protocol", "token", "action", "log"}:
        for value in STRANGE:
            questions.take(json.dumps(request | {name: value}).encode())
    assert [each for each in caplog.records if each.levelno > logging.WARNING] == []
    assert questions.served.acknowledged.reached(1) <= questions.served.log.committed_position
    assert Path(questions.log.path).is_dir()


def test_strange_frame_of_a_request_harms_no_thread(questions: Questions) -> None:
    for name in ("protocol", "token", "action", "log"):
        for value in STRANGE:
            questions.take(json.dumps(json.loads(questions.seeds[0]) | {name: value}).encode())

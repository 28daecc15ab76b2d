"""The C API as an installed header and a capsule."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import commitlog
from tests.capi.conftest import compiled
from tests.setups import Logs

EXAMPLE = Path(__file__).parents[2] / "examples/native/ticks.c"


def test_header_is_in_the_directory_of_get_include() -> None:
    assert Path(commitlog.get_include(), "commitlog/capi.h").is_file()


def test_cython_declares_every_function_of_the_header() -> None:
    header = Path(commitlog.get_include(), "commitlog/capi.h").read_text(encoding="utf-8")
    cython = Path(commitlog.__file__).with_name("capi.pxd").read_text(encoding="utf-8")
    functions = re.compile(r"\(\*(\w+)\)")
    assert functions.findall(header) == functions.findall(cython) != []


def test_example_appends_and_sums(tmp_path: Path, logs: Logs) -> None:
    ticks: Any = compiled(EXAMPLE, tmp_path)
    log = logs.open()
    assert ticks.produce(log, 3200) > 0
    total, seconds = ticks.consume(log.tailer(), 3200)
    assert total == sum(100 + number % 16 for number in range(3200))
    assert seconds > 0

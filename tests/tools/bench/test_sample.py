"""The meter: the wait for a processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from commitlog.tools.bench import paced
from commitlog.tools.bench.case import QUICK, Case
from commitlog.tools.bench.sample import Meter
from commitlog.tools.bench.workspace import Workspace


def test_wait_for_a_processor_is_kept(tmp_path: Path) -> None:
    with Workspace(tmp_path, QUICK) as workspace:
        sample = paced.measure_alone(workspace, Case("paced", "pacing-alone", value_size=1024))
    assert sample.run_delay_s is not None
    assert 0 <= sample.run_delay_s <= sample.wall_s + 1


def test_uncounted_wait_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", refuse)
    with Meter(10) as meter:
        pass
    assert meter.sample.run_delay_s is None

"""A call goes down through the layers: how often walks climb back, and how many files they pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts import walks

pytestmark = pytest.mark.wing

CLIMBS_MOST = 2
TYPED_FILES_MOST = 6


@pytest.mark.parametrize("name", ["open-mapped", "open-pooled"])
def test_open_climbs_back_at_most_twice(tmp_path: Path, name: str) -> None:
    walk = walks.WALKS[name](tmp_path)
    assert len(walk.functions) > 100
    assert len(walk.climbs) <= CLIMBS_MOST, walk.climbs


@pytest.mark.parametrize("name", ["append", "read"])
def test_append_and_read_enter_no_python_function(tmp_path: Path, name: str) -> None:
    assert not walks.WALKS[name](tmp_path).functions


def test_append_with_all_layers_passes_at_most_six_files(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    walk = walks.WALKS["typed-append"](tmp_path)
    assert walk.functions
    assert len(walk.files) <= TYPED_FILES_MOST, walk.files
    assert not walk.climbs

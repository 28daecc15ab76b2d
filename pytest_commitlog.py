"""A plugin of pytest: the fixture `commitlog_log` is an empty open log, in a temporary folder.

The module is outside the package, so that pytest starts without importing that.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from commitlog import CommitLog


@pytest.fixture
def commitlog_log(tmp_path: Path) -> Iterator[CommitLog]:
    """Return a log in the test's temporary folder; it is closed behind the test."""
    import commitlog

    with commitlog.open(tmp_path / "log", segment_size="64KiB") as log:
        yield log

"""The type of a file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from commitlog.base.file_system import file_system_type
from commitlog.errors import IOFailureError


def test_file_system_type_is_that_of_statfs(tmp_path: Path) -> None:
    assert file_system_type("/proc") == 0x9FA0
    assert file_system_type("/dev/shm") == 0x01021994
    with pytest.raises(IOFailureError):
        file_system_type(str(tmp_path / "missing"))
    with open("/proc/self/stat") as file:
        assert file_system_type(file.fileno()) == 0x9FA0

"""The file of a segment was replaced while a reader had it mapped, as overlayfs does."""

from __future__ import annotations

import shutil

import pytest

import commitlog
from commitlog.errors import CorruptRecordError
from tests.log_files import HEADER, LogFiles, numbered


def test_damage_of_a_replaced_file_is_said_to_be_so(files: LogFiles) -> None:
    files.create(0)
    files.checkpoint(files.records(0, numbered(5)))
    with commitlog.open(files.path, "r") as log, log.tailer() as tailer:
        assert tailer.read() is not None
        copy = files.path / "copy"
        shutil.copy(files.file(0), copy)
        files.flip(0, HEADER + 32 + 17)
        with pytest.raises(CorruptRecordError, match="commitlog repair"):
            tailer.read()
        copy.rename(files.file(0))
        with pytest.raises(CorruptRecordError, match="overlayfs.*open the log again") as caught:
            log.read(HEADER + 32)
        assert (caught.value.position, caught.value.resume_position) == (HEADER + 32, HEADER + 64)
    with commitlog.open(files.path, "r") as log:
        assert len(list(log.tailer())) == 5

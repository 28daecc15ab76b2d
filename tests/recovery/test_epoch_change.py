"""A change of the file `epoch` waits for other writers of it, and for no reader."""

from __future__ import annotations

import fcntl
import os
from dataclasses import replace
from pathlib import Path

import commitlog
from commitlog.log.parts import parts_of
from commitlog.recovery.epochs import Epochs


def test_locked_directory_does_not_stop_a_change_of_epoch(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "orders") as log:
        directory = parts_of(log).directory
        reader = os.open(log.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(reader, fcntl.LOCK_SH)  # which any reader may do, and for good
            Epochs(directory).change(lambda known: replace(known, require=2))
        finally:
            os.close(reader)
        assert Epochs(directory).read().require == 2

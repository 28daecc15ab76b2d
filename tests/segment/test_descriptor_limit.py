"""A log with more segments in use than the process may have descriptors."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

RUN = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
import commitlog

options = {"segment_size": "64KiB"}
if sys.argv[2] == "pooled":
    pool = commitlog.TransientStorePool(buffers=3, buffer_size="64KiB", lock_memory="off")
    options = {"pool": pool}
with commitlog.open(sys.argv[1], flush="none", **options) as log:
    values = [number.to_bytes(2, "little") * 4000 for number in range(700)]
    log.append_many(values)
    log.commit()
    views = [record.view() for record in log.tailer()]
    tailers = [log.tailer(start=position) for position in range(4096, log.tail_position, 1 << 16)]
    assert [tailer.read().value for tailer in tailers] == values[::7]
    assert [view.tobytes() for view in views] == values
    print(len(tailers), "segments,", len(os.listdir("/proc/self/fd")), "descriptors")
with commitlog.open(sys.argv[1], "r") as log:
    assert list(log.tailer().values()) == values
"""


@pytest.mark.parametrize("backing", ["mapped", "pooled"])
def test_more_segments_than_descriptors_are_written_and_read(
    tmp_path: Path, backing: str, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = run_python(RUN, tmp_path / "log", backing)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("100 segments, ")

"""Services: threads that the system may refuse to start."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.host import start_code

# Another user, because the limit does not bind root.
SCRIPT = """
import json, os, resource, sys, commitlog
path, kind = sys.argv[1:]
def held():
    return len(os.listdir("/proc/self/fd"))
def new_pool():
    return commitlog.TransientStorePool(buffers=2, buffer_size="64KiB", backing=kind)
with commitlog.open(path + "/warm", segment_size="64KiB") as log:  # loads what is loaded late
    log.append(b"")
if kind != "mapped":
    with new_pool() as pool, commitlog.open(path + "/pooled", pool=pool) as log:
        log.append(b"")
if os.getuid() == 0:
    os.setgroups([]), os.setgid(54321), os.setuid(54321)
pool = {} if kind == "mapped" else {"pool": new_pool()}
limit = resource.getrlimit(resource.RLIMIT_NPROC)
resource.setrlimit(resource.RLIMIT_NPROC, (1, limit[1]))
result = []
for _ in range(3):
    before = held()
    try:
        commitlog.open(path + "/log", **(pool or {"segment_size": "64KiB"})).close()
    except commitlog.CommitLogError as error:
        result.append([type(error).__name__, str(error), held() - before])
resource.setrlimit(resource.RLIMIT_NPROC, limit)
with commitlog.open(path + "/log", **pool) as log:
    log.append(b"after")
    result.append(log.count())
if pool:
    pool["pool"].close()
print(json.dumps(result))
"""


@pytest.mark.parametrize("kind", ["mapped", "anonymous", "shm"])
def test_open_without_a_thread_names_the_cause_and_leaks_nothing(tmp_path: Path, kind: str) -> None:
    for folder in [tmp_path, *tmp_path.parents[:3]]:
        folder.chmod(folder.stat().st_mode | 0o011)
    tmp_path.chmod(0o777)
    with start_code(SCRIPT, tmp_path, kind, stdout=subprocess.PIPE, text=True) as started:
        *refusals, count = json.loads(started.communicate()[0])
    assert started.returncode == 0
    assert count == 1
    check(refusals, str(tmp_path / "log"))


def check(refusals: list[Any], path: str) -> None:
    assert len(refusals) == 3
    for name, message, leaked in refusals:
        assert (name, leaked) == ("IOFailureError", 0)
        assert "ulimit -u" in message
        assert path in message

"""Pre-faulting and locking of a pool's buffers, under a limit that Linux enforces."""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from commitlog.pool import TransientStorePool
from commitlog.pool.transient_store_pool import buffers_of
from tests.host import start_code

ROOT = Path(__file__).resolve().parents[2]

# Root may lock beyond its limit, so the script drops that capability. For other users this has no
# effect.
LIMITED = """
import ctypes, errno, json, logging, resource, struct
libc = ctypes.CDLL(None, use_errno=True)
header = struct.pack("<Ii", 0x20080522, 0)
capabilities = ctypes.create_string_buffer(24)
assert libc.capget(header, capabilities) == 0
words = list(struct.unpack("<6I", capabilities.raw))
words[0] &= ~(1 << 14)  # CAP_IPC_LOCK, effective
assert libc.capset(header, struct.pack("<6I", *words)) == 0
resource.setrlimit(resource.RLIMIT_MEMLOCK, ({limit}, {limit}))

from commitlog.errors import PoolMemoryError
from commitlog.pool import TransientStorePool
messages = []
class Keep(logging.Handler):
    def emit(self, record):
        messages.append((record.name, record.levelname, record.getMessage()))
logging.getLogger("commitlog.pool").addHandler(Keep())
result = dict(messages=messages, error=None)
try:
    options = dict(buffers={buffers}, backing={backing!r}, lock_memory={policy!r})
    with TransientStorePool(buffer_size=65536, **options) as pool:
        locked = [buffer.locked for buffer in pool._set.all]
        result.update(locked=pool.stats().locked, buffers=locked)
except PoolMemoryError as error:
    result.update(error=str(error))
print(json.dumps(result))
"""


PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def under_limit(
    limit: int, policy: str, backing: str = "anonymous", buffers: int = 5
) -> dict[str, Any]:
    script = LIMITED.format(limit=limit, policy=policy, backing=backing, buffers=buffers)
    return result_of(start_code(script, flags=("-W", "error"), **PIPES))


def result_of(started: subprocess.Popen[str]) -> dict[str, Any]:
    output, errors = started.communicate()
    assert started.returncode == 0, errors
    result: dict[str, Any] = json.loads(output)
    return result


@pytest.mark.parametrize("backing", ["anonymous", "shm"])
@pytest.mark.parametrize("limit", [0, 2 * 65536])
def test_require_fails_with_the_limit_that_caused_it(limit: int, backing: str) -> None:
    result = under_limit(limit, "require", backing)
    assert f"RLIMIT_MEMLOCK is {limit} bytes" in result["error"]
    assert f"only {limit // 65536} of 5 pool buffers" in result["error"]
    assert "they need 327680 bytes" in result["error"]


def test_try_warns_with_the_limit_and_counts_locked_memory() -> None:
    result = under_limit(2 * 65536, "try")
    ((name, level, message),) = result["messages"]
    assert (name, level) == ("commitlog.pool", "WARNING")
    assert "RLIMIT_MEMLOCK is 131072 bytes" in message
    assert "only 2 of 5 pool buffers" in message
    assert (result["locked"], result["buffers"]) == (2, [True, True, False, False, False])


def test_off_locks_no_buffer_without_a_warning() -> None:
    result = under_limit(0, "off")
    assert (result["messages"], result["error"], result["locked"]) == ([], None, 0)


@pytest.mark.parametrize("policy", ["try", "require"])
def test_buffers_within_the_limit_are_locked_without_warning(policy: str) -> None:
    allowed = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    buffers = 5 if allowed == resource.RLIM_INFINITY else min(5, allowed // 65536)
    result = under_limit(65536 * buffers, policy, buffers=buffers)
    assert (result["messages"], result["error"], result["locked"]) == ([], None, buffers)


def test_close_unlocks_the_memory() -> None:
    def locked() -> int:
        return int(Path("/proc/self/status").read_text().split("VmLck:")[1].split()[0])

    gc.collect()  # garbage of other tests must not be freed between the counts
    before = locked()
    with TransientStorePool(buffers=1, buffer_size=65536) as pool:
        assert locked() == before + 64 * pool.stats().locked == before + 64
    assert locked() == before


@pytest.mark.parametrize("backing", ["anonymous", "shm"])
def test_first_stores_into_a_buffer_cause_no_page_faults(backing: Any) -> None:
    with TransientStorePool(
        buffers=1, buffer_size="16MiB", backing=backing, lock_memory="off"
    ) as pool:
        buffer = buffers_of(pool).borrow("a test")
        assert buffer is not None

        def faults_of_storing(size: int) -> int:
            """Return the minor faults of this thread."""
            before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
            for at in range(0, size, 4096):
                view[at] = 1
            return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before

        with memoryview(buffer.memory) as view:
            faults_of_storing(4096)  # after a fork, the interpreter's own pages fault once
            assert faults_of_storing(buffer.size) <= 8
        buffers_of(pool).return_buffer(buffer)


# --- what the system refuses ----------------------------------------------------------------------

REFUSED = """
import json, os, psutil, resource, sys, posix_ipc
from commitlog.errors import CommitLogError
from commitlog.pool import TransientStorePool
uid, spare = int(sys.argv[1]), int(sys.argv[2])
TransientStorePool(buffers=2, buffer_size=65536).close()  # loads what is loaded late
if uid:
    os.setgid(uid), os.setuid(uid)
before = len(os.listdir("/proc/self/fd"))
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
if spare >= 0:
    resource.setrlimit(resource.RLIMIT_NOFILE, (before - 1 + spare, limit[1]))
result = {}
for backing in ("anonymous", "shm"):
    try:
        TransientStorePool(buffers=2, buffer_size=65536, backing=backing).close()
        result[backing] = None
    except CommitLogError as error:
        result[backing] = [type(error).__name__, str(error)]
resource.setrlimit(resource.RLIMIT_NOFILE, limit)
result["leaked"] = len(os.listdir("/proc/self/fd")) - before
print(json.dumps(result))
"""


def refused(*command: str, uid: int = 0, spare: int = -1) -> dict[str, Any]:
    if not command:
        return result_of(start_code(REFUSED, uid, spare, **PIPES))
    given = [*command, sys.executable, "-c", REFUSED, str(uid), str(spare)]
    return result_of(subprocess.Popen(given, cwd=ROOT, **PIPES))


@pytest.mark.parametrize("spare", range(6))
def test_pool_without_descriptors_raises_a_commitlog_error(spare: int) -> None:
    result = refused(spare=spare)
    assert result["leaked"] == 0
    assert result["shm"] is None or result["shm"][0] == "IOFailureError"
    if spare == 0:
        assert "Too many open files" in result["shm"][1]


@pytest.mark.skipif(os.getuid() != 0, reason="only root mounts a file system")
@pytest.mark.parametrize(
    ("mount", "uid", "kind"),
    [
        ("-o ro tmpfs /dev/shm", 0, "ReadOnlyError"),
        ("-o mode=000 tmpfs /dev/shm", 65534, "ReadOnlyError"),
        ("-o mode=755 tmpfs /dev/shm", 65534, "ReadOnlyError"),
        ("-o size=64k tmpfs /dev/shm", 0, "PoolMemoryError"),
        ("tmpfs /dev", 0, "IOFailureError"),
    ],
)
def test_pool_without_a_usable_dev_shm_says_so(mount: str, uid: int, kind: str) -> None:
    script = f'mount --make-rprivate /; mount -t tmpfs {mount}; exec "$0" "$@"'
    space = ("unshare", "-m")
    if subprocess.run([*space, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no mount namespace can be made here")
    result = refused(*space, "bash", "-c", script, uid=uid)
    assert result["shm"][0] == kind
    assert "/dev/shm" in result["shm"][1]
    assert result["anonymous"] is None

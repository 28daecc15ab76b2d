"""Shared-memory buffers, and their recovery after a kill of the process that owned them."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import posix_ipc
import pytest

from commitlog.errors import PoolBufferError, PoolMemoryError
from commitlog.pool import TransientStorePool
from commitlog.pool.buffer import PoolBuffer
from commitlog.pool.shm import HEADER_SIZE, ShmBuffer
from commitlog.pool.shm_survey import ShmSurvey, discard, find_buffers
from commitlog.pool.transient_store_pool import buffers_of

BUFFER_SIZE = 64 << 10
ORDERS = b"orders-log-uuid!"
OTHERS = b"others-log-uuid!"

OWNER = """
import json, os, sys
from commitlog.pool import TransientStorePool
pool = TransientStorePool(buffers=5, buffer_size=65536, backing="shm", lock_memory="off")
later, first, others, unbound = (pool._set.borrow("killed") for _ in range(4))
later.bind(b"orders-log-uuid!", 3 * 65536, 2**64 - 1)
first.bind(b"orders-log-uuid!", 65536, 7)
others.bind(b"others-log-uuid!", 0, 9)
memoryview(later.memory)[:5] = b"later"
memoryview(first.memory)[-5:] = b"first"
memoryview(others.memory)[:6] = b"others"
{extra}
print(json.dumps({{"names": pool._set.shm_names, "pid": os.getpid()}}), flush=True)
sys.stdin.read()
"""


def path_of(name: str) -> Path:
    return Path("/dev/shm" + name)


def lent(pool: TransientStorePool) -> ShmBuffer:
    buffer = buffers_of(pool).borrow("a test")
    assert isinstance(buffer, ShmBuffer)
    return buffer


@pytest.fixture
def pool() -> Iterator[TransientStorePool]:
    pool = TransientStorePool(buffers=2, buffer_size=BUFFER_SIZE, backing="shm")
    yield pool
    for buffer in buffers_of(pool)._out():
        buffers_of(pool).return_buffer(buffer)
    pool.close()


@pytest.fixture
def dead_names(pool_owner: Callable[[str], Any]) -> Iterator[list[str]]:
    """The names of a killed pool's buffers: two of orders, one of others, one lent but not bound,
    one never lent.
    """
    owner = pool_owner(OWNER.format(extra=""))
    names = owner.said["names"]
    live = find_buffers(names, ORDERS)
    assert (live.live_in_use, live.live, live.recoverable) == (
        tuple(names[:2]),
        tuple(names[2:]),
        (),
    )
    owner.kill()
    yield names
    for name in names:
        path_of(name).unlink(missing_ok=True)


def test_buffer_names_are_random_with_owner_only_access(pool: TransientStorePool) -> None:
    assert len(set(buffers_of(pool).shm_names)) == 2
    for name in buffers_of(pool).shm_names:
        status = path_of(name).stat()
        assert (status.st_mode & 0o777, status.st_uid) == (0o600, os.geteuid())
        assert status.st_size == HEADER_SIZE + BUFFER_SIZE
        assert status.st_blocks * 512 >= status.st_size, (
            "a block that is not there is a bus error later"
        )


def test_buffer_mode_ignores_the_umask() -> None:
    previous = os.umask(0o777)
    try:
        buffer = ShmBuffer.allocate(BUFFER_SIZE)
    finally:
        os.umask(previous)
    assert buffer.name is not None
    mode = path_of(buffer.name).stat().st_mode
    buffer.destroy()
    assert mode & 0o777 == 0o600
    assert not path_of(buffer.name).exists()


def test_close_unlinks_the_names() -> None:
    pool = TransientStorePool(buffers=2, buffer_size=BUFFER_SIZE, backing="shm")
    names = buffers_of(pool).shm_names
    assert all(path_of(name).exists() for name in names)
    pool.close()
    assert not any(path_of(name).exists() for name in names)
    assert find_buffers(names, ORDERS) == ShmSurvey(missing=names)


def test_exit_without_close_unlinks_free_and_returned_buffers(
    pool_owner: Callable[[str], Any],
) -> None:
    """A log that drains at exit may return its buffers after the pool's own cleanup."""
    owner = pool_owner("""
import atexit, json, sys
atexit.register(lambda: pool._set.return_buffer(late))  # runs last
from commitlog.pool import TransientStorePool
pool = TransientStorePool(buffers=3, buffer_size=65536, backing="shm", lock_memory="off")
late = pool._set.borrow("drained at exit")
print(json.dumps(pool._set.shm_names), flush=True)
sys.stdin.read()
""")
    assert find_buffers(owner.said, ORDERS).live == tuple(owner.said)
    _, errors = owner.process.communicate()
    assert (owner.process.returncode, "ResourceWarning" in errors) == (0, False), errors
    assert find_buffers(owner.said, ORDERS).missing == tuple(owner.said)


def test_content_of_a_killed_process_is_found_in_base_order(dead_names: list[str]) -> None:
    survey = find_buffers([*dead_names, dead_names[0]], ORDERS)
    assert [
        (found.name, found.base, found.segment_id, found.size) for found in survey.recoverable
    ] == [
        (dead_names[1], 65536, 7, BUFFER_SIZE),
        (dead_names[0], 3 * 65536, 2**64 - 1, BUFFER_SIZE),
    ]
    assert [bytes(found.memory) for found in survey.recoverable] == [
        bytes(BUFFER_SIZE - 5) + b"first",
        b"later" + bytes(BUFFER_SIZE - 5),
    ]
    assert (survey.foreign, survey.free) == ((dead_names[2],), (dead_names[3], dead_names[4]))
    assert (survey.missing, survey.live, survey.live_in_use, survey.unusable) == ((), (), (), ())
    # The survey changes nothing: after a kill during recovery, the next recovery finds the same.
    assert [found.name for found in find_buffers(dead_names, ORDERS).recoverable] == [
        dead_names[1],
        dead_names[0],
    ]
    assert [bytes(found.memory)[:6] for found in find_buffers(dead_names, OTHERS).recoverable] == [
        b"others"
    ]


def test_discard_is_idempotent(dead_names: list[str]) -> None:
    for name in dead_names:
        discard(name)
        discard(name)
    assert find_buffers(dead_names, ORDERS) == ShmSurvey(missing=tuple(dead_names))


def test_killed_pool_with_a_live_forked_child_counts_as_dead(
    pool_owner: Callable[[str], Any],
) -> None:
    """The child inherits the mappings and, until it closes them, the descriptors; neither keeps the
    pool alive.
    """
    owner = pool_owner(
        OWNER.format(
            extra="""
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.write(writer, b"!")
    memoryview(later.memory)[0]
    os.read(0, 1)
    os._exit(0)
os.read(reader, 1)
"""
        )
    )
    names = owner.said["names"]
    try:
        children = (
            Path(f"/proc/{owner.said['pid']}/task/{owner.said['pid']}/children").read_text().split()
        )
        live = find_buffers(names, ORDERS)
        assert (len(live.live_in_use), len(live.live)) == (2, 3)
        owner.kill()
        assert [
            Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
            for child in children
        ] == [True]
        survey = find_buffers(names, ORDERS)
        assert (survey.live, len(survey.recoverable)) == ((), 2)
    finally:
        for name in names:
            path_of(name).unlink(missing_ok=True)


def test_buffer_of_a_live_pool_is_not_discarded(pool: TransientStorePool) -> None:
    buffer = lent(pool)
    buffer.bind(ORDERS, 0, 1)
    assert buffer.name is not None
    others = tuple(name for name in buffers_of(pool).shm_names if name != buffer.name)
    assert find_buffers(buffers_of(pool).shm_names, ORDERS) == ShmSurvey(
        live=others, live_in_use=(buffer.name,)
    )
    assert find_buffers(buffers_of(pool).shm_names, OTHERS) == ShmSurvey(
        live=buffers_of(pool).shm_names
    )
    with pytest.raises(PoolBufferError, match="belongs to a live pool"):
        discard(buffer.name)
    assert buffer.bound
    assert path_of(buffer.name).exists()


def test_binding_lasts_until_unbind_or_return(pool: TransientStorePool) -> None:
    buffer = lent(pool)
    assert not buffer.bound
    for _ in range(2):
        buffer.bind(ORDERS, 65536, 5)
        assert buffer.bound
        assert (
            buffer.header.binding().log_uuid,
            buffer.header.binding().base,
            buffer.header.binding().segment_id,
        ) == (ORDERS, 65536, 5)
        with pytest.raises(PoolBufferError, match="already bound to a segment"):
            buffer.bind(ORDERS, 131072, 6)
        buffer.unbind()
        assert not buffer.bound
    buffer.bind(ORDERS, 65536, 5)
    buffers_of(pool).return_buffer(buffer)
    assert not buffer.bound
    with pytest.raises(PoolBufferError, match="is not borrowed"):
        buffer.bind(ORDERS, 65536, 5)


@pytest.mark.parametrize(
    ("log_uuid", "base", "segment_id"),
    [(b"short", 0, 0), (ORDERS, -1, 0), (ORDERS, 2**63, 0), (ORDERS, 0, 2**64)],
)
def test_invalid_binding_is_refused(
    pool: TransientStorePool, log_uuid: bytes, base: int, segment_id: int
) -> None:
    buffer = lent(pool)
    with pytest.raises(PoolBufferError, match="16 uuid bytes"):
        buffer.bind(log_uuid, base, segment_id)
    assert not buffer.bound


def test_bind_stores_the_state_after_the_binding(pool: TransientStorePool) -> None:
    """Observes the stores of bind one by one, as a recovery after a kill would see them."""
    seen = []

    class Watched:
        def __setitem__(self, at: int, value: int) -> None:
            seen.append((value, buffer.header.binding().log_uuid, bytes(view[128:136])))
            words[at] = value

        def __getitem__(self, at: int) -> int:
            return words[at]

        def release(self) -> None:
            words.release()

    buffer = lent(pool)
    words, view = buffer.header._words, buffer.header._view
    view[128:136] = b"leftover"
    buffer.header._words = Watched()  # type: ignore[assignment]
    buffer.bind(ORDERS, 0, 1)
    buffer.header._words = words
    assert seen == [(1, ORDERS, bytes(8))]


def test_bind_of_an_anonymous_buffer_has_no_effect() -> None:
    with TransientStorePool(buffers=1, buffer_size=BUFFER_SIZE) as pool:
        buffer = buffers_of(pool).borrow("a test")
        assert isinstance(buffer, PoolBuffer)
        buffer.bind(ORDERS, 0, 1)
        buffer.unbind()
        assert (buffer.bound, buffer.name, buffers_of(pool).shm_names) == (False, None, ())
        buffers_of(pool).return_buffer(buffer)


def test_bound_buffer_survives_a_forced_close_until_returned() -> None:
    pool = TransientStorePool(buffers=2, buffer_size=BUFFER_SIZE, backing="shm")
    buffer = lent(pool)
    buffer.bind(ORDERS, 0, 1)
    assert buffer.name is not None
    pool.close(force=True)
    assert buffers_of(pool).shm_names == (buffer.name,)
    assert find_buffers([buffer.name], ORDERS).live_in_use == (buffer.name,)
    buffers_of(pool).return_buffer(buffer)
    assert find_buffers([buffer.name], ORDERS).missing == (buffer.name,)


def overwrite(offset: int, data: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(data)

    return change


def cut(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


@pytest.mark.parametrize(
    ("harm", "fault"),
    [
        (overwrite(0, b"X"), "no buffer header"),
        (overwrite(8, b"\2"), "version 2"),
        (overwrite(12, struct.pack("<I", 8192)), "8192 bytes"),
        (overwrite(16, bytes(16)), "another boot"),
        (
            overwrite(32, struct.pack("<Q", 2**63)),
            "its header says that the buffer has 9223372036854775808",
        ),
        (overwrite(64, b"\2"), "neither free nor in use"),
        (cut(0), "too small"),
        (cut(HEADER_SIZE), "too small"),
        (cut(HEADER_SIZE + BUFFER_SIZE - 1), f"but it has {BUFFER_SIZE - 1}"),
    ],
)
def test_damaged_buffer_is_listed_with_fault_and_discardable(
    dead_names: list[str], harm: Callable[[Path], None], fault: str
) -> None:
    harm(path_of(dead_names[0]))
    survey = find_buffers(dead_names, ORDERS)
    ((name, said),) = survey.unusable
    assert name == dead_names[0]
    assert fault in said
    assert [found.name for found in survey.recoverable] == [dead_names[1]]
    discard(name)
    assert not path_of(name).exists()


NOT_NAMES = [
    "",
    "/commitlog-",
    "/commitlog-" + "g" * 32,
    "/../etc/passwd",
    "commitlog-" + "0" * 32,
    "/commitlog-" + "0" * 32 + "\n",
]


@pytest.mark.parametrize("name", NOT_NAMES)
def test_invalid_buffer_name_is_never_opened(name: str) -> None:
    assert find_buffers([name], ORDERS).unusable == ((name, "it is not a buffer's name"),)
    with pytest.raises(PoolBufferError, match="not the name"):
        discard(name)


def test_buffer_without_open_permission_is_an_error_not_a_loss(
    dead_names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may open every file, so the refusal is simulated."""

    def refuse(*_: Any, **__: Any) -> None:
        raise posix_ipc.PermissionsError("no permission")

    with monkeypatch.context() as patched:
        patched.setattr(posix_ipc, "SharedMemory", refuse)
        with pytest.raises(PoolBufferError, match="as the user who wrote it"):
            find_buffers(dead_names, ORDERS)


def test_full_shm_file_system_raises_and_leaves_no_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: list[str] = []

    def refuse(descriptor: int, offset: int, size: int) -> None:
        names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(PoolMemoryError, match=f"no room for a pool buffer of {BUFFER_SIZE} bytes"):
        ShmBuffer.allocate(BUFFER_SIZE)
    assert len(names) == 1
    assert not Path(names[0]).exists()


@pytest.mark.parametrize(
    "put",
    [
        os.mkfifo,
        os.mkdir,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: os.mknod(path, 0o600 | stat.S_IFSOCK),
    ],
)
def test_irregular_buffer_is_unusable_and_not_waited_for(put: Callable[[Path], object]) -> None:
    name = f"/commitlog-{os.urandom(16).hex()}"
    put(path_of(name))
    try:
        assert find_buffers([name], ORDERS).unusable == ((name, "it is not a regular file"),)
    finally:
        path_of(name).rmdir() if path_of(name).is_dir() else path_of(name).unlink()

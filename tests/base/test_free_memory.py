from __future__ import annotations

import os
import re
from pathlib import Path

import psutil
import pytest

from commitlog.base import free_memory
from commitlog.base.free_memory import FreeMemory, cgroup_memory, require_free_memory, shm_space
from commitlog.errors import PoolMemoryError
from commitlog.pool import TransientStorePool

MIB = 1 << 20


class FakeProcess:
    """A fake `/proc/self` and its cgroup hierarchy, in a directory."""

    def __init__(self, directory: Path) -> None:
        self.process = directory / "proc"
        self.process.mkdir()
        self.mount = directory / "mounted here"
        self.mount.mkdir()

    def describe(self, kind: str, group: str, root: str = "/") -> None:
        mount = str(self.mount).replace(" ", "\\040")
        options = "rw,memory" if kind == "cgroup" else "rw"
        lines = [
            "22 27 0:20 / /proc rw,nosuid - proc proc rw",
            f"41 32 0:37 {root} {mount} rw,relatime shared:9 - {kind} {kind} {options}",
            "33 31 0:30 / /elsewhere rw - cgroup cgroup rw,cpu,cpuacct",
        ]
        (self.process / "mountinfo").write_text("\n".join(lines) + "\n")
        line = f"4:memory:{group}" if kind == "cgroup" else f"0::{group}"
        (self.process / "cgroup").write_text(
            f"9:name=systemd:/wrong\n2:cpuacct,cpu:/wrong\n{line}\n"
        )

    def group(self, path: str, kind: str, limit: str, usage: int, reclaimable: int = 0) -> None:
        directory = self.mount / path.lstrip("/")
        directory.mkdir(parents=True, exist_ok=True)
        first, second = (
            ("memory.max", "memory.current")
            if kind == "cgroup2"
            else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        )
        (directory / first).write_text(f"{limit}\n")
        (directory / second).write_text(f"{usage}\n")
        key = "inactive_file" if kind == "cgroup2" else "total_inactive_file"
        (directory / "memory.stat").write_text(
            f"anon 5\nfile 7\n{key} {reclaimable}\nactive_file 999\n"
        )

    def free(self) -> list[int]:
        return [found.size for found in cgroup_memory(self.process)]


@pytest.fixture
def fake(tmp_path: Path) -> FakeProcess:
    return FakeProcess(tmp_path)


@pytest.mark.parametrize("kind", ["cgroup", "cgroup2"])
def test_each_cgroup_counts_limit_less_unreclaimable_usage(fake: FakeProcess, kind: str) -> None:
    fake.describe(kind, "/outer/inner")
    fake.group("/outer/inner", kind, str(100 * MIB), 70 * MIB, reclaimable=20 * MIB)
    fake.group("/outer", kind, str(60 * MIB), 75 * MIB, reclaimable=40 * MIB)
    assert fake.free() == [50 * MIB, 25 * MIB]
    assert "outer/inner" in cgroup_memory(fake.process)[0].source


def test_cgroup_over_its_limit_has_no_free_memory(fake: FakeProcess) -> None:
    fake.describe("cgroup2", "/full")
    fake.group("/full", "cgroup2", "100", 200)
    assert fake.free() == [0]


def test_cgroup_without_limit_or_controller_is_ignored(fake: FakeProcess) -> None:
    fake.describe("cgroup2", "/a/b")
    fake.group("/a", "cgroup2", "max", 5)
    (fake.mount / "a" / "b").mkdir()
    assert fake.free() == []


@pytest.mark.parametrize("group", ["/docker/1234", "/somewhere/invisible", "/../sibling"])
def test_container_cgroup_at_the_mount_point_sets_the_limit(fake: FakeProcess, group: str) -> None:
    fake.describe("cgroup2", group, root="/docker/1234" if group.startswith("/docker") else "/")
    fake.group("/", "cgroup2", str(64 * MIB), 60 * MIB)
    assert fake.free() == [4 * MIB]


def test_system_without_cgroups_has_no_cgroup_limit(tmp_path: Path) -> None:
    assert cgroup_memory(tmp_path) == []


def test_cgroups_of_this_machine_are_read() -> None:
    for found in cgroup_memory():
        assert found.size >= 0
        assert "control group /" in found.source


def test_shm_file_system_counts_only_with_a_size_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = os.statvfs(tmp_path)
    (found,) = shm_space(tmp_path)
    assert 0 <= found.size <= space.f_blocks * space.f_frsize
    without_limit = os.statvfs_result((4096, 4096, 0, 0, 0, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: without_limit)
    assert shm_space(tmp_path) == []


def test_smallest_limit_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_memory, "machine_memory", lambda: FreeMemory(300, "the machine"))
    monkeypatch.setattr(
        free_memory,
        "cgroup_memory",
        lambda: [FreeMemory(200, "the group"), FreeMemory(250, "another")],
    )
    monkeypatch.setattr(free_memory, "shm_space", lambda: [FreeMemory(100, "shared memory")])
    require_free_memory(200, "a pool", shared=False)
    with pytest.raises(
        PoolMemoryError, match=r"a pool needs 201 bytes .* only 200 bytes .* \(the group\)"
    ) as caught:
        require_free_memory(201, "a pool", shared=False)
    assert (caught.value.wanted, caught.value.available) == (201, 200)
    require_free_memory(100, "a pool", shared=True)
    with pytest.raises(PoolMemoryError, match=r"only 100 bytes .* \(shared memory\)"):
        require_free_memory(101, "a pool", shared=True)


@pytest.mark.parametrize("backing", ["anonymous", "shm"])
def test_pool_larger_than_free_memory_is_refused_with_sizes(backing: str) -> None:
    before = psutil.Process().memory_info()
    with pytest.raises(PoolMemoryError) as caught:
        TransientStorePool(buffers=65536, buffer_size="1GiB", backing=backing)  # type: ignore[arg-type]
    error = caught.value
    assert error.wanted == 65536 * ((1 << 30) + (4096 if backing == "shm" else 0))
    assert error.available is not None
    assert 0 <= error.available <= psutil.virtual_memory().total
    numbers = [int(number) for number in re.findall(r"(\d+) bytes", str(error))]
    assert {error.wanted, error.available} <= set(numbers)
    assert isinstance(error, MemoryError)
    after = psutil.Process().memory_info()
    assert after.vms - before.vms < 1 << 30
    assert after.rss - before.rss < 64 * MIB

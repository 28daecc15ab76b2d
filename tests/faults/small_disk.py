"""Small real file systems, each in its own mount namespace: a tmpfs if namespaces are permitted, an
ext4 image if loop devices are.

Without either permission the tests use the shim, which fails pre-allocation like a full disk.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.faults.child import OWN_MOUNTS, Link

SIZE = 1 << 20
FULL, FREED = "X", "R"
_EXT4_SIZE = 2 << 20  # includes space for the file system's metadata


def launcher() -> list[str] | None:
    """Return the command that creates a mount namespace, or None without the permission."""
    command = list(OWN_MOUNTS) if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or not _mounts(
        command, ["mount", "-t", "tmpfs", "none", "/mnt"]
    ):
        return None
    return command


def _mounts(command: list[str], mount: list[str]) -> bool:
    return subprocess.run([*command, *mount], capture_output=True, check=False).returncode == 0


@functools.cache
def kinds() -> list[str]:
    """Return the file systems available on this machine."""
    command = launcher()
    if command is None:
        return ["shim"]
    with tempfile.TemporaryDirectory() as directory:
        image = Path(directory) / "image"
        return (
            ["tmpfs", "ext4"]
            if _make_ext4(image)
            and _mounts(command, ["mount", "-o", "loop", str(image), directory])
            else ["tmpfs"]
        )


def _make_ext4(image: Path, size: int = _EXT4_SIZE) -> bool:
    if shutil.which("mkfs.ext4") is None:
        return False
    with image.open("wb") as file:
        file.truncate(size)
    return (
        subprocess.run(
            ["mkfs.ext4", "-q", "-m", "0", "-N", "64", str(image)], capture_output=True, check=False
        ).returncode
        == 0
    )


def mount(kind: str, point: Path, size: int = SIZE) -> None:
    """Mount a file system of that kind and approximate size, inside the namespace of
    `launcher`; it ends with the last process there.
    """
    point.mkdir()
    if kind == "tmpfs":
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(point)], check=True
        )
    elif kind == "ext4":
        image = point.with_suffix(".image")
        assert _make_ext4(image, size * 2)
        subprocess.run(["mount", "-o", "loop", str(image), str(point)], check=True)


def unmount(point: Path) -> None:
    """End a file system that no process uses any more."""
    subprocess.run(["umount", "--lazy", str(point)], check=True)


def fill(point: Path) -> Path:
    """Fill the file system completely with one file, and return that file."""
    ballast = point / "ballast"
    block = bytes(4096)
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(block) == len(block):
                pass
        except OSError:
            pass
    return ballast


class Disk:
    """A small file system that can be filled and freed. Without one, the parent's shim makes the
    disk look full when the child says `FULL`, and free when it says `FREED`.
    """

    def __init__(self, link: Link, kind: str, point: str, size: int = SIZE) -> None:
        self._link = link
        self._kind = kind
        self.path = Path(point)
        mount(kind, self.path, size)
        self._ballast: Path | None = None

    def fill(self) -> None:
        if self._kind == "shim":
            self._ask(FULL)
        else:
            self._ballast = fill(self.path)

    def free(self) -> None:
        if self._ballast is None:
            self._ask(FREED)
        else:
            self._ballast.unlink()

    def _ask(self, kind: str) -> None:
        self._link.say(kind)
        self._link.wait()

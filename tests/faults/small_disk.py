"""Small real file systems: a tmpfs where namespaces can be had, an ext4 image where loop devices
can, each in a mount namespace of its own.

A machine that gives neither to this user still has the shim, which refuses the pre-allocation as a
full disk does.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SIZE = 1 << 20
_EXT4_SIZE = 2 << 20  # its own structures take their part


def launcher() -> list[str] | None:
    """The command that gives a mount namespace of one's own, or None where there is no such
    permission.
    """
    command = (
        ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    )
    if shutil.which("unshare") is None or not _mounts(
        command, ["mount", "-t", "tmpfs", "none", "/mnt"]
    ):
        return None
    return command


def _mounts(command: list[str], mount: list[str]) -> bool:
    return subprocess.run([*command, *mount], capture_output=True, check=False).returncode == 0


@functools.cache
def kinds() -> list[str]:
    """The file systems that can be had here."""
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
    """Mount a small file system of that kind, with about so many bytes. Only within the namespace
    that `launcher` gave; it goes with the last process in it.
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


def fill(point: Path) -> Path:
    """Fill the file system to its last byte with one file, and give the file."""
    ballast = point / "ballast"
    block = bytes(4096)
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(block) == len(block):
                pass
        except OSError:
            pass
    return ballast

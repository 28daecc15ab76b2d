"""The file systems on the device, and what a machine needs for them."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.faults.device import system
from tests.faults.device.recording import without_zeros

MIB = 1 << 20


@dataclass(frozen=True)
class FileSystem:
    """How an image is made and mounted.

    Attributes
    ----------
    name : str
        With the mode that matters, such as ``ext4-writeback``.
    kind : str
        What the kernel calls it.
    make : tuple of str
        The command that formats an image.
    options : str
        Of the mount.
    size : int
        Bytes of the image.
    sector_size : int
        What the device writes atomically.
    package : str
        The Debian package of the command.
    """

    name: str
    kind: str
    make: tuple[str, ...]
    options: str
    size: int
    sector_size: int
    package: str

    def format(self, image: Path) -> None:
        """Make an empty image."""
        with image.open("wb") as file:
            file.truncate(self.size)
        subprocess.run([*self.make, str(image)], check=True, capture_output=True)
        without_zeros(image)

    def mount(self, file: Path, point: Path) -> None:
        """Mount a file as a device; the device goes with the mount."""
        loop = system.LoopDevice(file, self.sector_size)
        try:
            system.mount(loop.path, point, self.kind, self.options)
        finally:
            loop.close()


_EXT4 = ("mkfs.ext4", "-q", "-F", "-b", "4096", "-J", "size=8", "-m", "0")
_SOON = ("-E", "lazy_itable_init=0,lazy_journal_init=0")
FILE_SYSTEMS = {
    each.name: each
    for each in (
        FileSystem(
            "ext4-ordered",
            "ext4",
            (*_EXT4, *_SOON),
            "data=ordered,commit=1",
            256 * MIB,
            512,
            "e2fsprogs",
        ),
        FileSystem(
            "ext4-writeback",
            "ext4",
            (*_EXT4, *_SOON),
            "data=writeback,commit=1",
            256 * MIB,
            512,
            "e2fsprogs",
        ),
        FileSystem("xfs", "xfs", ("mkfs.xfs", "-q", "-f"), "", 320 * MIB, 512, "xfsprogs"),
        FileSystem(
            "btrfs",
            "btrfs",
            ("mkfs.btrfs", "-q", "-f"),
            "nodiscard",
            256 * MIB,
            4096,
            "btrfs-progs",
        ),
    )
}


def missing(names: list[str]) -> list[str]:
    """Return what this machine lacks for some of the file systems, in words."""
    lacks = []
    if os.geteuid() != 0:
        lacks.append("root, which mounts file systems: run it with sudo")
    lacks += [
        f"{path}: the kernel needs {what}"
        for path, what in (("/dev/fuse", "FUSE"), ("/dev/loop-control", "loop devices"))
        if not os.path.exists(path)
    ]
    known = {line.split()[-1] for line in Path("/proc/filesystems").read_text().splitlines()}
    for each in (FILE_SYSTEMS[name] for name in names):
        if shutil.which(each.make[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            lacks.append(f"{each.make[0]}: apt-get install {each.package}")
        if each.kind not in known:
            lacks.append(f"{each.kind} in this kernel")
    return list(dict.fromkeys(lacks))

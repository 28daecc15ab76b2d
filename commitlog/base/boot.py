"""The identity of this boot of the machine."""

from __future__ import annotations

import os


def boot_id() -> bytes:
    """Return the sixteen bytes of the boot id: data in memory only is lost when it changes."""
    fd = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY)
    try:
        return bytes.fromhex(os.read(fd, 64).decode("ascii").replace("-", ""))
    finally:
        os.close(fd)

"""The identity of this boot of the machine."""

from __future__ import annotations

import uuid


def boot_id() -> bytes:
    """Return the sixteen bytes of the boot id: data in memory only is lost when it changes."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return uuid.UUID(file.read().strip()).bytes

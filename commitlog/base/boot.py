"""The identity of this boot of the machine."""

from __future__ import annotations

from commitlog.base.host import host


def boot_id() -> bytes:
    """Return the sixteen bytes of the boot id: data in memory only is lost when it changes."""
    return host.boot_id()

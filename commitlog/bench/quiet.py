"""What else goes on while a turn is measured: writeback that earlier turns have left, which is
waited for, and a processor that others have, which is noted."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from commitlog.base.polling import attempts
from commitlog.base.units import MIB

# So much is always on its way to some disk.
_AT_REST_BYTES = 8 * MIB
_LOOK_S = 0.02
_TICKS_S = os.sysconf("SC_CLK_TCK")


def settle(directory: Path, limit_s: float) -> float:
    """Have the file system write out what earlier turns have left, and wait until the system has
    little left to write.

    Parameters
    ----------
    directory : Path
        On the file system that is measured.
    limit_s : float
        How long to wait at most for the rest of the system, once this file system is written out; 0
        does nothing at all.

    Returns
    -------
    float
        How long it took, in seconds.
    """
    began = time.monotonic()
    if limit_s <= 0:
        return 0.0
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        ctypes.CDLL(None).syncfs(fd)
    finally:
        os.close(fd)
    for _ in attempts(limit_s, "the disk to be at rest", interval_s=_LOOK_S):
        if unwritten_bytes() <= _AT_REST_BYTES:
            break
    return time.monotonic() - began


def unwritten_bytes() -> int:
    """What the system has yet to write to its disks, or is writing; 0 where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    fields = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return sum(int(fields[name][0]) << 10 for name in ("Dirty", "Writeback") if fields.get(name))


class Stolen:
    """Over a `with`: how long the calling thread was ready to run and had no processor, and what
    the machine underneath took from all of them. A turn in which much was stolen says little about
    the log.

    Attributes
    ----------
    facts : dict
        After the block: "run_delay_s" and "steal_s", seconds; each left out where the system does
        not count it.
    """

    def __init__(self) -> None:
        self.facts: dict[str, object] = {}

    def __enter__(self) -> Self:
        self._before = _waited_s()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        after = _waited_s()
        self.facts = {
            name: after[name] - self._before[name] for name in after if name in self._before
        }


def _waited_s() -> dict[str, float]:
    found = {}
    # Some kernels are built without the one or the other.
    with contextlib.suppress(OSError, IndexError, ValueError):
        # Nanoseconds on a processor, nanoseconds waiting for one, and how often.
        found["run_delay_s"] = (
            int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
        )
    with contextlib.suppress(OSError, IndexError, ValueError):
        # All processors together: user, nice, system, idle, iowait, irq, softirq, steal.
        found["steal_s"] = (
            int(Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[8])
            / _TICKS_S
        )
    return found

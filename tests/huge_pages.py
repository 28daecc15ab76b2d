"""Memory in huge pages: a fork copies one entry of the page table for each, instead of 512."""

from __future__ import annotations

import ctypes
from pathlib import Path

_COLLAPSE = 25  # MADV_COLLAPSE, since Linux 6.1


def collapse() -> None:
    """Move this process's private memory into huge pages, where the system offers that."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, _, device, *_ = line.split()
        if rights == "rw-p" and device == "00:00":
            begin, end = (int(text, 16) for text in span.split("-"))
            advise(begin, end - begin, _COLLAPSE)

"""Figures as people read them."""

from __future__ import annotations

from commitlog.base.units import DURATION_UNITS_NS, SECOND_NS

_UNITS = ("s", "ms", "µs")


def say_rate(rate: float) -> str:
    """Records a second."""
    return f"{rate / 1e6:.2f} M/s" if rate >= 1e6 else f"{rate / 1e3:.1f} k/s"


def say_bytes(rate: float) -> str:
    """Bytes a second."""
    return f"{rate / 1e9:.2f} GB/s" if rate >= 1e9 else f"{rate / 1e6:.1f} MB/s"


def say_seconds(seconds: float) -> str:
    """A time in the unit that fits it."""
    for unit in _UNITS:
        scale = DURATION_UNITS_NS[unit.casefold()] / SECOND_NS
        if seconds >= scale:
            return (
                f"{seconds / scale:.3g} {unit}"
                if seconds < 1000 * scale
                else f"{seconds / scale:.0f} {unit}"
            )
    return f"{seconds * 1e9:.0f} ns"


def say(figure: float, unit: str) -> str:
    """A case's figure in its unit."""
    return {"records": say_rate, "bytes": say_bytes, "seconds": say_seconds}[unit](figure)

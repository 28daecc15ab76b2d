"""How long the long tests are."""

from __future__ import annotations

import os

_SHARE = float(os.environ.get("COMMITLOG_LONG", "1"))


def long_count(count: int) -> int:
    """Return the share of a count that COMMITLOG_LONG asks for: all of it by default."""
    return max(1, round(_SHARE * count))

"""The figures of a leg, for the page that shows them."""

from __future__ import annotations

import datetime as dt
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def heading(leg: str, seed: int) -> dict[str, Any]:
    """Return what the figures of each leg begin with."""
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "leg": leg,
        "commit": commit.stdout.strip(),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "seed": seed,
    }

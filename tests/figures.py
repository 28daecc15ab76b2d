"""Figures that a long leg leaves: JSON with the commit and the date."""

from __future__ import annotations

import datetime as dt
import json
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.host import ROOT


def written(path: Path, leg: str, figures: Mapping[str, object]) -> None:
    """Write the figures of a leg."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = {
        "leg": leg,
        **stamp(),
        "python": platform.python_version(),
        "system": platform.release(),
    }
    path.write_text(json.dumps(head | dict(figures), indent=1) + "\n")


def stamp() -> dict[str, str]:
    """Return the commit and the time, in UTC."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return {"commit": commit_of(ROOT), "date": now}


def commit_of(checkout: Path) -> str:
    """Return the commit, with a plus if something differs from it; empty without Git."""
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+"],
            cwd=checkout,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""

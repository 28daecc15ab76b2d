"""The result of a check."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.Enum):
    """Rate a result. What is `FAILED` is needed by every log."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, with figures, and what to do; `advice` is empty if that is nothing."""

    verdict: Verdict
    found: str
    advice: str = ""


def ok(found: str) -> Finding:
    return Finding(Verdict.OK, found)


def warning(found: str, advice: str) -> Finding:
    """Return a fault that makes a log slower or less safe."""
    return Finding(Verdict.WARNING, found, advice)


def failed(found: str, advice: str) -> Finding:
    """Return a fault that no log can work with."""
    return Finding(Verdict.FAILED, found, advice)

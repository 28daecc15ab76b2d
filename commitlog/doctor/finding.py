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
    """One line of the report.

    Parameters
    ----------
    name : str
        The name of the check.
    verdict : Verdict
        Whether a log works here.
    found : str
        What the check found, with figures.
    means : str
        Why a log needs it.
    advice : str
        What to do; empty if nothing needs to be done.
    """

    name: str
    verdict: Verdict
    found: str
    means: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold the result of a check without its name."""

    verdict: Verdict
    found: str
    advice: str = ""


def ok(found: str) -> Outcome:
    """Return the outcome of a check that found no fault."""
    return Outcome(Verdict.OK, found)


def warning(found: str, advice: str) -> Outcome:
    """Return the outcome of a fault that makes a log slower or less safe."""
    return Outcome(Verdict.WARNING, found, advice)


def failed(found: str, advice: str) -> Outcome:
    """Return the outcome of a fault that no log can work with."""
    return Outcome(Verdict.FAILED, found, advice)

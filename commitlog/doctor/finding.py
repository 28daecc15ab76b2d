"""What a check found: the verdict, and what it means for a log."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.Enum):
    """How good it is. Only what is `FAILED` is needed by every log."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Parameters
    ----------
    name : str
        The check's.
    verdict : Verdict
        How good it is.
    found : str
        What was seen, with figures.
    means : str
        What it means for a log.
    advice : str
        What to do; empty where nothing needs to be done.
    """

    name: str
    verdict: Verdict
    found: str
    means: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a check; the caller adds the check's name."""

    verdict: Verdict
    found: str
    advice: str = ""


def ok(found: str) -> Outcome:
    """All is well."""
    return Outcome(Verdict.OK, found)


def warning(found: str, advice: str) -> Outcome:
    """A log works, with less speed or less safety than it could have."""
    return Outcome(Verdict.WARNING, found, advice)


def failed(found: str, advice: str) -> Outcome:
    """A log cannot be trusted here."""
    return Outcome(Verdict.FAILED, found, advice)

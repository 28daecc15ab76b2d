"""The result of `repair`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Action:
    """One change that `repair` made, or would make: in words, with the file, and the range of
    positions if it has one.
    """

    what: str
    file: str
    position: int | None = None
    resume_position: int | None = None


@dataclass
class RepairReport:
    """The changes that `repair` made, in order; after a dry run, those of a real run.

    `copies` are the files that hold the previous contents, and `remaining` are the problems that
    are left.
    """

    path: str
    dry_run: bool = False
    actions: list[Action] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    remaining: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Return whether the log has no problem now."""
        return not self.remaining and not (self.dry_run and self.actions)

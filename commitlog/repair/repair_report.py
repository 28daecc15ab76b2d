"""The result of `repair`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Action:
    """One change that `repair` made, or would make.

    Attributes
    ----------
    what : str
        The change, in words.
    file : str
        The name of the file.
    position, resume_position : int or None
        The range of positions, if the change has one.
    """

    what: str
    file: str
    position: int | None = None
    resume_position: int | None = None


@dataclass
class RepairReport:
    """The changes that `repair` made.

    Attributes
    ----------
    path : str
        The log.
    dry_run : bool
        Whether nothing was written; then the actions are those of a real run.
    actions : list of Action
        The changes in order. Empty if nothing was wrong.
    copies : list of str
        The files that hold the previous contents.
    remaining : list of str
        The problems that are left.
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

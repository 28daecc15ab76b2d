"""What `repair` did, or would do."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Action:
    """One thing that was mended, or would be.

    Attributes
    ----------
    what : str
        In words.
    file : str
        The file's name.
    position, resume_position : int or None
        Which part of the log, where it is one.
    """

    what: str
    file: str
    position: int | None = None
    resume_position: int | None = None


@dataclass
class RepairReport:
    """What `repair` did.

    Attributes
    ----------
    path : str
        The log.
    dry_run : bool
        Nothing was written; the actions are what would have been done.
    actions : list of Action
        In order. Empty: nothing was wrong.
    copies : list of str
        Files that hold what was there before.
    remaining : list of str
        What is still wrong.
    """

    path: str
    dry_run: bool = False
    actions: list[Action] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    remaining: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """The log is whole now."""
        return not self.remaining and not (self.dry_run and self.actions)

"""The file `epoch`: under which epochs a log was written, and whether it follows another one.

A log without the file is a primary in epoch 0. The file is replaced whole and durably, before the
first append under a new epoch.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field

from commitlog.errors import CorruptSegmentError, FencedError
from commitlog.recovery import checked_json
from commitlog.segment.directory import LogDirectory

NAME = "epoch"
_EPOCHS_LIMIT = 100_000


@dataclass(frozen=True)
class Epoch:
    """One promotion.

    Attributes
    ----------
    number : int
        1 for the first promotion of a log, and one more for each later one.
    start : int
        The position at which the promoted log went on.
    id : str
        32 random hexadecimal digits: two promotions to the same number differ in it.
    """

    number: int
    start: int
    id: str


@dataclass(frozen=True)
class Lineage:
    """The epochs of a log, oldest first, and the URL of the log that it follows, or None."""

    epochs: tuple[Epoch, ...] = field(default=())
    follows: str | None = None

    @property
    def number(self) -> int:
        """The current epoch."""
        return self.epochs[-1].number if self.epochs else 0

    def promoted(self, start: int) -> Lineage:
        """Return the lineage of this log after its promotion at a position."""
        return Lineage((*self.epochs, Epoch(self.number + 1, start, os.urandom(16).hex())))

    def content(self) -> dict[str, object]:
        """Return what JSON holds of it."""
        return {"follows": self.follows, "epochs": [asdict(epoch) for epoch in self.epochs]}


def parse(content: dict[str, object]) -> Lineage:
    """Check decoded JSON and build a lineage; if it is not one, raise `ValueError`."""
    follows, listed = content.get("follows"), content.get("epochs")
    if not isinstance(follows, str | None) or not isinstance(listed, list):
        raise ValueError("it has no usable list of epochs")
    if len(listed) > _EPOCHS_LIMIT:
        raise ValueError(f"it lists {len(listed)} epochs, and the limit is {_EPOCHS_LIMIT}")
    epochs = tuple(_epoch(each) for each in listed)
    if [epoch.number for epoch in epochs] != list(range(1, len(epochs) + 1)):
        raise ValueError("its epochs are not numbered from 1")
    starts = [epoch.start for epoch in epochs]
    if starts != sorted(starts):
        raise ValueError("its epochs do not start in their order")
    return Lineage(epochs, follows)


def _epoch(content: object) -> Epoch:
    if isinstance(content, dict) and set(content) == {"number", "start", "id"}:
        number, start, name = content["number"], content["start"], content["id"]
        sound = type(number) is int and type(start) is int and type(name) is str
        if sound and 0 <= start < 1 << 63 and len(name) == 32:
            return Epoch(number, start, name)
    raise ValueError("one of its epochs cannot be read")


def read(directory: LogDirectory) -> Lineage:
    """Read the file; a damaged one is a `CorruptSegmentError`."""
    content = checked_json.read(directory, NAME)
    try:
        return Lineage() if content is None else parse(content)
    except ValueError as error:
        raise CorruptSegmentError(
            f"`{NAME}` is damaged: {error}; restore it from another copy of the log",
            path=os.path.join(directory.path, NAME),
        ) from None


def version(directory: LogDirectory) -> tuple[int, int]:
    """Return what differs after each `write`; it takes some microseconds."""
    try:
        status = os.stat(NAME, dir_fd=directory.fd, follow_symlinks=False)
    except FileNotFoundError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns


def write(directory: LogDirectory, lineage: Lineage) -> None:
    """Replace the file durably."""
    checked_json.write(directory, NAME, lineage.content())


def refuse_follower(directory: LogDirectory) -> None:
    """Refuse to write to a log that follows another one."""
    follows = read(directory).follows
    if follows is not None:
        raise FencedError(
            f"this log follows {follows}, whose records it copies: open it with mode 'r', or run "
            "`commitlog promote` to make it the primary",
            path=directory.path,
        )

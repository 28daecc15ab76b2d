"""StoreEpoch: an epoch in a store, claimed by an object that is put once and never replaced."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import BinaryIO

from commitlog.errors import CorruptSegmentError, FencedError
from commitlog.retention.target import Target, reading

_NAME = re.compile(r"^([0-9]{10})\.epoch$")
_SIZE_LIMIT = 4096
_MOST = 10**10  # as many as ten digits name
_GAP_MOST = 10_000  # epochs that a claim may pass over


@dataclass(frozen=True)
class StoreEpoch:
    """An epoch's number, the position where it starts, and the id of its promotion.

    Epoch 0 has no object. Every other one has an object, without a gap, so a writer sees a later
    epoch by one request for the next number.
    """

    number: int = 0
    start: int = 0
    id: str = ""

    @property
    def name(self) -> str:
        return f"{self.number:010d}.epoch"

    def claim(self, target: Target) -> None:
        """Put the objects of this epoch and of those before it that no log has claimed.

        Raises
        ------
        FencedError
            Another promotion has claimed this epoch or a later one.
        """
        highest = highest_epoch(target)
        if self.number - highest > _GAP_MOST or self.number >= _MOST:
            raise FencedError(
                f"the store is in epoch {highest}, too far from epoch {self.number} of this log: "
                "use a new target",
                path=target.name,
            )
        for number in range(highest + 1, self.number + 1):
            text = json.dumps(asdict(replace(self, number=number))).encode()
            name = StoreEpoch(number).name
            target.put(name, partial(_write, text), replace=False)
        stored = read_epoch(target, self.number) if self.number else self
        if stored is None or stored.id != self.id:
            raise _fenced(target, self.number)
        self.refuse_later(target)

    def refuse_later(self, target: Target) -> None:
        """Raise `FencedError` if a later epoch is claimed."""
        if read_epoch(target, self.number + 1) is not None:
            raise _fenced(target, self.number + 1)


def _write(text: bytes, file: BinaryIO) -> None:
    file.write(text)


def highest_epoch(target: Target) -> int:
    """Return the number of the last epoch that is claimed; 0 if there is none."""
    with reading(target.name):
        return max(epochs_in(target.names()), default=0)


def own_epochs(target: Target) -> list[StoreEpoch]:
    """Read the epochs of a store, ascending, without those that a claim only passed over."""
    with reading(target.name):
        numbers = sorted(epochs_in(target.names()))
    epochs = [read_epoch(target, number) for number in numbers]
    last = {each.id: each for each in epochs if each is not None}
    return list(last.values())


def epochs_in(names: list[str]) -> list[int]:
    """Return the numbers of the epochs among the names of a store."""
    return [int(match[1]) for name in names if (match := _NAME.match(name))]


def read_epoch(target: Target, number: int) -> StoreEpoch | None:
    """Read the object of an epoch; None if it is not claimed."""
    name = StoreEpoch(number).name
    path = target.path_of(name)
    try:
        with reading(path), target.open(name) as file:
            text = file.read(_SIZE_LIMIT)
    except FileNotFoundError:
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and content.keys() == {"number", "start", "id"}:
        start, name_of = content["start"], content["id"]
        sound = type(start) is int and 0 <= start < 1 << 63 and type(name_of) is str
        if sound and content["number"] == number:
            return StoreEpoch(number, start, name_of)
    raise CorruptSegmentError(
        f"{name} is damaged: restore it from another copy of the store", path=path
    )


def _fenced(target: Target, number: int) -> FencedError:
    return FencedError(
        f"another log has claimed epoch {number} of the store: follow that log, or run "
        "`commitlog promote --store` to make this one the primary",
        path=target.name,
    )

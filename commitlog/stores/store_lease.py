"""StoreLease: a reader's claim on the segments of a store, which retention then does not delete."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Self

from commitlog.base.host import host
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import InvalidOptionError, PositionError
from commitlog.stores.archived import read_identity
from commitlog.stores.contents import read_contents
from commitlog.stores.target import Target, reading, target_of, writing

_NAME = re.compile(r"^([0-9]{20})-([0-9]{20})-[0-9a-f]{32}\.lease$")
_LEAST_S = 1.0


@dataclass(frozen=True)
class LeaseObject:
    """The empty object of a lease: its name says from which position on, and until when."""

    name: str
    position: int
    ends_ns: int

    @classmethod
    def of(cls, position: int, ends_ns: int) -> Self:
        return cls(
            f"{position:020d}-{ends_ns:020d}-{host.random(16).hex()}.lease", position, ends_ns
        )


def expire_leases(target: Target) -> int | None:
    """Return the first position that a lease needs, or None; delete the leases that have ended."""
    with reading(target.name):
        matches = [match for name in target.names() if (match := _NAME.match(name))]
    leases = [LeaseObject(match[0], int(match[1]), int(match[2])) for match in matches]
    now_ns = host.time_ns()
    target.delete([lease.name for lease in leases if lease.ends_ns <= now_ns])
    return min((lease.position for lease in leases if lease.ends_ns > now_ns), default=None)


def _checked(position: object) -> int:
    if type(position) is not int or not 0 <= position < 1 << 63:
        raise InvalidOptionError(f"position must be an int from 0 to 2**63 - 1, not {position!r}")
    return position


class StoreLease:
    """Keep a store from deleting the segments from a position on, for some time.

    A lease is an object that a reader puts into the store, so the reader needs the right to write
    there. The handle that stores the log deletes no segment that a lease needs, until the lease
    ends by the clock of that handle's machine.

    Parameters
    ----------
    target : str or path
        The store: an address or a directory.
    position : int, optional
        The first position that must stay; by default where the store begins.
    lasts : float or str
        Seconds (at least 1) or a duration such as ``"1h"``. Longer: if this reader is killed, the
        store takes more space until the lease ends.
    filesystem : store of obstore, pyarrow.fs.FileSystem or fsspec file system, optional
        The store or file system in which `target` is a path.

    Raises
    ------
    PositionError
        Retention has deleted that position; `first_position` says where the store begins.
    LogNotFoundError, NotALogError
        There is no store.
    IOFailureError
        The store cannot be reached or written.
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        position: int | None = None,
        *,
        lasts: Duration = "1h",
        filesystem: object = None,
    ) -> None:
        self._lasts_s = parse_duration(lasts, "lasts")
        if self._lasts_s < _LEAST_S:
            raise InvalidOptionError(f"lasts must be at least {_LEAST_S:g} s, not {lasts!r}")
        wanted = None if position is None else _checked(position)
        self._target = target_of(target, filesystem)
        self._size = read_identity(self._target).segment_size
        self._held: LeaseObject | None = None
        self._take(self._first() if wanted is None else wanted)

    @property
    def position(self) -> int:
        """Return the first position that the store keeps."""
        return self._position

    def renew(self, position: int | None = None) -> None:
        """Let the lease last from now on, and release what is before a position.

        Call it as often as you like, such as after each batch: it does nothing until half of the
        time has passed.

        Parameters
        ----------
        position : int, optional
            Where the reader is now; by default, the lease stays where it is.

        Raises
        ------
        PositionError
            The lease had ended, and retention has deleted that position.
        """
        wanted = self._position if position is None else _checked(position)
        if host.monotonic() - self._taken_s >= self._lasts_s / 2:
            self._take(wanted)

    def release(self) -> None:
        """End the lease; a second call does nothing."""
        if self._held is not None:
            with writing(self._target.name):
                self._target.delete([self._held.name])
            self._held = None

    def _take(self, position: int) -> None:
        """Put a lease, delete the one before, then check that the position is still there."""
        taken_s = host.monotonic()
        new = LeaseObject.of(position, host.time_ns() + int(self._lasts_s * 1e9))
        with writing(self._target.name):
            self._target.put(new.name, lambda file: None, replace=False)
        self.release()
        self._held, self._position, self._taken_s = new, position, taken_s
        first = self._first()
        if position < first:
            self.release()
            raise PositionError(
                "the store's retention deleted this position before the lease: continue at "
                f"position {first} or later",
                path=self._target.name,
                position=position,
                first_position=first,
            )

    def _first(self) -> int:
        """Return where the store begins."""
        numbers = read_contents(self._target, self._size).numbers
        return numbers[0] * self._size if numbers else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

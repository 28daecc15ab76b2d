"""Oracle: what was appended and acknowledged, and what therefore has to be where."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import Any

import commitlog
from commitlog.errors import CommitLogError

SEGMENT, HEADER = 64 << 10, 4096
_GRACE_S = 25.0  # in which a server finds that its directory was replaced


class ViolationError(Exception):
    """A promise of the product does not hold."""

    def __init__(self, rule: str, why: str) -> None:
        super().__init__(f"{rule}: {why}")
        self.rule = rule


@dataclass
class Session:
    """What one writer found in its log, and what it appended."""

    number: int
    epoch: int
    require: int
    path: str
    base: list[bytes]  # with what was deleted before
    appended: list[bytes] = field(default_factory=list)
    began_s: float = 0.0

    def history(self) -> list[bytes]:
        return self.base + self.appended


@dataclass(frozen=True)
class Acknowledged:
    """A record that an append acknowledged, on so many copies beside the primary."""

    session: int
    position: int
    value: bytes
    require: int


def content(path: str) -> list[tuple[int, bytes]]:
    """Return position and value of each record that a reader of a log sees."""
    with commitlog.open(path, "r") as log:
        return [(record.position, record.value) for record in log.tailer()]


def tag_of(value: bytes) -> tuple[int, int]:
    """Return the session and the number of a record."""
    session, number = value[:16].split(b":")[:2]
    return int(session), int(number)


class Oracle:
    """Keep the truth of a run, and compare."""

    def __init__(self, machines: Any) -> None:
        self._machines = machines
        self.sessions: list[Session] = []
        self.acknowledged: dict[tuple[int, bytes], Acknowledged] = {}
        self.synced: dict[tuple[int, bytes], str] = {}  # the log that has it, with any `require`
        self.waived = 0
        self.promoted: tuple[int, set[tuple[int, bytes]]] | None = None  # epoch, what it has
        self.deleted_below = 0
        self.split = False  # promises are gone, or were waived: the old primary may go on
        self.replaced_s = -1e9  # when a directory was replaced
        self.live_s = -1e9  # when that of a program that runs was
        self.ever: dict[tuple[int, bytes], Acknowledged] = {}  # waived ones, too
        self.broken: set[str] = set()  # other content was written over files that are open
        self.own: set[str] = set()  # restored from a store: logs of their own
        self.writers: dict[int, str] = {}  # by epoch: the log that has it
        self.begun: dict[int, bool] = {}  # epochs, and whether promises made them
        self.acks = self.reads = self.promotions = 0
        self.violation: ViolationError | None = None

    # --- appends ----------------------------------------------------------------------------------

    def begin(self, path: str, epoch: int, require: int) -> Session:
        """Note a writer, before its first append."""
        found = [value for _, value in self.read(path)]
        if found:
            whole = self.sessions[tag_of(found[-1])[0]].history()
            found = whole[: whole.index(found[0])] + found
        session = Session(len(self.sessions), epoch, require, path, found)
        session.began_s = self._machines.world.now_s
        self.sessions.append(session)
        if require and path not in self.own:
            self._check_writer(path, session)
        return session

    def _check_writer(self, path: str, session: Session) -> None:
        """A primary has what was acknowledged before, and is the one of its epoch."""
        first = self.writers.setdefault(session.epoch, path)
        alone = self.begun.get(session.epoch, session.epoch == 0) and not self.split
        alone = alone and self.replaced_s < 0
        if first != path and alone:
            raise ViolationError(
                "one primary of an epoch",
                f"{path} is written in epoch {session.epoch}, as {first} was",
            )
        known = set(session.base)
        lost = [
            each for each in self.acknowledged.values()
            if self.sessions[each.session].epoch <= session.epoch and each.value not in known
            and each.position >= self.deleted_below
        ]  # fmt: skip
        if lost:
            raise ViolationError(
                "primary lacks what was acknowledged",
                f"{path} is opened in epoch {session.epoch} without {len(lost)} records, as "
                f"{tag_of(lost[0].value)} at {lost[0].position}",
            )

    def held(self, path: str, durable: int) -> list[Acknowledged]:
        """Return what a copy has of what was acknowledged, below a position."""
        return [
            each for each in self.ever.values()
            if each.position < durable and has(path, each.position, each.value)
        ]  # fmt: skip

    def check_kept(self, path: str, held: list[Acknowledged]) -> None:
        """A copy that follows loses nothing that was acknowledged, but to a later epoch."""
        for each in held:
            later = self.promoted is not None and (
                self.promoted[0] > self.sessions[each.session].epoch
            )
            if later or each.position < self.deleted_below:
                continue
            if not has(path, each.position, each.value):
                raise ViolationError(
                    "a copy is cut to an older state",
                    f"{path} had {tag_of(each.value)} at {each.position}, and no later epoch",
                )

    def durable(self, path: str, position: int) -> list[tuple[int, bytes]]:
        """Return what a log has and cannot lose in a power cut: what it has acknowledged, as a
        primary, and as a copy what is below a position.
        """
        mine = [key for key, log in self.synced.items() if log == path]
        copied = [key for key in self.ever if key[0] < position]
        return [key for key in dict.fromkeys(mine + copied) if has(path, *key)]

    def check_cut(self, path: str, durable: list[tuple[int, bytes]]) -> None:
        """What was durable is there after a power cut."""
        for position, value in durable:
            if not has(path, position, value):
                raise ViolationError(
                    "durable in a power cut",
                    f"{path} lacks {tag_of(value)} at {position}, which was acknowledged",
                )

    def acknowledge(
        self, session: Session, position: int, value: bytes, began_s: float = 0.0
    ) -> None:
        """Note that an append returned, which began at a time."""
        self.acks += 1
        self.synced[position, value] = session.path
        if not session.require:
            return
        found = Acknowledged(session.number, position, value, session.require)
        now_s = self._machines.world.now_s
        # What was there before a directory was replaced still counts for records of that time.
        if now_s - self.live_s > _GRACE_S and began_s > self.replaced_s:
            holders = [each.name for each in self._machines.each if has(each.path, position, value)]
            if len(holders) <= session.require:
                raise ViolationError(
                    "acknowledged on too few copies",
                    f"{tag_of(value)} at {position} is on {', '.join(holders) or 'no machine'}, "
                    f"and {session.require} copies are required",
                )
        late = self.promoted is not None and self.promoted[0] > session.epoch
        if late and self.promoted is not None and (position, value) not in self.promoted[1]:
            if self.split:
                self.waived += 1
                return
            raise ViolationError(
                "acknowledged after a fence",
                f"{tag_of(value)} at {position} in epoch {session.epoch}, after epoch "
                f"{self.promoted[0]} began without it",
            )
        self.acknowledged[position, value] = self.ever[position, value] = found

    # --- logs -------------------------------------------------------------------------------------

    def read(self, path: str) -> list[tuple[int, bytes]]:
        """Read a log whole, and compare it with the history of its last writer."""
        self.reads += 1
        with self._machines.at(path):
            found = content(path)
        self.check_history(path, [value for _, value in found])
        return found

    def check_history(self, path: str, values: list[bytes]) -> None:
        """A log is a part, without a gap, of the history of one writer."""
        if not values or path in self.broken:
            return
        if len(set(values)) < len(values):
            raise ViolationError("nothing twice", f"{path} has a record twice")
        session = self.sessions[tag_of(values[-1])[0]]
        whole = session.history()
        try:
            start = whole.index(values[0])
        except ValueError:
            start = -1
        if start < 0 or whole[start : start + len(values)] != values:
            at = next(
                (n for n, (a, b) in enumerate(zip(values, whole[max(start, 0) :], strict=False))
                 if a != b), 0
            )  # fmt: skip
            raise ViolationError(
                "a prefix of one history",
                f"{path} has {len(values)} records that end with {tag_of(values[-1])}; from its "
                f"record {at}, {tag_of(values[at])}, on it is no history of that writer",
            )

    def check_sound(self, path: str) -> None:
        """`verify` finds no damage where there is none."""
        from commitlog.keep import verify

        if path in self.broken:
            return
        try:
            with self._machines.at(path):
                report = verify(path)
        except CommitLogError:
            return
        if not report.sound and not report.live:
            raise ViolationError("verify", f"{path} is not sound by this report: {report}")

    def check_promoted(
        self, path: str, epoch: int, *, waives: bool, before: set[tuple[int, bytes]] | None
    ) -> None:
        """A promoted log has each acknowledged record, and what the store had before, if nothing
        was waived; and its epoch is a new one.
        """
        self.promotions += 1
        found = set(self.read(path))
        self._check_epoch(path, epoch, found, waives=waives)
        first = min(found)[0] if found else 1 << 62
        lacks = {each for each in (before or set()) - found if each[0] >= first}
        if lacks and not waives:
            raise ViolationError(
                "promotion below the store",
                f"epoch {epoch} in {path} lacks {len(lacks)} records that the store has, as "
                f"{tag_of(min(lacks)[1])} at {min(lacks)[0]}",
            )
        lost = [
            each
            for key, each in self.acknowledged.items()
            if key not in found and each.position >= self.deleted_below
        ]
        if waives:
            self.split = True
            self.waived += len(lost)
            for each in lost:
                del self.acknowledged[each.position, each.value]
        elif lost:
            first = min(lost, key=lambda each: each.position)
            raise ViolationError(
                "acknowledged and lost",
                f"epoch {epoch} in {path} lacks {len(lost)} acknowledged records, the first is "
                f"{tag_of(first.value)} at {first.position}",
            )
        self.promoted = epoch, found

    def _check_epoch(
        self, path: str, epoch: int, found: set[tuple[int, bytes]], *, waives: bool
    ) -> None:
        last = max((self.sessions[tag_of(value)[0]].epoch for _, value in found), default=0)
        if epoch <= last and self.replaced_s < 0:  # an older state has older promises
            raise ViolationError(
                "a new epoch", f"{path} is promoted to {epoch}, and has records of epoch {last}"
            )
        # Any two promotions have a promise in common; else copies alone keep them apart. Without
        # `require`, only the copies that are named are counted.
        logs = len(self._machines.each)
        require = self.sessions[0].require
        whole = bool(require) and not waives and not self.split and 2 * (logs - require) > logs
        if whole and self.begun.get(epoch) and self.writers.get(epoch) != path:
            raise ViolationError(
                "one primary of an epoch", f"{path} is promoted to epoch {epoch}, as another was"
            )
        self.begun[epoch] = whole
        self.writers[epoch] = path

    def check_agree(self, follower: str, primary: str, position: int) -> None:
        """Two copies have the same bytes below a position."""
        for number in range(position // SEGMENT + 1):
            base = number * SEGMENT
            stop = min(SEGMENT, position - base)
            ours, theirs = (frames_of(path, base, stop) for path in (follower, primary))
            if ours is not None and theirs is not None and ours != theirs:
                at = next(n for n, pair in enumerate(zip(ours, theirs, strict=True)) if
                          pair[0] != pair[1])  # fmt: skip
                raise ViolationError(
                    "copies agree",
                    f"{follower} and {primary} differ at {base + HEADER + at}, and below "
                    f"{position} the copy has acknowledged",
                )

    def waive(self, path: str) -> None:
        """An operator put an older state in the place of a log: what it lacks may be lost."""
        found: set[tuple[int, bytes]] = set()
        with contextlib.suppress(CommitLogError):
            found = set(content(path))
        lost = [key for key in self.acknowledged if key not in found]
        self.waived += len(lost)
        for key in lost:
            del self.acknowledged[key]


def has(path: str, position: int, value: bytes) -> bool:
    """Return whether a log's files have a record at a position."""
    number, offset = divmod(position, SEGMENT)
    try:
        with open(os.path.join(path, f"{number * SEGMENT:020d}.seg"), "rb") as file:
            file.seek(offset)
            return value in file.read(len(value) + 128)
    except FileNotFoundError:
        return False


def frames_of(path: str, base: int, stop: int) -> bytes | None:
    """Return the bytes of a segment behind its header; None if there is none, or not so many."""
    try:
        with open(os.path.join(path, f"{base:020d}.seg"), "rb") as file:
            file.seek(HEADER)
            found = file.read(max(0, stop - HEADER))
    except FileNotFoundError:
        return None
    return found if len(found) == max(0, stop - HEADER) else None

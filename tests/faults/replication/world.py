"""World: three machines with a log each, a bucket, the network between them, and an account."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import shutil
import socket
from pathlib import Path
from typing import NamedTuple, Self
from unittest.mock import patch

import commitlog
from commitlog.base.polling import attempts
from commitlog.errors import LogNotFoundError
from commitlog.keep import restore
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Lineage, Rank
from commitlog.repair.verification import verify
from commitlog.stores.store_session import promotions
from commitlog.stores.target import target_of
from tests.faults import small_disk
from tests.faults.replication import programs
from tests.faults.replication.machine import LIMIT_S, Machine, Program, libraries
from tests.faults.replication.proxy import Proxy
from tests.stores.s3_server import S3Server

NAMES = ("a", "b", "c")
LOG = "orders"
_STEP = 1_000_000  # more than one primary appends


class Record(NamedTuple):
    position: int
    number: int


def free_port() -> int:
    """Return a port that nothing listens on, below those that the system gives to clients."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port


def records_of(place: Path | str) -> list[Record]:
    """Return the records of a log or a store; fail if the content of one is not its number's."""
    with commitlog.open(place, "r") as log, log.tailer() as tailer:
        found = []
        for record in iter(tailer.read, None):
            value = bytes(record.value)
            number = int(value.partition(b" ")[0])
            assert value == programs.payload(number), value
            found.append(Record(record.position, number))
        return found


class World:
    """Machines `a`, `b` and `c`: one has the primary, the others follow it through a proxy each.

    Attributes
    ----------
    links, backs : dict of Proxy
        From each machine to the primary, and from a promotion to each machine.
    require : int
        How many copies acknowledge.
    """

    def __init__(self, folder: Path, numbers: random.Random, disks: bool) -> None:
        folder.mkdir(parents=True)
        self.numbers = numbers
        self.disks = disks
        self.require = 1
        self.acknowledged: set[int] = set()
        self.read = 0  # records
        self.primary = "a"
        self.folder = folder
        self._first = 0
        self.s3 = S3Server()
        self.in_s3 = False  # where the store is
        self._variables = patch.dict(os.environ, self.s3.environment())
        self._variables.start()
        shims = libraries(folder)
        self.machines = {name: Machine(name, folder / name, shims, disks) for name in NAMES}
        self.bucket = folder / "bucket"
        if disks:
            small_disk.mount("tmpfs", self.bucket, 4 * (64 << 20))
        else:
            self.bucket.mkdir()
        self.ports = {name: free_port() for name in NAMES}
        self.links = {name: Proxy(self.ports["a"], numbers) for name in NAMES}
        self.backs = {name: Proxy(port, numbers) for name, port in self.ports.items()}
        self.running: dict[str, Program] = {}
        self.reader: Program | None = None
        self._reads_near = False

    @property
    def store(self) -> str:
        return "s3://bucket/store" if self.in_s3 else str(self.bucket / "store")

    @property
    def followers(self) -> list[str]:
        return [name for name in NAMES if name != self.primary]

    @property
    def appender(self) -> Program:
        return self.running[self.primary]

    def log_of(self, name: str) -> Path:
        return self.machines[name].disk / LOG

    def listen_of(self, name: str) -> str:
        return f"127.0.0.1:{self.ports[name]}"

    def begin(self, *, in_s3: bool = False) -> None:
        """Begin with a new log and an empty store."""
        for name in NAMES:
            self.end(name)
            shutil.rmtree(self.log_of(name), ignore_errors=True)
        shutil.rmtree(self.bucket / "store", ignore_errors=True)
        self.s3.objects.clear()
        self.in_s3 = in_s3
        self.acknowledged.clear()
        self.primary = "a"
        commitlog.open(self.log_of("a"), segment_size=programs.SEGMENT).close()

    # --- programs ---------------------------------------------------------------------------------

    def append(self) -> None:
        """Start the primary."""
        self._first += _STEP
        machine = self.machines[self.primary]
        self.running[self.primary] = machine.start(
            programs.append,
            path=self.log_of(self.primary),
            listen=self.listen_of(self.primary),
            store=self.store,
            require=self.require,
            first=self._first,
            threads=self.numbers.choice((1, programs.TURNS)),
        )
        for link in self.links.values():
            link.target = self.ports[self.primary]

    def follow(self, name: str) -> None:
        """Start a follower."""
        self.running[name] = self.machines[name].start(
            programs.follow,
            url=self.links[name].url(LOG),
            path=self.log_of(name),
            name=name,
            listen=self.listen_of(name),
        )

    def read_on(self) -> None:
        """Start a reader: of what is replicated, beside the primary, or on another machine."""
        near = self._reads_near = self.numbers.random() < 0.5
        name = self.primary if near else self.followers[0]
        place = str(self.log_of(name)) if near else self.links[name].url(LOG)
        self.reader = self.machines[name].start(
            programs.read, place=place, visibility="replicated" if near else "committed"
        )

    def end(self, name: str) -> None:
        """Kill the program of a machine."""
        program = self.running.pop(name, None)
        if program is not None:
            program.kill()
            self._take_acknowledged(program)

    def _take_acknowledged(self, program: Program) -> None:
        said = list(program.said)
        self.acknowledged |= {words[1] for words in said if words[0] == "acknowledged"}

    def promote(
        self, name: str, others: list[str], killed_at: int = 0, *, forces: bool = False
    ) -> Program:
        """Begin to promote the log of a machine, which must not have a program."""
        return self.machines[name].start(
            programs.promote,
            path=self.log_of(name),
            others=[self.backs[other].url(LOG) for other in others],
            require=self.require,
            store=self.store if self.numbers.random() < 0.5 else None,
            killed_at=killed_at,
            forces=forces,
        )

    def end_appends(self) -> None:
        """End the primary, and wait until the copies have all of its log, and so of the store."""
        self.end(self.primary)
        commitlog.open(self.log_of(self.primary)).close()  # recovers, and so serves, all of it
        serving = self._serve(self.primary)
        self._wait_for_adoption()
        end = self._end_of(self.log_of(self.primary))
        for name in self.followers:
            self._caught_up(self.log_of(name), end)
        serving.kill()

    def change_require(self) -> None:
        """Have the other number of copies acknowledge from now on; a try may be killed."""
        self.end_appends()
        for name in self.followers:
            self.end(name)
            self.running[name] = self._serve(name)
        self.require = 3 - self.require
        killed_at = self.numbers.choice((0, self.numbers.randrange(1, 12)))
        said = self.promote(self.primary, self.followers, killed_at).result()
        if not said or said[0] == "killed":
            said = self.promote(self.primary, self.followers).result()
        assert said[0] == "promoted", said
        self.append()
        for name in self.followers:
            self.end(name)
            self.follow(name)

    def _serve(self, name: str) -> Program:
        """Serve the log of a machine that no program writes."""
        serving = self.machines[name].start(
            programs.serve, path=self.log_of(name), listen=self.listen_of(name)
        )
        serving.wait("up")
        return serving

    # --- who is primary ---------------------------------------------------------------------------

    def lineage(self, name: str) -> Lineage:
        known = Epochs.at(str(self.log_of(name)))
        return Lineage() if known is None else known[1]

    def has_primary(self) -> bool:
        """Make the log of the highest epoch the primary; False if it cannot be written by now."""
        lineages = {name: self.lineage(name) for name in NAMES}
        highest = max(each.promised for each in lineages.values())
        for name, each in lineages.items():
            if each.rank == highest and each.follows is None and each.promised == each.rank:
                self.primary = name
                return not self._is_claimed_by_another(highest)
        return False

    def _is_claimed_by_another(self, rank: Rank) -> bool:
        """Return whether the store fences a log of this rank: of two promotions with the same
        number, the one with the lower id may be the only one that was given the store.
        """
        claimed = [
            each.id for each in promotions(target_of(self.store)) if each.epoch == rank.number
        ]
        return claimed not in ([], [rank.id])

    def settle(self) -> None:
        """End the old primary. If there is no new one, promote a log with the promises of all."""
        if self.has_primary():
            for name in NAMES:
                program = self.running.get(name)
                if program and (name == self.primary or program.name != "follow"):
                    self.end(name)
            return
        for name in NAMES:
            self.end(name)
        for _ in attempts(LIMIT_S, "a promotion"):
            for name in self.numbers.sample(NAMES, 3):
                others = [other for other in NAMES if other != name]
                for other in others:
                    self.running[other] = self._serve(other)
                said = self.promote(name, others, forces=True).result()
                for other in others:
                    self.end(other)
                if said[0] == "promoted":
                    self.primary = name
                    return
        raise AssertionError(f"no log could be promoted: {said}")

    def rank(self) -> Rank:
        return self.lineage(self.primary).rank

    # --- the account ------------------------------------------------------------------------------

    def heal(self) -> None:
        """End every fault of machines and network."""
        for machine in self.machines.values():
            machine.heal()
        for back in self.backs.values():
            back.cut()  # a promise that arrives late fences the next primary
        for proxy in (*self.links.values(), *self.backs.values()):
            proxy.heal()
        (self.bucket / "ballast").unlink(missing_ok=True)
        self.s3.heal()

    def stop_reading(self) -> None:
        """End the reader, before its log may be cut."""
        if self.reader is not None:
            self.reader.kill()

    def check(self, *, promoted: bool) -> None:
        """Go on with all copies until they have caught up; check logs, store and reader against the
        account. Primary and followers run on.
        """
        end = self._end_of(self.log_of(self.primary))
        self.append()
        for name in self.followers:
            self.links[name].cut()
            if name not in self.running:
                self.follow(name)
        self.appender.wait("acknowledged", 3)
        self._wait_for_adoption()
        for name in self.followers:
            self._joined(name)
        places = [*(self.log_of(name) for name in self.followers), self.store]
        found = [self._caught_up(place, end) for place in places]
        self._take_acknowledged(self.appender)
        acknowledged = set(self.acknowledged)
        ours = records_of(self.log_of(self.primary))
        for place, theirs in zip(places, found, strict=True):
            assert theirs == ours[: len(theirs)], place
        numbers = [record.number for record in ours]
        lost = acknowledged - set(numbers)
        assert not lost, sorted(lost)
        assert len(numbers) == len(set(numbers))
        for turn in range(programs.TURNS):
            mine = [number for number in numbers if number % programs.TURNS == turn]
            assert mine == sorted(mine)
        self._check_read(ours, promoted)

    def _wait_for_adoption(self) -> None:
        """Wait until the copies have the primary's epochs: what they had beside its log is cut."""
        for _ in attempts(LIMIT_S, "the copies to adopt the epochs", interval_s=0.05):
            epochs = self.lineage(self.primary).epochs
            if all(self.lineage(name).epochs == epochs for name in self.followers):
                return

    def check_files(self) -> None:
        """Check every byte of logs and store, and that a restored log is the stored one."""
        for name in NAMES:
            self.end(name)
            assert verify(self.log_of(name)).sound, name
        again = self.folder / "restored"
        restore(self.store, again)
        assert verify(again).sound
        assert records_of(again) == records_of(self.store)
        shutil.rmtree(again)

    def _end_of(self, place: Path | str) -> int:
        with commitlog.open(place, "r") as log:
            return log.committed_position

    def _joined(self, name: str) -> None:
        """Wait until a copy has the primary's epochs: then what it had beside them is cut."""
        for _ in attempts(LIMIT_S, f"{name} to join"):
            if self.lineage(name).epochs == self.lineage(self.primary).epochs:
                return
        raise AssertionError(f"{name} did not follow: {self.running[name].said[-5:]}")

    def _caught_up(self, place: Path | str, end: int) -> list[Record]:
        """Wait until a copy or the store has what is below a position; return its records."""
        for _ in attempts(LIMIT_S, f"{place} to catch up", interval_s=0.05):
            with contextlib.suppress(LogNotFoundError):  # a new store, a new copy
                if self._end_of(place) >= end:
                    return records_of(place)
        raise AssertionError(f"{place} ends at {self._end_of(place)}, before {end}")

    def _check_read(self, ours: list[Record], promoted: bool) -> None:
        """Check what the reader has read: it is in the log, and the log goes on from there."""
        if self.reader is None:
            return
        self.reader.kill()
        read = [Record(*said[1:]) for said in self.reader.said if said[0] == "read"]
        self.reader = None
        assert len(read) == len(set(read))
        # A promotion may take back what no copy had.
        stop = self.lineage(self.primary).start if promoted and not self._reads_near else 1 << 63
        kept = set(ours)
        taken_back = [each for each in read if each not in kept and each.position < stop]
        assert not taken_back, taken_back[:5]
        self.read += len(read)

    def close(self) -> None:
        for machine in self.machines.values():
            machine.close()
        for proxy in (*self.links.values(), *self.backs.values()):
            proxy.close()
        self.s3.close()
        self._variables.stop()
        if self.disks:
            small_disk.unmount(self.bucket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

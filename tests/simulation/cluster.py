"""Cluster: programs that users run, and what operators and accidents do to them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import commitlog
from commitlog import Store
from commitlog.errors import CommitLogError, CorruptSegmentError
from commitlog.extension import Member
from commitlog.keep import restore
from commitlog.network.replication.follower import follow
from commitlog.network.replication.primary import Access
from commitlog.network.replication.promotion import promote
from commitlog.network.replication.replication import Replication
from commitlog.network.replication.server import serve
from tests.simulation.disks import FAULTS
from tests.simulation.machines import Machine, Machines, Process
from tests.simulation.objects import Objects
from tests.simulation.oracle import HEADER, SEGMENT, Oracle, ViolationError, tag_of
from tests.simulation.plan import Event, Settings
from tests.simulation.readers import Readers

_PORT = 7000
_SIZES, _BIG = (20, 20, 300, 7000), (300, 3000, 7000, 8000)
_STORED_S, _CAUGHT_UP_S = 15.0, 40.0  # in which programs do what they promise


class Cluster:
    """Do events of a plan, one after the other; programs run meanwhile."""

    def __init__(self, machines: Machines, objects: Objects, settings: Settings) -> None:
        self._machines = machines
        self._world = machines.world
        self._objects = objects
        self._settings = settings
        self.oracle = Oracle(machines)
        self.readers = Readers(machines, self.oracle, self.violate)
        self.story: list[str] = []
        self.store = str(machines.folder / "store")
        self.opens = 0
        self.ended: dict[str, str] = {}
        self._restored: set[str] = set()
        self._is_clean = True  # no operator has put another state in a place, nor forced anything
        self._has_lost = False  # the store has, a part of it
        self._is_asked = False  # a promotion was tried
        self._claimed: tuple[int, float] | None = None  # in the store: epoch, time
        self._faulty_s = self._paused_s = -1e9  # the last time
        self._followers: dict[str, Any] = {}
        self._primaries: dict[str, Any] = {}
        self._sessions: dict[str, Any] = {}

    def tell(self, text: str) -> None:
        text = text.replace(str(self._machines.folder), "")  # it differs between two runs
        self.story.append(f"{self._world.now_s - 1000:8.3f} s  {text}")

    def url(self, machine: Machine) -> str:
        return f"tcp://{machine.host}:{_PORT}/log"

    # --- programs ---------------------------------------------------------------------------------

    def _guard(self, machine: Machine, what: str, run: Callable[[], None]) -> Callable[[], None]:
        def guarded() -> None:
            try:
                run()
            except ViolationError as error:
                self.violate(error)
            except (CommitLogError, OSError) as error:
                self.tell(f"{machine.name}: {what} ended: {type(error).__name__}: {error}")
                self.ended[machine.name] = type(error).__name__
            finally:
                process = machine.process
                if process is not None and self._world.current.process is process:
                    machine.role = "idle"
                    machine.process = None
                    process.dead = True
                    self._world.drop(process)

        return guarded

    def violate(self, error: ViolationError) -> None:
        self.oracle.violation = self.oracle.violation or error
        self._world.over = True

    def _begin(self, machine: Machine, role: str, run: Callable[[], None]) -> None:
        if machine.process is None:
            machine.role = role
            self.opens += 1
            machine.process = self._machines.start(machine, role, self._guard(machine, role, run))
            self._world.sleep(0.01)

    def primary(self, machine: Machine) -> None:
        """Open the log, serve it, and append without end."""

        def run() -> None:
            settings = self._settings
            require = settings.require
            replication = Replication(
                listen=f"{machine.host}:{_PORT}",
                plain_text=True,
                require=require,
                timeout=3,
            )
            store = Store(self.store, every=1.0) if settings.store else None
            log = commitlog.open(
                machine.path,
                segment_size="64KiB",
                flush="none",
                replicate=replication,
                store=store,
            )
            epoch = commitlog.extension.view_of(log).epochs.read().number
            session = self.oracle.begin(machine.path, epoch, require)
            self._primaries[machine.name] = (log, replication)
            self._sessions[machine.name] = session
            self.tell(f"{machine.name}: primary of epoch {epoch}, writer {session.number}, with "
                      f"{len(session.base)} records")  # fmt: skip
            choices = self._world.choices
            try:
                self._append(log, session, choices)
            finally:
                self._primaries.pop(machine.name, None)
                if not machine.process or not machine.process.dead:
                    with contextlib.suppress(CommitLogError):
                        log.close()

        if os.path.isdir(machine.path) or not self.oracle.sessions:  # else it were another log
            self._begin(machine, "primary", run)

    def _append(self, log: Any, session: Any, choices: Any) -> None:
        number = 0
        while not session_over(log):
            value = b"%d:%d:" % (session.number, number)
            sizes = _BIG if self._settings.big else _SIZES
            value = value.ljust(16, b".") + bytes(sizes[choices.pick(len(sizes))])
            session.appended.append(value)
            number += 1
            began_s = self._world.now_s
            try:
                position = log.append(value, sync=True)
            except commitlog.errors.SyncTimeoutError:
                pass
            else:
                self.oracle.acknowledge(session, position, value, began_s)
            self._world.sleep(choices.between(0.01, 0.4))

    def follow(self, machine: Machine, other: Machine, *, restored: bool = False) -> None:
        held = self.oracle.held(machine.path, _durable(machine.path))

        def run() -> None:
            follower = follow(
                self.url(other),
                machine.path,
                name=machine.name,
                plain_text=True,
                connect_timeout=3,
                listen=f"{machine.host}:{_PORT}",
                restored=restored,
            )
            self._followers[machine.name] = (follower, other)
            self.tell(f"{machine.name}: follows {other.name} from {follower.position}")
            try:
                if not restored:
                    self.oracle.check_kept(machine.path, held)
                follower.wait()
            finally:
                self._followers.pop(machine.name, None)
                follower.close()

        self._begin(machine, "follower", run)

    def serve(self, machine: Machine) -> None:
        def run() -> None:
            with serve(machine.path, listen=f"{machine.host}:{_PORT}", plain_text=True):
                while True:
                    self._world.sleep(1.0)

        if os.path.isdir(machine.path):
            self._begin(machine, "server", run)

    def promote(
        self, machine: Machine, others: list[Machine], *, force: tuple[str, ...], store: bool
    ) -> bool:
        """Promote a log, as an operator does; return whether it was."""
        done: list[bool] = []
        waives = bool(set(force) & {"promises", "copies"})
        self._is_clean &= not force
        self._is_asked = True

        def run() -> None:
            before = self._in_store() if store and "store" not in force else None
            epoch = promote(
                machine.path,
                others=[self.url(each) for each in others],
                force=force,  # type: ignore[arg-type]
                plain_text=True,
                timeout=2,
                store=Store(self.store, every=1.0) if store else None,
            )
            self.tell(f"{machine.name}: promoted to epoch {epoch.number} at {epoch.start}")
            done.append(True)
            if store:
                self._claimed = epoch.number, self._world.now_s
            self.oracle.check_promoted(machine.path, epoch.number, waives=waives, before=before)

        if machine.process is not None or not os.path.isdir(machine.path):
            return False
        self.opens += 1
        self._begin(machine, "promotion", run)
        until_s = self._world.now_s + 30
        while machine.role == "promotion" and self._world.now_s < until_s:
            self._world.sleep(0.1)
        return bool(done)

    # --- events -----------------------------------------------------------------------------------

    def do(self, event: Event) -> None:
        """Do an event; one that fits no state does nothing."""
        at = self._machines.each
        machine = at[event.machine % len(at)]
        other = at[event.other % len(at)]
        self.tell(f"-- {event}")
        self._machines.event = event.kind
        act = getattr(self, f"_on_{event.kind}")
        act(machine, other, event.number)
        self.check()

    def check(self) -> None:
        """Compare what is connected now."""
        self._check_claim()
        self._check_deleted()
        if self._world.now_s - self.oracle.live_s < 25.0:
            return
        for name, (follower, other) in list(self._followers.items()):
            held = self._primaries.get(other.name)
            if held is None or follower.error is not None:
                continue
            both = other.process, self._named(name).process
            if any(each is None or each.is_replaced for each in both):
                continue  # it has files that are not in its directory any more
            with contextlib.suppress(CommitLogError, OSError):
                position = held[1].server.followers().get(name, 0)
                if position and follower.position >= position:
                    path = next(each.path for each in self._machines.each if each.name == name)
                    self.oracle.check_agree(path, other.path, position)

    def _in_store(self) -> set[tuple[int, bytes]] | None:
        """Return the records that a store has now; None if it does not say, or lies."""
        if self._objects.faults or not os.path.isdir(self.store):
            return None
        place = str(self._machines.folder / "before")
        shutil.rmtree(place, ignore_errors=True)
        try:
            restore(self.store, place)
        except (CommitLogError, OSError):
            return None
        return set(self.oracle.read(place))

    def _check_claim(self) -> None:
        """A log of an earlier epoch than its store's fails soon."""
        now_s = self._world.now_s
        if self._objects.faults:
            self._faulty_s = now_s
        if self._claimed is None or now_s - max(self._claimed[1], self._faulty_s) < _STORED_S:
            return
        for name, (log, _) in self._primaries.items():
            session, machine = self._sessions[name], self._named(name)
            process = machine.process
            if process is None or process.paused or now_s - session.began_s < _STORED_S:
                continue
            if now_s - self._paused_s < _STORED_S or not os.path.isdir(machine.path):
                continue
            if session.epoch < self._claimed[0] and not session_over(log):
                raise ViolationError(
                    "a store has one writer",
                    f"{name} goes on in epoch {session.epoch}, and epoch {self._claimed[0]} was "
                    f"claimed {now_s - self._claimed[1]:.0f} s before",
                )

    def _check_deleted(self) -> None:
        """What a log with a store deletes is in the store, or is deleted by force."""
        if not self._settings.store or not self._is_clean:
            return
        for machine in self._machines.each:
            if not os.path.isdir(machine.path):
                continue
            bases = sorted(each[:20] for each in os.listdir(machine.path) if each.endswith(".seg"))
            if machine.role != "primary" or not bases:
                continue
            wanted = range(0, int(bases[0]), SEGMENT)
            has_store = os.path.isdir(self.store)
            there = set(os.listdir(self.store)) if has_store else set()
            for base in wanted:
                if f"{base:020d}.seg.zst" not in there:
                    raise ViolationError(
                        "deleted before it was stored",
                        f"{machine.name} begins at {bases[0]}, and the store lacks segment {base}",
                    )

    def _named(self, name: str) -> Machine:
        return next(each for each in self._machines.each if each.name == name)

    def _on_wait(self, machine: Machine, other: Machine, number: int) -> None:
        """Let more time pass than any program may take."""
        self._world.sleep(16.0 + number % 12)

    def _on_serve(self, machine: Machine, other: Machine, number: int) -> None:
        self.stop(machine)
        self.serve(machine)

    def _on_isolate(self, machine: Machine, other: Machine, number: int) -> None:
        """Cut two machines off from each other, until `heal`."""
        if machine is not other:
            self._machines.network.cut |= {
                (machine.host, other.host),
                (other.host, machine.host),
            }

    def _on_promote_two(self, machine: Machine, other: Machine, number: int) -> None:
        """Two operators promote a log each, at once."""
        if other is machine:
            return
        self.stop(other)
        until: list[bool] = []

        def second() -> None:
            self._world.sleep(self._world.choices.between(1e-3, 0.2))
            self._on_promote(other, machine, number >> 8)
            until.append(True)

        task = self._machines.spawn("second operator", self._guarded_operator(second))
        task.start()
        self._on_promote(machine, other, number)
        task.join(60.0)

    def _guarded_operator(self, act: Callable[[], None]) -> Callable[[], None]:
        def guarded() -> None:
            try:
                act()
            except ViolationError as error:
                self.violate(error)

        return guarded

    def _on_run(self, machine: Machine, other: Machine, number: int) -> None:
        self._world.sleep(0.2 + number % 4)

    def _on_kill(self, machine: Machine, other: Machine, number: int) -> None:
        self.stop(machine)

    def stop(self, machine: Machine) -> None:
        process, machine.process, machine.role = machine.process, None, "idle"
        self._followers.pop(machine.name, None)
        self._primaries.pop(machine.name, None)
        if process is not None:
            self._machines.kill(process)

    def _on_kill_at(self, machine: Machine, other: Machine, number: int) -> None:
        process = machine.process
        if process is not None:
            process.dies_in = 1 + number % 60
            self._world.sleep(1.0 + number % 3)
            if process.dead and machine.process is process:
                self.stop(machine)
            process.dies_in = 0

    def _on_start(self, machine: Machine, other: Machine, number: int) -> None:
        """Start what a machine was: a primary, or a copy that follows the newest primary."""
        if machine.process is None:
            leaders = [each for each in self._machines.each if each.role == "primary"]
            if leaders and leaders[0] is not machine:
                self.follow(machine, leaders[0])
            else:
                self.primary(machine)
            self._world.sleep(0.5)

    def _on_primary(self, machine: Machine, other: Machine, number: int) -> None:
        self.primary(machine)

    def _on_follow(self, machine: Machine, other: Machine, number: int) -> None:
        if other is not machine:
            self.follow(machine, other, restored=number % 4 == 0 and self._is_restored(machine))
            self._world.sleep(1.0)

    def _is_restored(self, machine: Machine) -> bool:
        return machine.name in self._restored

    def _on_failover(self, machine: Machine, other: Machine, number: int) -> None:
        """Stop the primary and promote a copy, as the documentation says."""
        for each in self._machines.each:
            if each.role == "primary" and number % 3:
                self.stop(each)
        self.stop(machine)
        others = [each for each in self._machines.each if each is not machine]
        for each in others:
            if each.process is None and number % 2 == 0:
                self.serve(each)
        store = self._settings.store
        if self.promote(machine, others, force=(), store=store):
            self.primary(machine)
            for each in others:
                if each.role == "server":
                    self.stop(each)
                    self.follow(each, machine)

    def _on_promote(self, machine: Machine, other: Machine, number: int) -> None:
        """Promote with some of the others, wrong ones, or by force."""
        self.stop(machine)
        others = [each for each in self._machines.each if each is not machine]
        kept = [each for place, each in enumerate(others) if number >> place & 1]
        forces: dict[int, tuple[str, ...]] = {
            0: ("promises",),
            1: ("promises", "copies", "restored"),
            2: ("restored",),
            3: ("restored",),
        }
        force = forces.get(number // 8 % 16, ())
        with_store = self._settings.store and number % 5 != 0
        if self.promote(machine, kept, force=force, store=with_store) and number % 2:
            self.primary(machine)

    def _on_backup(self, machine: Machine, other: Machine, number: int) -> None:
        if os.path.isdir(machine.path):
            machine.backup = machine.folder / "backup"
            self._machines.copy(machine.path, machine.backup)
            machine.inodes = self._machines.inodes(machine.path)

    def _on_restore(self, machine: Machine, other: Machine, number: int) -> None:
        """Put the backup in the place of the directory; also while a program has it open."""
        if machine.backup is None:
            return
        if number % 2:
            self.stop(machine)
        if machine.process is not None:
            machine.process.is_replaced = True
            if machine.role == "primary":  # a copy looks each time that it acknowledges
                self.oracle.live_s = self._world.now_s
        self._replace(machine, str(machine.backup))
        self._world.sleep(0.5)

    def _on_rollback(self, machine: Machine, other: Machine, number: int) -> None:
        """Give a machine the disk of an earlier moment, as snapshots do: no file shows it."""
        if machine.backup is None:
            return
        self.stop(machine)
        restored = self._restored
        self._replace(machine, str(machine.backup))
        self._restored = restored
        self._machines.roll_back(machine.path, machine.inodes)
        self.oracle.split = True  # promises may be gone, and records that it acknowledged
        self.oracle.waive(machine.path)

    def _replace(self, machine: Machine, source: str) -> None:
        self.readers.end(machine)
        old = f"{machine.path}.old"
        shutil.rmtree(old, ignore_errors=True)
        if os.path.isdir(machine.path):
            os.rename(machine.path, old)
        self._machines.copy_tree(source, machine.path)
        self.oracle.broken.discard(machine.path)
        is_own = source in self.oracle.own
        self.oracle.own = self.oracle.own - {machine.path} | ({machine.path} if is_own else set())
        self._restored = self._restored | {machine.name}
        self._is_clean = False
        self.oracle.replaced_s = self._world.now_s

    def _on_power_cut(self, machine: Machine, other: Machine, number: int) -> None:
        """Cut the power of a machine, and switch it on again."""
        if self._machines.disks is None:
            return
        self._machines.disks.heal(machine.name)
        durable = self.oracle.durable(machine.path, self._position(machine))
        self.stop(machine)
        self.readers.end(machine)
        self.tell(f"{machine.name}: {self._machines.cut_power(machine)}")
        self.oracle.check_cut(machine.path, durable)
        if machine.path not in self.oracle.broken:
            self._read_after_cut(machine, durable)
        self._world.sleep(0.1)

    def _read_after_cut(self, machine: Machine, durable: list[tuple[int, bytes]]) -> None:
        """Readers see what was durable also before a program recovers the log."""
        try:
            seen = set(self.oracle.read(machine.path))
        except CommitLogError as error:
            self.tell(f"{machine.name} is not read before it is opened: {error}")
            return
        hidden = sorted(set(durable) - seen)
        if hidden:
            raise ViolationError(
                "durable in a power cut",
                f"a reader of {machine.path} does not see {tag_of(hidden[0][1])} at {hidden[0][0]}",
            )

    def _position(self, machine: Machine) -> int:
        """Return up to where a copy has acknowledged."""
        follower, _ = self._followers.get(machine.name, (None, None))
        return 0 if follower is None else int(follower.position)

    def _on_cut_at(self, machine: Machine, other: Machine, number: int) -> None:
        """Cut the power at a step of a program."""
        process = machine.process
        if process is not None:
            process.dies_in = 1 + number % 60
            self._world.sleep(1.0 + number % 3)
            process.dies_in = 0
        self._on_power_cut(machine, other, number)

    def _on_disk_fault(self, machine: Machine, other: Machine, number: int) -> None:
        """Have flushes of a machine fail, or its disk be full: for a second, or until `heal`."""
        if self._machines.disks is None:
            return
        fault = sorted(FAULTS)[number % len(FAULTS)]
        self.tell(f"{machine.name}: {fault}")
        self._machines.disks.fail(machine.name, fault, number // 4 % 6)
        self._world.sleep(1.0)
        if number // 2 % 2:
            self._machines.disks.heal(machine.name)

    def _on_overwrite(self, machine: Machine, other: Machine, number: int) -> None:
        """Restore a backup over a copy that goes on: as a new directory, by new files in it, or
        over its files.
        """
        if machine.backup is None or machine.role != "follower":
            return
        if machine.process is not None:
            machine.process.is_replaced = True
        if number % 3 == 0:
            self._replace(machine, str(machine.backup))
        else:
            self._write_over(machine, in_place=number % 3 == 1)
        self._restored = self._restored | {machine.name}
        self._is_clean = False
        self.oracle.split = True
        self.oracle.replaced_s = self._world.now_s
        self.oracle.waive(machine.path)
        self._world.sleep(0.5)

    def _write_over(self, machine: Machine, *, in_place: bool) -> None:
        assert machine.backup is not None
        self.oracle.broken.add(machine.path)
        self.readers.end(machine)
        for each in sorted(machine.backup.iterdir()):
            target = Path(machine.path) / each.name
            if each.is_file() and target.exists():
                if not in_place:
                    target.unlink()
                with open(target, "r+b" if in_place else "wb") as file:
                    file.write(each.read_bytes())
                    file.truncate()
        if self._machines.disks is not None:
            self._machines.disks.settle(machine.path)

    def _on_reader(self, machine: Machine, other: Machine, number: int) -> None:
        """Begin to read the log of a machine, there or from far away, to the end of the run."""
        if number % 2 or os.path.isdir(machine.path):
            self.readers.begin(machine, self.url(machine) if number % 2 else None)
            self._world.sleep(0.1)

    def _on_lose_part(self, machine: Machine, other: Machine, number: int) -> None:
        """Delete a part of the end of a log from the store: a restore says so, or has a part."""
        if os.path.isdir(self.store):
            parts = sorted(each for each in os.listdir(self.store) if each.endswith(".tail.zst"))
            if number % 2:  # of the last segment, before other ones
                parts = [each for each in parts if each[:10] == parts[-1][:10]]
            if len(parts) > 1:
                os.unlink(os.path.join(self.store, parts[number // 2 % (len(parts) - 1)]))
                self._has_lost = True

    def _restore(self, place: Path, follows: str | None = None) -> int:
        """Restore a log; what succeeds lacks nothing behind a part that was lost. Return its end.

        The store is listed before: its writer may put parts while the log is restored.
        """
        ends = self._ends_of_parts()
        end = restore(self.store, str(place), follows=follows).end_position
        if self._ends_of_parts() and end < max(ends, default=0):
            raise ViolationError(
                "a lost part is noticed",
                f"the store has parts up to {max(ends)}, and a restore ends at {end}",
            )
        return end

    def _ends_of_parts(self) -> list[int]:
        """Return where the parts of the store end, unless a listing or a session hides some."""
        names = os.listdir(self.store)
        if self._objects.faults or sum(each.endswith(".epoch") for each in names) > 1:
            return []  # what an earlier writer stored behind a later one's start does not count
        return [int(each.split("-")[2]) for each in names if each.endswith(".tail.zst")]

    def _on_liar(self, machine: Machine, other: Machine, number: int) -> None:
        """Follow a log, write nothing, and acknowledge what is beyond it."""
        if other is machine:
            return
        url = self.url(machine)
        self._is_clean = False  # from now on a copy is counted that promises nothing

        def lie() -> None:
            primary = Access(None, None, True).primary(url)
            with contextlib.suppress(Exception):  # it is refused
                with primary.connect(1.0) as client:
                    said = primary.describe(client, 1.0)
                    known = primary.join(client, Member(f"{number:032x}", "liar"))
                begun = "liar", primary.lineage_of(said).rank, HEADER, []
                with primary.stream(*begun, members=known.members, member=known.member) as stream:
                    for _ in range(20):
                        stream.next()
                        stream.acknowledge(known.rank, 1 << 40)

        # From an address of its own, which no partition cuts off.
        process = Process(Machine(f"liar{self._world.next_ident()}", "10.0.0.97", self._liars()))
        self._machines.spawn("liar", lie, process).start()
        self._world.sleep(0.5)
        self._machines.kill(process)

    def _liars(self) -> Path:
        return self._machines.folder / f"liar{self._world.next_ident()}"

    def _on_clone(self, machine: Machine, other: Machine, number: int) -> None:
        """Copy a directory to another machine."""
        if other is not machine and os.path.isdir(machine.path):
            self.stop(other)
            self._replace(other, machine.path)

    def _on_wipe(self, machine: Machine, other: Machine, number: int) -> None:
        self.stop(machine)
        self.readers.end(machine)
        shutil.rmtree(machine.path, ignore_errors=True)
        self._is_clean = False
        self.oracle.replaced_s = self._world.now_s
        self.oracle.split = True  # its promises are gone with it

    def _on_from_store(self, machine: Machine, other: Machine, number: int) -> None:
        """Restore a log from the store into the place of a directory."""
        if not self._settings.store or not os.path.isdir(self.store):
            return
        self.stop(machine)
        follows = self.url(other) if number % 2 and other is not machine else None
        place = machine.folder / "restored"
        shutil.rmtree(place, ignore_errors=True)

        def run() -> None:
            end = self._restore(place, follows)
            self.tell(f"{machine.name}: restored from the store up to {end}")
            self.oracle.read(str(place))
            self.oracle.check_sound(str(place))
            if number % 3 == 0:
                self.readers.end(machine)
                shutil.rmtree(machine.path, ignore_errors=True)
                os.rename(place, machine.path)
                self.oracle.broken.discard(machine.path)
                self.oracle.own.add(machine.path)
                # A log of its own, without the copies and promises of the one that was there.
                self.oracle.split = True
                self.oracle.waive(machine.path)
                self._is_clean = False
                self.oracle.replaced_s = self._world.now_s

        self._begin(machine, "restore", run)
        self._world.sleep(2.0)

    def _on_partition(self, machine: Machine, other: Machine, number: int) -> None:
        cut = self._machines.network.cut
        cut.add((machine.host, other.host))
        if number % 3:
            cut.add((other.host, machine.host))
        self._world.sleep(1 + number % 13)
        if number % 2:
            cut.clear()

    def _on_heal(self, machine: Machine, other: Machine, number: int) -> None:
        self._machines.network.cut.clear()
        self._objects.faults.clear()
        if self._machines.disks is not None:
            self._machines.disks.heal()
        for each in self._machines.each:
            self._resume(each.process)

    def _resume(self, process: Process | None) -> None:
        if process is not None and process.paused:
            process.paused = False
            self._paused_s = self._world.now_s
            self._world.resume(process)

    def _on_pause(self, machine: Machine, other: Machine, number: int) -> None:
        process = machine.process
        if process is not None:
            process.paused = True
            self._world.sleep(1 + number % 13)
            if number % 4:
                self._resume(process)

    def _on_clock(self, machine: Machine, other: Machine, number: int) -> None:
        machine.ahead_ns += (number % 2000 - 1000) * 10**9

    def _on_store_fault(self, machine: Machine, other: Machine, number: int) -> None:
        from tests.simulation.objects import FAULTS

        self._objects.faults ^= {FAULTS[number % len(FAULTS)]}
        self._world.sleep(2.0)

    def _on_delete(self, machine: Machine, other: Machine, number: int) -> None:
        held = self._primaries.get(machine.name)
        if held is not None:
            with contextlib.suppress(CommitLogError):
                below = held[0].flushed_position
                self.oracle.deleted_below = max(self.oracle.deleted_below, below)
                held[0].delete_before(below, force_after=0)

    def _on_read(self, machine: Machine, other: Machine, number: int) -> None:
        if os.path.isdir(machine.path):
            with contextlib.suppress(CommitLogError):
                self.oracle.read(machine.path)
            if machine.process is None:
                self.oracle.check_sound(machine.path)

    # --- the end ----------------------------------------------------------------------------------

    def finish(self) -> None:
        """End all faults, and have an operator who makes no mistake go on."""
        self._machines.event = "the end"
        self._finish_store()
        self._promote_one()

    def _finish_store(self) -> None:
        """What a store has is a part of one history."""
        self._objects.faults.clear()
        if self._settings.store and os.path.isdir(self.store):
            place = self._machines.folder / "restored"
            shutil.rmtree(place, ignore_errors=True)
            try:
                self._restore(place)
            except CorruptSegmentError as error:
                if not self._has_lost:
                    raise ViolationError("store is whole", str(error)) from None
                self.tell(f"nothing is restored: {error}")
            except CommitLogError as error:
                self.tell(f"nothing is restored: {error}")
            else:
                self.oracle.read(str(place))
                self.oracle.check_sound(str(place))

    def _promote_one(self) -> None:
        self._on_heal(self._machines.each[0], self._machines.each[0], 0)
        for each in self._machines.each:
            self.stop(each)
            self._on_read(each, each, 0)
        for each in self._machines.each:
            others = [one for one in self._machines.each if one is not each]
            for one in others:
                self.serve(one)
            if self.promote(each, others, force=(), store=False):
                self._catch_up(each, others)
                return
            for one in others:
                self.stop(one)
        if self._is_clean and all(os.path.isdir(each.path) for each in self._machines.each):
            raise ViolationError("progress", "no log is promoted, although nothing is in its way")

    def _catch_up(self, machine: Machine, others: list[Machine]) -> None:
        """All others follow the new primary, and an append is acknowledged."""
        if not self._is_clean or self._world.choices.pick(2):
            return
        for each in others:
            self.stop(each)
        if any(_lacks_deleted(each.path, machine.path) for each in others):
            return  # an operator has to make that copy again
        known = self.oracle.acks
        self.primary(machine)
        for each in others:
            self.follow(each, machine)
        until_s = self._world.now_s + _CAUGHT_UP_S
        end = None
        while self._world.now_s < until_s:
            self._world.sleep(0.5)
            if self.oracle.acks > known and machine.name in self._primaries:
                end = end or self._primaries[machine.name][0].flushed_position
                ends = [self._followers[each.name][0].position for each in others
                        if each.name in self._followers]  # fmt: skip
                if len(ends) == len(others) and all(each >= end for each in ends):
                    return
        raise ViolationError(
            "progress",
            f"{machine.name} was promoted, and within {_CAUGHT_UP_S:.0f} s not all others follow: "
            f"{', '.join(f'{each.name} {each.role}' for each in [machine, *others])}",
        )


def _lacks_deleted(copy: str, path: str) -> bool:
    """Return whether a copy ends before the oldest segment of a log."""
    first = min(int(each.stem) for each in Path(path).glob("*.seg"))
    if first == 0:
        return False
    try:
        with commitlog.open(copy, "r", wait_for_log=0) as log:
            return bool(log.committed_position < first)
    except CommitLogError:
        return False  # it is made anew


def _durable(path: str) -> int:
    """Return up to where a copy knows its primary to have been durable."""
    try:
        with open(os.path.join(path, "followed"), encoding="utf-8") as file:
            return int(json.load(file)["durable"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError):
        return 0


def session_over(log: Any) -> bool:
    """Return whether a log takes no more appends."""
    return bool(log.closed)

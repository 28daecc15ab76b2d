"""World: the logs of the soak, their processes, and the account of every record."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import commitlog
from commitlog.keep import prune, restore
from commitlog.repair.verification import verify
from tests.faults.child import Child
from tests.faults.replication.world import free_port
from tests.soak import programs
from tests.soak.account import Cells, missing
from tests.soak.samples import of_folder, of_process

LIMIT_S = 90.0
KINDS: dict[str, str | None] = {"mapped": None, "pooled": "anonymous", "shm": "shm"}
_NODES = ("a", "b", "c")
# Each thread may get an arena of its own, whose memory the C library keeps: with many of them, the
# private memory rises for minutes.
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}


class World:
    """Three logs of one machine, and one with two copies.

    Parameters
    ----------
    folder : Path
        An empty directory on a disk.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kills = self.promotions = 0
        self._sessions = itertools.count()
        self._running: dict[str, Child] = {}
        self._ports = {name: free_port() for name in _NODES}
        self._primary = "a"
        self._numbers = random.Random(36)
        self._shm_names: set[str] = set()  # that the log with buffers there has used
        for kind in KINDS:
            (folder / kind).mkdir()
            self._write(kind)
            self._read(kind)
        self._begin_beside()
        (folder / "pair").mkdir()
        self._lead()
        self._follow()
        self._read_pair()

    # --- processes --------------------------------------------------------------------------------

    def _start(self, name: str, target: Callable[..., None], *arguments: Any) -> None:
        child = Child(target, *map(_plain, arguments), environment=_ENVIRONMENT)
        self._running[name] = child
        child.hear(1, LIMIT_S)

    def _kill(self, name: str) -> None:
        child = self._running.pop(name)
        child.kill()
        child.end()
        self.kills += 1

    def _path(self, kind: str) -> Path:
        return self.folder / kind / "log"

    def _cells(self, kind: str, which: str) -> Path:
        return self.folder / kind / which

    def _write(self, kind: str) -> None:
        store = self.folder / kind / "store" if kind == "mapped" else None
        self._start(
            f"{kind} writer", programs.write, self._path(kind),
            next(self._sessions), KINDS[kind], store,
        )  # fmt: skip

    def _read(self, kind: str) -> None:
        seen = self._cells(kind, "seen")
        self._start(f"{kind} reader", programs.read, self._path(kind), seen)

    def _begin_beside(self) -> None:
        self._start(
            "beside", programs.write_beside, self._path("mapped"),
            next(self._sessions),
        )  # fmt: skip

    # --- the log with copies ----------------------------------------------------------------------

    @property
    def _copies(self) -> list[str]:
        return [name for name in _NODES if name != self._primary]

    def _node(self, name: str) -> Path:
        return self.folder / "pair" / name

    def _url(self, name: str) -> str:
        return f"tcp://127.0.0.1:{self._ports[name]}/{name}"

    def _listen(self, name: str) -> str:
        return f"127.0.0.1:{self._ports[name]}"

    def _lead(self) -> None:
        self._start(
            "primary", programs.lead, self._node(self._primary),
            next(self._sessions),
            self._listen(self._primary), self.folder / "pair" / "store",
        )  # fmt: skip

    def _follow(self) -> None:
        for number, name in enumerate(self._copies):
            self._start(
                f"copy {number}", programs.follow, self._url(self._primary), self._node(name),
                name, self._listen(name),
            )  # fmt: skip

    def _read_pair(self) -> None:
        self._start(
            "pair reader", programs.read_replicated, self._node(self._primary),
            self._cells("pair", "seen"), self._cells("pair", "place"),
        )  # fmt: skip

    def promote(self) -> None:
        """Kill the primary, promote one of its copies, and have the old primary follow."""
        chosen = self._numbers.randrange(2)  # in turn, one of the three logs would never lead
        one, other = self._copies[chosen], self._copies[1 - chosen]
        for name in ("primary", "pair reader", f"copy {chosen}"):
            self._kill(name)
        others = [self._url(self._primary), self._url(other)]
        store = self.folder / "pair" / "store"
        child = Child(programs.promote, str(self._node(one)), others, str(store))
        child.join()
        child.end()
        self._kill(f"copy {1 - chosen}")
        self._primary = one
        self.promotions += 1
        self._lead()
        self._follow()
        self._read_pair()

    def prune_copies(self) -> None:
        """Delete what the copies need not keep, while they follow: no retention acts on a copy."""
        for name in self._copies:
            prune(self._node(name), programs.PAIR_RULE)

    # --- faults -----------------------------------------------------------------------------------

    def kill_beside(self) -> None:
        """Kill a writer of a log that another process writes, too."""
        self._kill("beside")
        self._begin_beside()

    def kill_shm(self) -> None:
        """Kill the only writer of a log with buffers in shared memory."""
        self._kill("shm writer")
        self._write("shm")

    def kill_readers(self) -> None:
        for kind in KINDS:
            self._kill(f"{kind} reader")
            self._read(kind)

    def check_alive(self) -> None:
        """Fail if a process has ended."""
        for name, child in self._running.items():
            assert child.alive(), f"the {name} has ended with status {child.status}"
            child.hear_some()

    # --- figures ----------------------------------------------------------------------------------

    def figures(self) -> dict[str, float]:
        """Return a sample of every figure."""
        self.check_alive()
        found: dict[str, float] = {}
        for name, child in self._running.items():
            found |= {f"{name} {key}": value for key, value in of_process(child.pid).items()}
        found |= {f"soak {key}": value for key, value in of_process(os.getpid()).items()}
        found["shm_entries"] = self._shm_entries()
        for kind in (*KINDS, "pair"):
            found[f"{kind} disk_bytes"] = of_folder(self.folder / kind)
            store = self.folder / kind / "store"
            if store.exists():
                # A store keeps the last 1,000 sessions, of which each open of the log is one.
                names = [name for name in os.listdir(store) if not name.endswith(".epoch")]
                found[f"{kind} store_objects"] = len(names)
        return found

    def _shm_entries(self) -> int:
        """Return how many of the log's buffers there are: other programs have entries, too."""
        holder = json.loads((self._path("shm") / "lock").read_bytes().rstrip(b"\0"))
        self._shm_names.update(holder["pool_names"], holder["lent_names"])
        return len(self._shm_names.intersection(os.listdir("/dev/shm")))

    # --- the end ----------------------------------------------------------------------------------

    def end(self) -> dict[str, int]:
        """End all appends, let the readers read the rest, and return how many records of each log
        are there; fail if one is missing.
        """
        self._kill("beside")
        for kind in (*KINDS, "pair"):
            (self.folder / kind / "stop").touch()
        for name in [*(f"{kind} writer" for kind in KINDS), "primary"]:
            self._join(name)
        for kind in (*KINDS, "pair"):
            (self.folder / kind / "drained").touch()
        for kind in (*KINDS, "pair"):
            self._join(f"{kind} reader")
        for number in range(len(self._copies)):
            self._kill(f"copy {number}")
        for kind in KINDS:
            _check_sound(self._path(kind))
        for name in _NODES:
            _check_sound(self._node(name))
        self._check_store(self._path("mapped"), self.folder / "mapped" / "store")
        self._check_store(self._node(self._primary), self.folder / "pair" / "store")
        return {kind: self._account(kind) for kind in (*KINDS, "pair")}

    def _join(self, name: str) -> None:
        child = self._running.pop(name)
        child.join()
        child.end()

    def _account(self, kind: str) -> int:
        acknowledged, seen = (
            Cells(self._cells(kind, "acknowledged")),
            Cells(self._cells(kind, "seen")),
        )
        lost = missing(acknowledged, seen)
        assert lost == 0, f"{lost} acknowledged records of {kind} were never read"
        return seen.total()

    def _check_store(self, path: Path, store: Path) -> None:
        """Check that a restored log has the records of the log that was stored."""
        target = self.folder / "restored"
        restore(store, target)
        mine, theirs = _records(path), _records(target)
        first = max(min(mine), min(theirs))
        assert {at: value for at, value in mine.items() if at >= first} == {
            at: value for at, value in theirs.items() if at >= first
        }, f"what {store} has is not what {path} has"
        shutil.rmtree(target)

    def close(self) -> None:
        """Kill what still runs."""
        for child in self._running.values():
            child.end()


def _plain(argument: Any) -> Any:
    return str(argument) if isinstance(argument, Path) else argument


def _check_sound(path: Path) -> None:
    found = verify(path)
    assert found.sound, found


def _records(path: Path) -> dict[int, bytes]:
    with commitlog.open(path, "r") as log, log.tailer() as tailer:
        return {record.position: bytes(record.value) for record in iter(tailer.read, None)}

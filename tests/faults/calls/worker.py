"""Worker: a process under the preloaded libraries that runs cases, each in a fork of its own."""

from __future__ import annotations

import faulthandler
import json
import os
import random
import shutil
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import commitlog
from commitlog import Store
from commitlog.keep import restore
from commitlog.repair.verification import verify
from tests.faults import image
from tests.faults.calls.acts import ACTS
from tests.faults.calls.causes import name_of
from tests.faults.calls.preload import KINDS, Fault, Preload
from tests.faults.calls.scene import QUIET, Scene, number_of, value_of
from tests.faults.child import Link
from tests.faults.shadow import Shadow
from tests.faults.writers import open_log

LIMIT_S = 40.0  # of a case: longer than all waits that its program asks for
_BY_HAND = 10_000_000  # numbers above are of the check


class Case(NamedTuple):
    """An act and the call that fails in it."""

    act: str
    fault: Fault

    @property
    def name(self) -> str:
        kind, nth, cause, forever = self.fault
        return f"{self.act}: {kind} {nth} {name_of(cause)} {'forever' if forever else 'once'}"


class Worker:
    """Runs cases, one after the other, below a folder.

    Parameters
    ----------
    folder : Path
        On a tmpfs, because thousands of files are synced.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._preload = Preload(folder / "state")
        self._cases = 0

    def run(self, case: Case) -> dict[str, Any]:
        """Run a case; return whether the call was met, what its calls raised, and what
        broke.
        """
        began_s = time.monotonic()
        place = self._next_place()
        self._preload.set_fault(case.fault)
        said = place / "said"
        status = self._fork(lambda: self._act(case.act, place), said)
        self._preload.disarm()
        self._preload.set_fault(None)
        result = _read(said)
        result["met"] = self._preload.met > 0 if result.get("met") is None else result["met"]
        broken = result.setdefault("broken", [])
        if status != 0:
            broken.append(f"the program ended with status {status}: {result.get('stack', '')}")
        else:
            checked = place / "checked"
            if self._fork(lambda: self._check(result, place), checked) != 0:
                broken.append("the check did not end")
            broken += _read(checked).get("broken", ["the check said nothing"])
        if not broken:
            shutil.rmtree(place)
        return {
            "case": case.name,
            "met": result["met"],
            "broken": broken,
            "raised": result.get("raised", []),
            "folder": str(place),
            "seconds": round(time.monotonic() - began_s, 3),
        }

    def trace(self, act: str) -> list[tuple[str, str]]:
        """Return the calls of an act that no fault disturbs: kind and path."""
        place = self._next_place()
        calls = place.with_suffix(".calls")
        calls.touch()
        said = place / "said"
        self._preload.set_fault(None)
        self._preload.trace_to(calls)
        status = self._fork(lambda: self._act(act, place), said)
        self._preload.trace_to(None)
        self._preload.disarm()
        result = _read(said)
        assert status == 0, (act, status, result)
        assert not result["broken"], (act, result)
        assert not result["raised"], (act, result)
        lines = [line.split(" ", 1) for line in calls.read_text().splitlines()]
        shutil.rmtree(place)
        return [(KINDS[int(kind)], path.replace(str(place), "")) for kind, path in lines]

    def _next_place(self) -> Path:
        self._cases += 1
        place = self._folder / str(self._cases)
        (place / "shadow").mkdir(parents=True)
        return place

    def _fork(self, do: Callable[[], dict[str, Any]], said: Path) -> int:
        """Run in a fork, which writes what it returns; return its status, -9 if it hangs."""
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with said.with_suffix(".stack").open("w") as stack:
                    faulthandler.enable(stack)
                    faulthandler.dump_traceback_later(LIMIT_S - 2, file=stack)
                    said.write_text(json.dumps(do()))
                status = 0
            except BaseException:  # noqa: BLE001 - the worker reports it
                said.write_text(json.dumps({"stack": traceback.format_exc()[-3000:]}))
            finally:
                os._exit(status)
        deadline = time.monotonic() + LIMIT_S
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                _, status = os.waitpid(pid, 0)
                break
            time.sleep(0.001)
        stack = said.with_suffix(".stack")
        if status and not said.exists() and stack.exists():
            said.write_text(json.dumps({"stack": stack.read_text()[-3000:]}))
        return os.waitstatus_to_exitcode(status)

    def _act(self, act: str, place: Path) -> dict[str, Any]:
        self._preload.keep_shadow(place / "shadow")
        _shorten_waits()
        scene = Scene(place / "case", self._preload)
        scene.folder.mkdir()
        before, do = ACTS[act]
        before(scene)
        do(scene)
        return {
            "kept": list(scene.kept.items()),
            "durable": list(scene.durable.items()),
            "disowned_below": scene.disowned_below,
            "broken": scene.broken,
            "raised": scene.raised,
            "met": self._preload.met > 0,
        }

    # --- the check --------------------------------------------------------------------------------

    def _check(self, said: dict[str, Any], place: Path) -> dict[str, Any]:
        """Check what a power cut leaves, and what the next open does without faults."""
        del os.environ["COMMITLOG_CALLS_STATE"]
        broken: list[str] = []
        path = place / "case" / "log"
        disowned = said["disowned_below"]
        kept = {at: number for at, number in said["kept"] if at >= disowned}
        durable = {at: number for at, number in said["durable"] if at >= disowned}
        for name, check in (
            ("after a power cut", lambda: self._check_cut(path, place, durable)),
            ("after the next open", lambda: _check_next(path, kept)),
            ("in the store", lambda: _check_store(place / "case", kept)),
        ):
            try:
                check()
            except Exception:  # noqa: BLE001 - each of them breaks the promise
                broken.append(f"{name}: {traceback.format_exc()[-2000:]}")
        return {"broken": broken}

    def _check_cut(self, path: Path, place: Path, durable: dict[int, int]) -> None:
        if not durable:
            return
        cut = place / "cut"
        Shadow(place / "shadow").cut_power(path, cut, random.Random(0), 0.0)
        _check_lost(cut, durable)


def _check_next(path: Path, kept: dict[int, int]) -> None:
    log, _ = open_log(str(path), None, QUIET)
    log.append(value_of(_BY_HAND), sync=True)
    log.close()
    _check_lost(path, kept)
    found = verify(path)
    assert found.sound, found
    assert not image.temporaries(path), image.temporaries(path)


def _check_store(folder: Path, kept: dict[int, int]) -> None:
    """Store what the log has, and restore that."""
    store, path, target = folder / "store", folder / "log", folder / "restored again"
    if not store.exists():
        return
    log, _ = open_log(str(path), None, QUIET | {"store": Store(store, every=0.01)})
    log.append(value_of(_BY_HAND + 1), sync=True)
    log.close()
    restore(store, target)
    assert _records(target) == _records(path)


def _records(path: Path) -> dict[int, int]:
    with commitlog.open(path, "r") as log, log.tailer() as tailer:
        records = [(record.position, number_of(record.value)) for record in iter(tailer.read, None)]
    numbers = [number for _, number in records]
    assert len(set(numbers)) == len(numbers), "a record is there twice"
    return dict(records)


def _check_lost(path: Path, acknowledged: dict[int, int]) -> None:
    found = _records(path)
    lost = acknowledged.items() - found.items()
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged records are lost: {lost}"


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _shorten_waits() -> None:
    from commitlog.log import writer_services

    writer_services._JOIN_S = 1.0


def serve(link: Link, directory: str) -> None:
    """Run each case that the parent writes to `wanted`, and write its result to `outcome`."""
    folder = Path(directory)
    worker = Worker(folder)
    while True:
        link.wait()
        act, fault = json.loads((folder / "wanted").read_text())
        result: Any = worker.trace(act) if fault is None else worker.run(Case(act, Fault(*fault)))
        (folder / "outcome").write_text(json.dumps(result))
        link.say("D")

"""Mutants: faults that are put back into the real code, and how many seeds find each.

A mutant replaces a text of a module when it is imported, so it needs a process of its own.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from tests.figures import written


@dataclass(frozen=True)
class Mutant:
    """A text of a module, and what stands there instead.

    `guards`: others, of the same form, that hold the same promise. `number`: of the fault that was
    once found and mended.
    """

    name: str
    module: str
    old: str
    new: str
    guards: tuple[tuple[str, str, str], ...] = ()
    number: int = 0

    def edits(self) -> dict[str, list[tuple[str, str]]]:
        """Return the texts to replace, by module."""
        found: dict[str, list[tuple[str, str]]] = {}
        for module, old, new in ((self.module, self.old, self.new), *self.guards):
            found.setdefault(module, []).append((old, new))
        return found


_R = "commitlog.network.replication"
_S = "commitlog.stores"
_DIGESTS = (f"{_R}.following", "        if position is None:", "        if True:")
_OLDER = (f"{_R}.following", "            if start is None:", "            if True:")
_ENDS = (
    f"{_R}.following",
    "        if copy.end > copy.identity.past_header(end):",
    "        if False:",
)
_RESTORED = (
    "commitlog.recovery.admission",
    "    if elsewhere is not None and found.is_replicated:",
    "    if False:",
)
_NOTED = (
    "commitlog.recovery.admission",
    "        if known.follows is None:\n            epochs.write",
    "        if False:\n            epochs.write",
)
_FOREIGN = (
    f"{_S}.store_service",
    "        if how is Standing.FOREIGN:\n            raise foreign(target, newest.number)\n",
    "",
)
_CLAIMED = (
    f"{_S}.store_session",
    "        if found is None or found.id != self.id:",
    "        if found is None:",
)
_FITS = (
    f"{_S}.tail_object",
    "return part.first < at or part.digests is None or reached in (-1, part.digests[0])",
    "return True",
)
_FENCED_PARTS = (
    f"{_S}.contents",
    "        stop = min([part.stop, *starts])",
    "        stop = part.stop",
)
MUTANTS = [
    # --- faults that were found by hand once, without the guards that came in since
    Mutant("restored log diverges in silence", *_DIGESTS, (_RESTORED, _NOTED, _OLDER, _ENDS),
           number=1),
    Mutant("two writers of a copied log share a store", f"{_S}.store_session",
           "        if read_session(target, self.number + 1) is not None:", "        if False:",
           (_CLAIMED, _FOREIGN, _FITS, _FENCED_PARTS), number=3),
    Mutant("reader takes its end from a checkpoint below the log", "commitlog.recovery.log_end",
           "    known = known_durable(directory, numbers, checkpoint)\n    start",
           "    known = 0 if checkpoint is None else checkpoint.position\n    start",
           (("commitlog.segment.mapped_file_queue",
             "        self.core.settle_checkpoint((number + 1) * self.core.segment_size)\n", ""),),
           number=6),
    Mutant("part of a backlog ends inside a record", f"{_S}.stored_tail",
           "        return min(base + offset, limit)", "        return min(base + goal + 8, limit)",
           ((f"{_S}.storing", "PART_MOST = 8 << 20", "PART_MOST = 8 << 10"),), number=17),
    Mutant("promise is given to a second promotion", f"{_R}.promise",
           "        if self.before is not None and known.promised[:2] not in promises:",
           "        if False:",
           ((f"{_R}.promise", "            return known.withdrawing(self.rank)",
             "            return known"),), number=31),
    # --- disks
    Mutant("copy acknowledges before its flush", "commitlog.log.copy_writer",
           "                self._writable().flush(self._durable - base, self._offset)\n",
           "                self._writable()\n"),
    Mutant("small file is renamed before its flush", "commitlog.segment.checked_json",
           "        os.fsync(fd)\n", ""),
    Mutant("name of a small file is not flushed", "commitlog.segment.checked_json",
           "    directory.sync()\n", ""),
    Mutant("new segment is renamed before its flush", "commitlog.segment.new_file",
           '        os.fsync(fd)\n        failpoint("synced")', '        failpoint("synced")'),
    Mutant("copy goes on after a flush that failed", "commitlog.log.copy_writer",
           "        if self._failure is not None:\n            raise self._failure",
           "        if False:\n            raise self._failure"),
    # --- meeting and following
    Mutant("meeting compares no digests", *_DIGESTS),
    Mutant("meeting compares no ends", *_ENDS),
    Mutant("copy is not cut at a fork", f"{_R}.following",
           "        if parted is not None and copy.end > parted:", "        if False:"),
    Mutant("reader goes on in a log that was cut", "commitlog.log.copy_writer",
           '        self._cursors["cut"] = position + 1', "        pass",
           (("commitlog.recovery.cut",
             "    if suffix != FORK or not cut.dirty:", "    if True:"),)),
    Mutant("copy is cut to an older primary", *_OLDER),
    Mutant("copy follows below its promise", f"{_R}.following",
           "        if promised <= theirs.rank:", "        if True:"),
    Mutant("restored copy is followed again", f"{_R}.replica",
           "            if not restored:", "            if False:"),
    Mutant("copy takes records after its promise", f"{_R}.follower",
           "                if replica.is_fenced:", "                if False:"),
    Mutant("promise is not written", f"{_R}.replica",
           "                self._write(new)\n"
           '                failpoint("fence written")', "                self.lineage = new"),
    Mutant("copy whose files were replaced counts", "commitlog.log.written_end",
           "            return False\n        return self._has(self._before)",
           "            return True\n        return self._has(self._before)"),
    Mutant("follower acknowledges what it was sent next", f"{_R}.follower",
           "                stream.acknowledge(rank, position)\n            with",
           "                stream.acknowledge(rank, position + len(chunk.frames))\n"
           "            with"),
    Mutant("follower acknowledges before it writes", f"{_R}.follower",
           "                before = replica.position\n                replica.write(chunk)",
           "                before = replica.position\n"
           "                if chunk.frames:\n"
           "                    stream.acknowledge(rank, before + len(chunk.frames))\n"
           "                replica.write(chunk)"),
    Mutant("clone of a log is counted", f"{_R}.served",
           "        if new.id == known.member:", "        if False:"),
    Mutant("copy is not counted before it acknowledges", f"{_R}.served",
           "            self.view.epochs.change(lambda known: known.joined(new))",
           "            pass"),
    Mutant("overwritten log is served on", f"{_R}.served",
           "        if found == (offset + size, digest):", "        if True:"),
    Mutant("replaced log is served on", f"{_R}.served",
           "        if self.view.is_at(self._path):\n            return True\n        with",
           "        return True\n        with"),
    # --- acknowledgements
    Mutant("acknowledgement beyond what was sent counts", f"{_R}.quota",
           "event.position % FRAME_ALIGN or event.position > event.sent", "False", number=12),
    Mutant("acknowledgements of an earlier epoch count", f"{_R}.quota",
           "            self._positions.clear()", "            pass"),
    Mutant("acknowledgement below the epoch's start counts", f"{_R}.quota",
           "event.position if event.position >= event.current.start else 0", "event.position"),
    Mutant("acknowledgement of an earlier rank counts", f"{_R}.quota",
           "        if event.rank < current:", "        if False:"),
    Mutant("one copy too few acknowledges", f"{_R}.quota",
           "return positions[copies - 1] if len(positions) >= copies else 0",
           "return positions[max(copies - 2, 0)] if len(positions) >= max(copies - 1, 1) else 0"),
    Mutant("smallest position of the copies is taken as largest", f"{_R}.quota",
           "return positions[copies - 1] if len(positions) >= copies else 0",
           "return positions[0] if positions else 0"),
    Mutant("fence does not fail the primary", f"{_R}.required_copies",
           "        self._log.fail_replaced()\n        self._later_epoch",
           "        self._later_epoch"),
    Mutant("later epoch of a copy is ignored", f"{_R}.quota",
           "        self._fence = rank\n        return Fenced(rank)", "        return None"),
    Mutant("append waits for no copies", f"{_R}.required_copies",
           "            if position >= end:", "            if True:"),
    # --- promotion
    Mutant("promotion needs one promise less", f"{_R}.candidate",
           "        if promise >= rule.needed:", "        if promise >= rule.needed - 1:"),
    Mutant("promotion counts the named logs alone", f"{_R}.candidate",
           "        copies = known if self._are_all_known() else max(named, known)",
           "        copies = named", number=2),
    Mutant("promotion ignores longer copies", f"{_R}.candidate",
           "other > own and not (can_catch_up and self._has_rest(url))", "False"),
    Mutant("promotion does not catch up", f"{_R}.candidate",
           "return ends[most] if most > own.position else \"\"", 'return ""'),
    Mutant("promotion ignores what copies knew as durable", f"{_R}.candidate",
           'or behind or self._lost(),', "or behind,"),
    Mutant("restored log is promoted", f"{_R}.candidate",
           '"restored": self._own.restored,', '"restored": "",'),
    Mutant("promise of a restored log counts", f"{_R}.candidate",
           "needed + bool(self._own.restored)", "needed"),
    Mutant("promise to another promotion counts", f"{_R}.candidate",
           "                if promised != self._rank:", "                if False:"),
    Mutant("promotion takes a known epoch", "commitlog.recovery.epoch",
           "        number = max(rank.number for rank in known) + 1",
           "        number = max(max(rank.number for rank in known), 1)"),
    Mutant("other copies are not told of the epoch", f"{_R}.promotion",
           '        failpoint("epoch written")\n        self._tell(action.asked)',
           '        failpoint("epoch written")'),
    Mutant("promotion asks for no promise", f"{_R}.candidate",
           "        self._has_asked = True\n        return Ask(self._told(\"asked\"))",
           "        return self._decide(can_catch_up=True)"),
    Mutant("promotion does not compare with the store", f"{_R}.candidate",
           '"store": self._own.behind_store,', '"store": "",'),
    Mutant("promotion does not claim the store", f"{_R}.promotion",
           "            found.claim(new.number, new.start, new.rank.id)", "            pass"),
    # --- recovery and admission
    Mutant("restored primary is opened", "commitlog.recovery.admission",
           "    if elsewhere is not None and found.is_replicated:", "    if False:"),
    Mutant("promised primary is opened", "commitlog.recovery.admission",
           "    if found.promised > found.rank:", "    if False:"),
    Mutant("copy is opened for writing", "commitlog.recovery.admission",
           "    if found.follows is not None:", "    if False:"),
    Mutant("recovery is not noted", "commitlog.recovery.admission",
           "        if known.follows is None:\n            epochs.write",
           "        if False:\n            epochs.write"),
    # --- stores
    Mutant("foreign session is continued", f"{_S}.store_service",
           "        if how is Standing.FOREIGN:\n"
           "            raise foreign(target, newest.number)\n", ""),
    Mutant("later session is ignored", f"{_S}.store_session",
           "        if read_session(target, self.number + 1) is not None:", "        if False:"),
    Mutant("lower epoch stores on", f"{_S}.storing",
           "    if newest.epoch > promotion.epoch:", "    if False:"),
    Mutant("claim of another writer is taken", f"{_S}.store_session",
           "        if found is None or found.id != self.id:", "        if found is None:"),
    Mutant("store is not compared with the log", f"{_S}.store_comparison",
           "        if end > common or beyond > self._durable:", "        if False:"),
    Mutant("missing part is not noticed", f"{_S}.contents",
           "            stops[number] = max(each.stop for each in objects[number])",
           "            stops[number] = max(end, number * size)", number=4),
    Mutant("predecessor of a part is unchecked", f"{_S}.tail_object",
           "return part.first < at or part.digests is None or reached in (-1, part.digests[0])",
           "return True"),
    Mutant("parts of a fenced session count", f"{_S}.contents",
           "        stop = min([part.stop, *starts])", "        stop = part.stop"),
    Mutant("seal is kept in a part", f"{_S}.tail_object",
           "content if first % segment_size else SegmentHeader.without_seal(content)", "content",
           number=5),
    Mutant("part that is there is not read", f"{_S}.stored_tail",
           "        if not placed and not self.has(part):", "        if False:"),
    Mutant("segment counts as kept one too early", f"{_S}.storing",
           "        return self.next * self.segment_size\n",
           "        return (self.next + 1) * self.segment_size\n"),
    Mutant("store does not hold segments", f"{_S}.store_service",
           "        return None if self.stored() is None else self.kept_position",
           "        return None",
           (("commitlog.retention.holds",
             "    if known is None:\n        return None if stored", ("    if True:\n"
             "        return None if stored")),), number=18),
    Mutant("gap is not recorded", f"{_S}.store_service",
           "            gap.put(archiver.target)\n", ""),
    Mutant("segment of a fenced writer is kept", f"{_S}.store_comparison",
           "        self._cut(self._late(how, newest))\n", ""),
]  # fmt: skip


def put_back(name: str) -> None:
    """Have a mutant's module compiled with its text; before that module is imported."""
    edits = next(each for each in MUTANTS if each.name == name).edits()
    assert not edits.keys() & sys.modules.keys(), f"{list(edits)}: imported already"
    real = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: Any, fullname: str) -> CodeType | None:
        if fullname not in edits:
            return real(loader, fullname)
        source = loader.get_source(fullname)
        for old, new in edits[fullname]:
            assert source.count(old) == 1, f"{name}: a text is not in {fullname}"
            source = source.replace(old, new)
        return compile(source, loader.path, "exec")

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def source_of(module: str) -> str:
    """Return the text of a module, which is not imported."""
    found = importlib.util.find_spec(module)
    assert found is not None
    assert found.origin is not None
    with open(found.origin, encoding="utf-8") as file:
        return file.read()


def _row(line: str, tried: int, most: int) -> dict[str, Any]:
    """Return how many seeds were needed, and which rule was violated."""
    if line.startswith("not within"):
        return {"seeds": None, "not_within": tried + most}
    count, *rest = (each.strip() for each in line.split(" | "))
    if not count.isdigit() or len(rest) != 2:
        return {"seeds": None, "not_within": tried, "failed": line}
    return {"seeds": tried + int(count), "seed": int(rest[0]), "rule": rest[1]}


def _known(path: Path | None) -> dict[str, dict[str, Any]]:
    """Return the rows of an earlier call, which go on where that ended."""
    if path is None or not path.exists():
        return {}
    return {row["fault"]: row for row in json.loads(path.read_text())["faults"]}


def report(parsed: argparse.Namespace) -> int:
    """Count the seeds that each mutant needs, and print a table. With a file of figures, those that
    were not found yet are tried with `--seeds` more.
    """
    if parsed.mutant == "list":
        print("\n".join(each.name for each in MUTANTS))
        return 0
    known = _known(parsed.json)
    for mutant in MUTANTS:
        row = known.get(mutant.name, {})
        if row.get("seeds") is not None:
            continue
        tried = row.get("not_within", 0)
        command = [sys.executable, "-m", "tests.simulation", "--mutant", mutant.name]
        command += ["--seeds", str(parsed.seeds), "--first", str(parsed.first + tried)]
        command += ["--workers", str(parsed.workers), "--until-found"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
        last = done.stdout.strip().splitlines()[-1:] or [done.stderr[-300:]]
        numbered = {"number": mutant.number} if mutant.number else {}
        found = _row(last[0], tried, parsed.seeds)
        known[mutant.name] = {"fault": mutant.name, **numbered, **found}
        print(f"| {mutant.name} | {last[0]} |", flush=True)
        if parsed.json is not None:
            _keep(parsed.json, list(known.values()))
    return 0


def _keep(path: Path, rows: list[dict[str, Any]]) -> None:
    found = [row["seeds"] for row in rows if row["seeds"] is not None]
    figures = {"tried": len(rows), "found": len(found), "most_seeds": max(found, default=0)}
    written(path, "faults put into the simulation", {**figures, "faults": rows})

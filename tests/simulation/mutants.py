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
from types import CodeType
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """A text of a module, and what stands there instead."""

    name: str
    module: str
    old: str
    new: str


_R = "commitlog.network.replication"
_S = "commitlog.stores"
MUTANTS = [
    # --- meeting and following
    Mutant("meeting compares no digests", f"{_R}.meeting",
           "    if position is not None:\n        raise FencedError(",
           "    if False:\n        raise FencedError("),
    Mutant("meeting compares no ends", f"{_R}.meeting",
           "    if replica.position > replica.log.identity.past_header(end):", "    if False:"),
    Mutant("copy is not cut at a fork", f"{_R}.meeting",
           "    if parted is not None and replica.position > parted:", "    if False:"),
    Mutant("copy is cut to an older primary", f"{_R}.meeting",
           "        _refuse_older(url, theirs, replica)\n", ""),
    Mutant("copy follows below its promise", f"{_R}.meeting",
           "    if promised > theirs.rank:", "    if False:"),
    Mutant("restored copy is followed again", f"{_R}.replica",
           "            if not restored:", "            if False:"),
    Mutant("copy takes chunks after its promise", f"{_R}.follower",
           "                if replica.is_fenced:", "                if False:"),
    Mutant("promise is not written", f"{_R}.replica",
           "                self._write(new)\n"
           '                failpoint("fence written")', "                self.lineage = new"),
    Mutant("copy whose files were replaced counts", "commitlog.log.witness",
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
           "event.position % FRAME_ALIGN or event.position > event.sent", "False"),
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
           "        self._fence = rank\n        self._awaited.clear()\n"
           "        return [Fenced(rank)]",
           "        return []"),
    Mutant("append waits for no copies", f"{_R}.required_copies",
           "            if position >= end:", "            if True:"),
    # --- promotion
    Mutant("promotion needs one promise less", f"{_R}.candidate",
           "        if promise >= rule.needed:", "        if promise >= rule.needed - 1:"),
    Mutant("promotion counts the named logs alone", f"{_R}.candidate",
           "        copies = known if self._are_all_known() else max(named, known)",
           "        copies = named"),
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
    Mutant("predecessor of a part is unchecked", f"{_S}.tail_object",
           "return part.first < at or part.digests is None or reached in (-1, part.digests[0])",
           "return True"),
    Mutant("parts of a fenced session count", f"{_S}.contents",
           "        stop = min([part.stop, *starts])", "        stop = part.stop"),
    Mutant("seal is kept in a part", f"{_S}.tail_object",
           "content if first % segment_size else SegmentHeader.without_seal(content)", "content"),
    Mutant("part that is there is not read", f"{_S}.stored_tail",
           "        if not placed and not self.has(part):", "        if False:"),
    Mutant("segment counts as kept one too early", f"{_S}.storing",
           "        return self.next * self.segment_size\n",
           "        return (self.next + 1) * self.segment_size\n"),
    Mutant("store does not hold segments", f"{_S}.store_service",
           "        return None if self.stored() is None else self.kept_position",
           "        return None"),
    Mutant("gap is not recorded", f"{_S}.store_service",
           "            gap.put(archiver.target)\n", ""),
    Mutant("segment of a fenced writer is kept", f"{_S}.store_comparison",
           "        self._cut(self._late(how, newest))\n", ""),
]  # fmt: skip


def put_back(name: str) -> None:
    """Have a mutant's module compiled with its text; before that module is imported."""
    mutant = next(each for each in MUTANTS if each.name == name)
    assert mutant.module not in sys.modules, f"{mutant.module} is imported already"
    real = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: Any, fullname: str) -> CodeType | None:
        if fullname != mutant.module:
            return real(loader, fullname)
        source = loader.get_source(fullname)
        assert source.count(mutant.old) == 1, f"{mutant.name}: its text is not in {fullname}"
        return compile(source.replace(mutant.old, mutant.new), loader.path, "exec")

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def source_of(module: str) -> str:
    """Return the text of a module, which is not imported."""
    found = importlib.util.find_spec(module)
    assert found is not None
    assert found.origin is not None
    with open(found.origin, encoding="utf-8") as file:
        return file.read()


def _row(line: str, most: int) -> dict[str, Any]:
    """Return a row of the table: how many seeds were needed, and which rule was violated."""
    if line.startswith("not within"):
        return {"seeds": None, "not_within": most}
    count, *rest = (each.strip() for each in line.split(" | "))
    if not count.isdigit() or len(rest) != 2:
        return {"seeds": None, "failed": line}
    return {"seeds": int(count), "seed": int(rest[0]), "rule": rest[1]}


def report(parsed: argparse.Namespace) -> int:
    """Count the seeds that each mutant needs, at most `--seeds`, and print a table."""
    if parsed.mutant == "list":
        print("\n".join(each.name for each in MUTANTS))
        return 0
    found: dict[str, Any] = {}  # by mutant
    for mutant in MUTANTS:
        command = [sys.executable, "-m", "tests.simulation", "--mutant", mutant.name]
        command += ["--seeds", str(parsed.seeds), "--first", str(parsed.first)]
        command += ["--workers", str(parsed.workers), "--until-found"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
        last = done.stdout.strip().splitlines()[-1:] or [done.stderr[-300:]]
        found[mutant.name] = _row(last[0], parsed.seeds)
        print(f"| {mutant.name} | {last[0]} |", flush=True)
        if parsed.json is not None:
            parsed.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0

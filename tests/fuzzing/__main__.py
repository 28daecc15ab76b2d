"""Fuzz all readers of bytes that others wrote, guided by coverage:
``python -m tests.fuzzing --seconds N [--only TARGET] [--json FILE] [--keep]``.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.figures import written
from tests.fuzzing import corpora, kernel

READERS = "readers"
INPUT_LIMIT_S = 20
_STARTING_S = 300  # to instrument the package and make the logs
_LINE = re.compile(r"^#(\d+)\s+\S+\s+cov: (\d+)", re.MULTILINE)
_ENDED = re.compile(r"^#(\d+)\s+DONE", re.MULTILINE)
_RUNS = re.compile(r"stat::number_of_executed_units: (\d+)")
_FAULT = re.compile(r"^(?:\w+(?:\.\w+)*(?:Error|Exception)\b.*|==\d+== ?ERROR.*)$", re.MULTILINE)


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for all targets [default: 60]")
    parser.add_argument("--only", action="append", metavar="TARGET", help="one or more targets")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--keep", action="store_true", help="keep small corpora in the repository")
    parser.add_argument("--list", action="store_true", help="list the targets")
    parser.add_argument(
        "--corpora", type=Path, help="a folder with corpora that a run goes on with"
    )
    return parser.parse_args(arguments)


def _ended(command: list[Any], limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run a command; one that does not end within the limit has failed, and says so."""
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        try:
            code = subprocess.run(
                command, cwd=kernel.ROOT, stdout=said, stderr=said, check=False, timeout=limit_s
            ).returncode
        except subprocess.TimeoutExpired:
            code = 1
            said.write(f"\nTimeoutError: it did not end within {limit_s:.0f} s\n")
        said.seek(0)
        return subprocess.CompletedProcess(command, code, stderr=said.read())


def fuzz_readers(folder: Path, seconds: float) -> dict[str, Any]:
    """Fuzz the Python readers for some seconds; return the figures."""
    if find_spec("atheris") is None:
        raise kernel.LackingError(
            "atheris is missing: .venv/bin/pip install atheris==3.0.0 (it has wheels for CPython "
            "3.11 to 3.13 on x86-64)"
        )
    from tests.fuzzing.readers import TARGETS

    harm = folder / "harm"
    harm.mkdir(exist_ok=True)
    command = [
        sys.executable, "-m", "tests.fuzzing.guided", folder / READERS, ",".join(TARGETS),
        f"-max_total_time={max(1, round(seconds))}", f"-timeout={INPUT_LIMIT_S}",
        "-rss_limit_mb=2048", "-print_final_stats=1", f"-artifact_prefix={harm / READERS}-",
    ]  # fmt: skip
    done = _ended(command, seconds + _STARTING_S)
    figures = folder / READERS / "figures.json"
    counts = json.loads(figures.read_text()) if figures.exists() else {"taken": {}, "refused": {}}
    shown, fault = _LINE.findall(done.stderr), _FAULT.search(done.stderr)
    runs = _RUNS.search(done.stderr)
    executions = int(runs[1]) if runs else int(shown[-1][0]) if shown else 0
    harmful = [path.name for path in harm.glob(f"{READERS}-*")]
    failed = done.returncode != 0
    return {
        "target": READERS,
        "engine": "atheris",
        "executions": executions,
        "executions_a_second": round(executions / seconds),
        "edges": int(shown[-1][1]) if shown else 0,
        "inputs": len(list((folder / READERS / "corpus").glob("*"))),
        "by_target": counts,
        "harm": harmful,
        "fault": (fault[0] if fault else done.stderr[-400:]) if failed else None,
    }


class Run:
    """One run over all targets."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._folder = Path(tempfile.mkdtemp(prefix="commitlog-fuzzing-", dir="/dev/shm"))
        self._chosen = [
            target
            for target in (*kernel.TARGETS, READERS)
            if not options.only or target in options.only
        ]
        if not self._chosen:
            raise SystemExit("there is no such target: --list shows them")
        self.figures: list[dict[str, Any]] = []
        self.lines: dict[str, dict[str, int]] = {}

    def go(self) -> None:
        """Fuzz each target for its share of the time, then measure what the inputs reach."""
        share_s = self._options.seconds / len(self._chosen)
        in_c = [target for target in self._chosen if target != READERS]
        programs = kernel.fuzzers(self._made("built")) if in_c else None
        for target in self._chosen:
            self._continue(target)
            if programs is None or target == READERS:
                found = fuzz_readers(self._folder, share_s)
            else:
                found = kernel.fuzz(programs, target, self._folder, share_s)
            self.figures.append(found)
            print(f"{target}: {found['executions']} executions, {found['edges']} edges, "
                  f"{found['fault'] or 'no harm'}", flush=True)  # fmt: skip
            self._save(target)
            if self._options.keep and programs is not None and target != READERS:
                small = kernel.shrink(programs, target, self._corpus(target))
                print(f"{target}: kept {corpora.keep(target, small)} inputs")
            elif self._options.keep:
                print(f"{target}: kept {corpora.keep(target, self._corpus(target))} inputs")
        if in_c:
            data = {target: self._inputs(target) for target in in_c}
            self.lines = kernel.lines(self._made("lines"), data)

    def _made(self, name: str) -> Path:
        path = self._folder / name
        path.mkdir()
        return path

    def _corpus(self, target: str) -> Path:
        return self._folder / target / "corpus" if target == READERS else self._folder / target

    def _inputs(self, target: str) -> list[bytes]:
        return [path.read_bytes() for path in sorted(self._corpus(target).iterdir())]

    def _continue(self, target: str) -> None:
        kept = self._options.corpora
        if kept is not None and (kept / target).exists():
            shutil.copytree(kept / target, self._corpus(target))

    def _save(self, target: str) -> None:
        if self._options.corpora is not None:
            shutil.copytree(
                self._corpus(target), self._options.corpora / target, dirs_exist_ok=True
            )
        for path in (self._folder / "harm").iterdir():
            kept = kernel.ROOT / "build" / "fuzzing"
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, kept)
            print(f"an input that does harm: {kept / path.name}")

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def report(run: Run, options: argparse.Namespace) -> None:
    executions = sum(each["executions"] for each in run.figures)
    content = {
        "seconds": options.seconds,
        "executions": executions,
        "executions_a_second": round(executions / options.seconds),
        "faults": [each["target"] for each in run.figures if each["fault"]],
        "lines": run.lines,
        "targets": run.figures,
    }
    if options.json is not None:
        written(options.json, "fuzzing", content)
    print(
        f"{executions} executions in {options.seconds:g} s; faults: {content['faults'] or 'none'}"
    )


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    if options.list:
        print(*kernel.TARGETS, READERS, sep="\n")
        return 0
    run = Run(options)
    try:
        run.go()
        report(run, options)
    except kernel.LackingError as error:
        print(f"fuzzing: {error}", file=sys.stderr)
        return 2
    finally:
        run.close()
    return 1 if any(each["fault"] for each in run.figures) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The kernel's fuzz targets: built for libFuzzer with sanitizers, or to replay inputs with gcc."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.fuzzing import corpora

ROOT = corpora.HERE.parents[1]
KERNEL = ROOT / "commitlog" / "_kernel" / "c"
TARGETS = sorted(path.stem.removesuffix("_fuzz") for path in (corpora.HERE / "c").glob("*_fuzz.c"))
CLANGS = ("clang", *(f"clang-{version}" for version in range(21, 13, -1)))
FLAGS = ["-std=gnu11", "-g", "-pthread", "-fno-omit-frame-pointer", "-DCL_ASSERT",
         "-iquote", str(KERNEL), "-iquote", str(corpora.HERE / "c")]  # fmt: skip
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
LONGEST = 2048  # bytes of an input: a segment of a few dozen frames
INPUT_LIMIT_S = 20
_STATS = re.compile(r"^stat::(\w+):\s+(\d+)", re.MULTILINE)
_EDGES = re.compile(r"cov: (\d+)")
_ALL_EDGES = re.compile(r"Loaded 1 modules\s+\((\d+) ")
_FAULT = re.compile(r"^.*(?:ERROR: |runtime error|assertion failed|_fuzz\.c:\d+:).*$", re.MULTILINE)
# What the targets are for; the rest of the kernel is linked, and not counted.
READERS = (
    "backward_scan", "batch", "checkpoint", "frame_cursor", "frame_decoder", "headers", "index",
    "mark", "reader", "resolve", "scan", "segment", "stage", "tailer_page", "walk",
)  # fmt: skip


class LackingError(Exception):
    """Something that the fuzzing needs is not on this machine."""


def _run(command: list[str | Path], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LackingError(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def compiler(folder: Path) -> str:
    """Return a clang that has libFuzzer and the sanitizers."""
    probe = folder / "probe.c"
    probe.write_text(
        "#include <stddef.h>\n#include <stdint.h>\n"
        "int LLVMFuzzerTestOneInput(const uint8_t *d, size_t n) { return d == NULL && n; }\n",
        encoding="utf-8",
    )
    for name in filter(shutil.which, CLANGS):
        command = [name, "-fsanitize=fuzzer,address,undefined", probe, "-o", folder / "probe"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return name
    raise LackingError(
        "there is no clang with libFuzzer: install it (Debian 12: apt-get install clang "
        "libclang-rt-14-dev; Ubuntu: apt-get install clang)"
    )


class Programs:
    """The targets, built in a folder by one compiler with some flags."""

    def __init__(self, folder: Path, compiler: str, flags: list[str], link: list[str]) -> None:
        self._folder = folder
        self._command = [compiler, *FLAGS, *flags]
        self._link = link
        folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            self._objects = list(threads.map(self._object, sorted(KERNEL.glob("*.c"))))

    def _object(self, source: Path) -> Path:
        target = self._folder / f"{source.stem}.o"
        _run([*self._command, "-c", source, "-o", target], self._folder)
        return target

    def of(self, target: str) -> Path:
        source = corpora.HERE / "c" / f"{target}_fuzz.c"
        program = self._folder / f"{target}_fuzz"
        made = self._folder / f"{target}_fuzz.o"
        _run([*self._command, "-c", source, "-o", made], self._folder)
        _run([*self._command, *self._link, made, *self._objects, "-o", program], self._folder)
        return program


def fuzzers(folder: Path) -> Programs:
    flags = ["-O1", "-fsanitize=fuzzer-no-link", *SANITIZERS]
    return Programs(folder, compiler(folder), flags, ["-fsanitize=fuzzer"])


def seeds(target: str) -> list[bytes]:
    """Return inputs from logs that earlier releases wrote: frames, headers, small files."""
    names = {"header": r"/\d{20}\.seg$", "checkpoint": r"/checkpoint$", "tailer": r"/tailers/"}
    wanted = re.compile(names.get(target, r"/\d{20}\.seg$"))
    made = []
    with tarfile.open(ROOT / "tests" / "golden" / "1.0.tar.xz") as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member) if wanted.search(member.name) else None
            if file is not None:
                made.append(_seed(target, file.read()))
    return sorted(set(made))


def _seed(target: str, content: bytes) -> bytes:
    if target in ("header", "checkpoint", "tailer"):
        return content[: LONGEST - 1]
    choices = bytes([17, 0, 0, 1, 0, 1, 255, 0, 64, 4, 31, 40, 5, 255, 1, 3])
    return choices + content[4096 : 4096 + 1024]


def fuzz(programs: Programs, target: str, folder: Path, seconds: float) -> dict[str, Any]:
    """Fuzz a target for some seconds; return the figures, and the inputs that did harm."""
    corpus, harm = folder / target, folder / "harm"
    corpora.spread(target, corpus, seeds(target))
    harm.mkdir(exist_ok=True)
    done = subprocess.run(
        [programs.of(target), f"-max_total_time={max(1, round(seconds))}", f"-max_len={LONGEST}",
         f"-timeout={INPUT_LIMIT_S}", "-seed=1", "-rss_limit_mb=2048", "-print_final_stats=1",
         f"-artifact_prefix={harm / target}-", corpus],
        cwd=folder, capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    said = dict(_STATS.findall(done.stderr))
    edges, whole = _EDGES.findall(done.stderr), _ALL_EDGES.search(done.stderr)
    fault = _FAULT.search(done.stderr)
    return {
        "target": target,
        "engine": "libFuzzer, address and undefined-behaviour sanitizers",
        "executions": int(said.get("number_of_executed_units", 0)),
        "executions_a_second": int(said.get("average_exec_per_sec", 0)),
        "peak_memory_mb": int(said.get("peak_rss_mb", 0)),
        "edges": int(edges[-1]) if edges else 0,
        "edges_of_the_kernel": int(whole[1]) if whole else 0,
        "inputs": len(list(corpus.iterdir())),
        "harm": [path.name for path in harm.glob(f"{target}-*")],
        "fault": None
        if done.returncode == 0
        else fault[0].strip()
        if fault
        else done.stderr[-300:],
    }


def shrink(programs: Programs, target: str, corpus: Path) -> Path:
    """Return a folder with the inputs of a corpus that its coverage needs."""
    small = corpus.with_name(f"{target}-small")
    shutil.rmtree(small, ignore_errors=True)
    small.mkdir()
    _run([programs.of(target), "-merge=1", f"-max_len={LONGEST}", small, corpus], corpus.parent)
    return small


def replay(program: Path, data: list[bytes], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a target on inputs; the last line is how many there were."""
    names = []
    for number, each in enumerate(data):
        names.append(folder / f"{program.stem}-{number:05}")
        names[-1].write_bytes(each)
    command = [program, *names]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
    )


def lines(folder: Path, data: dict[str, list[bytes]]) -> dict[str, dict[str, int]]:
    """Return how many lines of each reader's file the inputs of all targets execute, by gcov."""
    programs = Programs(folder, "gcc", ["-O0", "-DREPLAY", "--coverage"], ["--coverage"])
    for target, each in data.items():
        inputs = folder / f"{target}-inputs"
        inputs.mkdir()
        replay(programs.of(target), each, inputs)
    counts: dict[str, dict[int, int]] = defaultdict(dict)
    for name in READERS:
        text = _run(["gcov", "--json-format", "--stdout", f"{name}.gcda"], folder)
        for file in json.loads(text.splitlines()[0])["files"]:
            known = counts[Path(file["file"]).name]
            for line in file["lines"]:
                at = line["line_number"]
                known[at] = max(known.get(at, 0), line["count"])
    return {
        f"{name}.c": {
            "lines": len(counts[f"{name}.c"]),
            "executed": sum(count > 0 for count in counts[f"{name}.c"].values()),
        }
        for name in READERS
    }

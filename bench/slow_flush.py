"""Sync appends on a disk whose every flush takes half a millisecond longer.

On a fast disk the threads spend most of a flush's time on handing the interpreter's lock round;
what group commit is worth shows where a flush is slow. The engine is as it is: a library of some
lines stands between it and the C library (``LD_PRELOAD``), makes each real flush, and then sleeps.
It can only be put before a process when that starts, so each turn is a process of its own, run as
``python -m bench.slow_flush DIRECTORY SETTINGS CASE``.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from commitlog.tools.bench import disk, sync_threads
from commitlog.tools.bench.case import Case, Settings
from commitlog.tools.bench.sample import Sample
from commitlog.tools.bench.workspace import SkippedError, Workspace

DELAY_NS = 500_000
_LIMIT_S = 120
_PACKAGES = str(Path(__file__).resolve().parents[1])
_SYMBOL = "commitlog_bench_delayed"
_C_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

uint64_t commitlog_bench_delayed;

/* Asleep, as a thread is that waits for a disk, and without Linux's leave to round the time
 * up. */
static int delayed(int code) {
    int cause = errno;
    struct timespec delay = {0, DELAY_NS};
    prctl(PR_SET_TIMERSLACK, 1ul);
    while (nanosleep(&delay, &delay) != 0 && errno == EINTR)
        ;
    __atomic_fetch_add(&commitlog_bench_delayed, 1, __ATOMIC_RELAXED);
    errno = cause;
    return code;
}

int msync(void *address, size_t length, int flags) {
    int (*real)(void *, size_t, int) = (int (*)(void *, size_t, int))dlsym(RTLD_NEXT, "msync");
    int code = real(address, length, flags);
    return flags & MS_SYNC ? delayed(code) : code;
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    return delayed(real(fd));
}
"""


def measure(workspace: Workspace, case: Case) -> Sample:
    """One turn, in a process with slow flushes; without gcc the case is skipped."""
    library = _library(workspace.root)
    arguments = [
        str(workspace.root),
        json.dumps(dataclasses.asdict(workspace.settings)),
        json.dumps(dataclasses.asdict(case)),
    ]
    variables = {
        "LD_PRELOAD": " ".join(filter(None, (str(library), os.environ.get("LD_PRELOAD")))),
        "PYTHONPATH": os.pathsep.join(filter(None, (_PACKAGES, os.environ.get("PYTHONPATH")))),
    }
    command = [sys.executable, "-m", "bench.slow_flush", *arguments]
    done = subprocess.run(
        command, env=os.environ | variables, stdout=subprocess.PIPE, check=True, timeout=_LIMIT_S
    )
    given: dict[str, Any] = json.loads(done.stdout)
    latencies = np.array(given.pop("latencies_ns"), np.int64)
    return Sample(**given, latencies_ns=latencies)


def _library(folder: Path) -> Path:
    """Compile the library, once a run; without gcc, the cases are skipped."""
    library, fault = folder / "slow-flush.so", folder / "slow-flush.failed"
    if not library.exists() and not fault.exists():
        source = folder / "slow-flush.c"
        source.write_text(_C_SOURCE, encoding="utf-8")
        flags = ["-O2", "-shared", "-fPIC", f"-DDELAY_NS={DELAY_NS}L"]
        try:
            done = subprocess.run(
                ["gcc", *flags, "-o", library, source, "-ldl"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_LIMIT_S,
                check=False,
            )
        except FileNotFoundError:
            fault.write_text("this needs gcc (Debian, Ubuntu: apt install gcc libc6-dev)")
        else:
            if done.returncode:
                library.unlink(missing_ok=True)
                said = (done.stderr.strip() or "it said nothing").splitlines()[0]
                fault.write_text(f"gcc could not compile {library.name}: {said}")
    if fault.exists():
        raise SkippedError(fault.read_text(encoding="utf-8"))
    return library


def main() -> None:
    """Measure in this process, and print the sample as JSON."""
    directory, settings, found = sys.argv[1:]
    case = Case(**json.loads(found))
    with Workspace(Path(directory), Settings(**json.loads(settings))) as workspace:
        turn = disk.measure_page_msync if case.baseline else sync_threads.measure
        sample = turn(workspace, case)
    try:
        delayed = ctypes.c_uint64.in_dll(ctypes.CDLL(None), _SYMBOL).value
    except ValueError:
        delayed = 0
    if not delayed:
        raise SystemExit(
            "the library that delays flushes was not loaded: is this interpreter linked "
            "statically, or LD_PRELOAD not allowed?"
        )
    sample.facts |= {"delayed_flushes": delayed, "delay_ns": DELAY_NS}
    taken = [] if sample.latencies_ns is None else sample.latencies_ns.tolist()
    print(
        json.dumps(
            dataclasses.asdict(dataclasses.replace(sample, latencies_ns=None))
            | {"latencies_ns": taken}
        )
    )


if __name__ == "__main__":
    main()

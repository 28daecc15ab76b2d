"""Fixtures and hooks of all tests: logs that the fixture closes, forked children, bounded waiting,
a fixed seed, and a check for leaked shared-memory buffers.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest
from _pytest.tmpdir import tmppath_result_key

from commitlog.allocation.allocation_service import AllocationService
from commitlog.pool.shm import ShmBuffer
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity
from tests.host import ROOT, start_code
from tests.log_files import UUID, LogFiles
from tests.setups import SEGMENT, SETUPS, Logs, Setup
from tests.workers import Workers

# A condition that an idle machine reaches within milliseconds may take this long on a busy one.
TIME_LIMIT_S = 60.0

hypothesis.settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    # The machine is slow, not the code under test.
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("fixed")


# Tests start thousands of interpreters. Each would start a thread for linear algebra, which takes a
# sixth of its processor time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# A shell that starts the tests in the background makes them, and every process that they start,
# ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
# A process that outlives its terminal ignores SIGHUP, and the tests need commands that SIGHUP ends.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_report_header() -> str:
    return (
        "hypothesis: derandomized, so that every run draws the same; the seed of a test is "
        "its own source"
    )


# What stands above the core: `make test-core` lets no test import it, apart from the sources that
# the core opens by their entry points, and what `commitlog.keep` imports.
_SEAM = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["commitlog"]["seam"]
SOURCES = ("stores", "backup", "network")
WINGS = (
    "commitlog.network.replication",
    *(
        f"commitlog.{name}"
        for names in _SEAM["wings"].values()
        for name in names
        if name not in SOURCES
    ),
)


class _NoWing:
    """Refuses to import a wing: in front of all other finders."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        wing = f"{name}.".startswith(tuple(f"{wing}." for wing in WINGS))
        assert not wing, f"a test of the core imports {name}: mark it `wing`"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-wings",
        action="store_true",
        help="leave out the tests that are marked `wing`, and let no other import a wing",
    )
    parser.addoption(
        "--in-memory",
        action="store_true",
        help="keep the folders of the tests in /dev/shm if it has room, but for those on a disk",
    )
    parser.addoption(
        "--workers",
        type=lambda text: AUTO_WORKERS if text == "auto" else int(text),
        default=0,
        help="run the tests in this many forks; auto: one more than there are cores, four at most",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files whose tests all need a wing, before they import one."""
    if not config.getoption("--no-wings") or collection_path.suffix != ".py":
        return None
    return "\npytestmark = pytest.mark.wing\n" in collection_path.read_text() or None


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--no-wings"):
        sys.meta_path.insert(0, _NoWing())  # type: ignore[arg-type]
    if config.getoption("--in-memory") and _memory_has_room():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    if count := config.getoption("--workers"):
        config.pluginmanager.register(Workers(config, count, _share))


# A fifth of the processor time of all tests was spent on creating, syncing and deleting files of a
# disk's file system.
MEMORY = Path("/dev/shm")
ROOM = 4 << 30  # the largest folders at one time are far smaller
# What the kernel does with files of a disk matters in these.
ON_DISK = (
    "tests/allocation/",
    "tests/flush/",
    "tests/multiprocess/",
    "tests/tail/test_idle.py",
    "tests/tools/bench/",
)


def _memory_has_room() -> bool:
    return (
        MEMORY.is_dir()
        and shutil.disk_usage(MEMORY).free > ROOM
        and psutil.virtual_memory().available > 2 * ROOM
    )


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Return the test's own folder: in memory with `--in-memory`, but for those of `ON_DISK`."""
    if not tmp_path.is_relative_to(MEMORY) or not request.node.nodeid.startswith(ON_DISK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="commitlog-test-"))
    yield folder
    if request.node.stash[tmppath_result_key].get("call"):  # it passed
        shutil.rmtree(folder)


# Tests wait a third of the time, for flushes and for other processes.
AUTO_WORKERS = min(len(os.sched_getaffinity(0)) + 1, 4)

# The longest tests start first, so that no worker process runs one alone at the end.
SLOW = (
    "tests/spark",
    "tests/_kernel/test_kernel_c.py",
    "tests/test_bench_smoke.py",
    "tests/multiprocess/test_stopped_owners.py",
    "tests/test_docs.py",
    "tests/test_demo.py",
    "tests/test_docs_shell.py",
    "tests/tools/bench/test_tuning.py",
    "tests/faults/test_bit_flips.py",
)


SHARING = ("tests/spark", "tests/capi")


def _share(nodeid: str) -> str:
    """The group of tests that one worker process runs: the tests of one file, whose fixtures are
    then created once, and all tests that use the one Spark session or the one compiled probe.
    """
    file = nodeid.partition("::")[0]
    return next((folder for folder in SHARING if file.startswith(f"{folder}/")), file)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let `make test` run each case in three of the nine setups, one of each flush service and one
    of each backing, and `make test-long` in the others. Another version of Python takes others.
    """
    setup = item.callspec.params.get("setup") if hasattr(item, "callspec") else None
    if isinstance(setup, Setup):
        case = item.nodeid.replace(str(setup), "")
        turn = zlib.crc32(case.encode()) + sys.version_info.minor
        flush, backing = divmod(SETUPS.index(setup), 3)
        if (flush + backing + turn) % 3:
            item.add_marker(pytest.mark.long)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--no-wings"):
        wings = [item for item in items if item.get_closest_marker("wing")]
        config.hook.pytest_deselected(items=wings)
        items[:] = [item for item in items if not item.get_closest_marker("wing")]
    order = {share: place for place, share in enumerate(SLOW)}
    items.sort(key=lambda item: order.get(_share(item.nodeid), len(order)))


def pytest_collection_finish() -> None:
    """Exempt the collected tests from the garbage collector, which otherwise walks them in each run
    and copies their pages in each forked child.
    """
    gc.collect()
    gc.freeze()


def _wait_until(condition: Callable[[], bool], limit_s: float = TIME_LIMIT_S) -> None:
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < limit_s, f"the condition did not come true within {limit_s:g} s"
        time.sleep(min(0.0005 + waited / 10, 0.01))


@pytest.fixture
def dir_fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LogDirectory]:
    """An empty directory of a log with segments of 64 KiB."""
    made = LogDirectory(str(tmp_path), Identity(UUID, SEGMENT, "coarse", 0))
    yield made
    made.close()


@pytest.fixture
def until() -> Callable[..., None]:
    """Poll until a condition holds, for a minute at most."""
    return _wait_until


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    """Opens logs in the test's own directory."""
    made = Logs(tmp_path)
    yield made
    made.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[LogFiles]:
    """An empty log directory to which the test adds files one by one."""
    made = LogFiles(tmp_path / "log")
    yield made
    made.directory.close()


@pytest.fixture(params=SETUPS, ids=str)
def setup(request: pytest.FixtureRequest) -> Setup:
    """Every flush service with every backing."""
    chosen: Setup = request.param
    return chosen


@pytest.fixture
def no_other_holders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the log's threads from creating, sealing or touching segments, each of which holds a
    segment for a moment: then only the test holds segments.
    """
    monkeypatch.setattr(AllocationService, "run", lambda service: None)


@pytest.fixture
def in_child() -> Callable[[Callable[[], Any]], Any]:
    """Run a function in a forked child and return its result; an exception in the child fails this
    test.
    """

    def run(function: Callable[[], Any]) -> Any:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            answer = None
            try:
                answer = (True, function())
            finally:
                os.write(writer, pickle.dumps(answer or (False, traceback.format_exc())))
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            data = stream.read()
        assert os.waitpid(child, 0)[1] == 0
        fine, result = pickle.loads(data)
        assert fine, result
        return result

    return run


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script in a process of a host with the fault handler enabled, which prints the
    traceback of a crash; with a launcher, in a new interpreter.
    """

    def run(
        script: str, *arguments: object, launcher: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        flags = ("-X", "faulthandler", "-X", "dev", "-W", "default")
        code = [script, *map(str, arguments)]
        options: dict[str, Any] = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
        }
        with (
            subprocess.Popen([*launcher, sys.executable, *flags, "-c", *code], cwd=ROOT, **options)
            if launcher
            else start_code(*code, flags=flags, **options)
        ) as process:
            output, errors = process.communicate(timeout=200)
        return subprocess.CompletedProcess(code, process.returncode, output, errors)

    return run


@pytest.fixture(scope="session", autouse=True)
def forked_serving(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fork the processes that serve logs from a host."""
    with pytest.MonkeyPatch.context() as patch:
        if not pytestconfig.getoption("--no-wings"):
            from tests import serving

            patch.setattr(serving.serving_child, "_start_program", serving.fork_starter())
        yield


@pytest.fixture(scope="session", autouse=True)
def no_buffer_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Check that the session leaves no shared-memory buffer: none of this process, and none
    recorded by the log of a killed child.
    """
    names: set[str] = set()
    allocate = ShmBuffer.allocate.__func__  # type: ignore[attr-defined]

    def allocate_noted(cls: type[ShmBuffer], size: int) -> ShmBuffer:
        buffer: ShmBuffer = allocate(cls, size)
        names.add(str(buffer.name))
        return buffer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShmBuffer, "allocate", classmethod(allocate_noted))
        yield
    for lock in tmp_path_factory.getbasetemp().rglob("lock"):
        with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
            names.update(json.loads(lock.read_bytes())["pool_names"])
    assert [name for name in names if Path(f"/dev/shm{name}").exists()] == []

"""What all tests share: logs that are closed at the end, children by fork, bounded waiting, a fixed
seed, and no buffer left behind.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from commitlog.pool.shm import ShmBuffer
from commitlog.segment.allocation_service import AllocationService
from tests.log_files import LogFiles
from tests.setups import SETUPS, Logs, Setup

ROOT = Path(__file__).resolve().parents[1]
# what comes true on a machine at rest within milliseconds may take that long on one that is not
TIME_LIMIT_S = 60.0

hypothesis.settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],  # it is the machine that is
)
hypothesis.settings.load_profile("fixed")


# A shell that starts the tests in the background has Ctrl-C ignored in them, and in every process
# that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# One that outlives its terminal has hang-ups ignored, and a command must end by one.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_report_header() -> str:
    return (
        "hypothesis: derandomized, so that every run draws the same; the seed of a test is "
        "its own source"
    )


# What takes longest begins first, so that no process is left alone with it in the end.
SLOW = (
    "tests/spark",
    "tests/_kernel/test_kernel_c.py",
    "tests/test_bench_smoke.py",
    "tests/multiprocess/test_stopped_owners.py",
    "tests/test_docs.py",
    "tests/test_demo.py",
    "tests/test_docs_shell.py",
    "tests/bench/test_tuning.py",
    "tests/faults/test_bit_flips.py",
)


def _share(nodeid: str) -> str:
    """What one process runs, where several do: a file's tests, whose fixtures are made once; and
    all those of the one Spark session.
    """
    file = nodeid.partition("::")[0]
    return "tests/spark" if file.startswith("tests/spark/") else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {share: place for place, share in enumerate(SLOW)}
    items.sort(key=lambda item: order.get(_share(item.nodeid), len(order)))


def pytest_collection_finish() -> None:
    """Exempt the collected tests from the garbage collector: it would walk them each time, and copy
    them in each forked child.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more process than cores: a third of the time goes to flushes and to other processes that
    are waited for.
    """
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """The scheduler of pytest-xdist, with shares of our own. Its groups by mark do not work with
    pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Shares(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _share(nodeid)

    return Shares(config, log)


def _wait_until(condition: Callable[[], bool], limit_s: float = TIME_LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not come true within {limit_s:g} s"
        time.sleep(0.0005)


@pytest.fixture
def until() -> Callable[..., None]:
    """Poll until a condition holds, a minute at most."""
    return _wait_until


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    """Opens logs under the test's own directory."""
    made = Logs(tmp_path)
    yield made
    made.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[LogFiles]:
    """A log to be made file by file."""
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
    """No thread of a log makes, seals or touches segments, and so holds one for a moment: who holds
    them is the test alone.
    """
    monkeypatch.setattr(AllocationService, "run", lambda service: None)


@pytest.fixture
def in_child() -> Callable[[Callable[[], Any]], Any]:
    """Run a function in a forked child and give its result; what it raised is this test's
    failure.
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
    """Run a script in a new interpreter, with the fault handler on, which a crash of the
    interpreter would set off.
    """

    def run(
        script: str, *arguments: object, launcher: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        command = [
            *launcher,
            sys.executable,
            "-X",
            "faulthandler",
            "-X",
            "dev",
            "-W",
            "default",
            "-c",
            script,
            *map(str, arguments),
        ]
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
        )

    return run


@pytest.fixture(scope="session", autouse=True)
def no_buffer_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No shared-memory buffer outlives the session: neither this process's nor one that a killed
    child's log had recorded.
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

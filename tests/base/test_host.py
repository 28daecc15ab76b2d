"""Host: the floors that a simulation runs reach time, threads and sockets through it alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from commitlog.base.host import host

ROOT = Path(__file__).resolve().parents[2] / "commitlog"
# Their floor's child process is a program of its own, which no simulation runs.
REAL = {"serving_process.py", "serving_child.py", "serving_program.py"}
FORBIDDEN = {
    "time": {"monotonic", "monotonic_ns", "time", "time_ns", "sleep"},
    "threading": {
        "Barrier",
        "BoundedSemaphore",
        "Condition",
        "Event",
        "Lock",
        "RLock",
        "Semaphore",
        "Thread",
        "Timer",
        "current_thread",
        "get_ident",
    },
    "socket": {"socket", "create_connection", "create_server", "getaddrinfo", "socketpair"},
    "os": {"urandom", "getrandom"},
    "uuid": {"uuid1", "uuid4"},
    "random": {"random", "choice", "uniform", "randint", "shuffle"},
    "secrets": {"token_bytes", "token_hex"},
}
MODULES = {"concurrent.futures": "ThreadPoolExecutor", "_thread": "*", "select": "*"}


def calls_past_the_host(source: str) -> Iterator[str]:
    """Yield what a module asks of the world itself."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and node.func.attr in FORBIDDEN.get(owner.id, ()):
                yield f"{owner.id}.{node.func.attr} in line {node.lineno}"
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            for each in node.names:
                if each.name in FORBIDDEN.get(module, ()) or MODULES.get(module) in (
                    each.name,
                    "*",
                ):
                    yield f"{module}.{each.name} in line {node.lineno}"


def floors() -> list[Path]:
    folders = ("network", "stores")
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if path.name not in REAL]


@pytest.mark.parametrize("path", floors(), ids=lambda path: str(path.relative_to(ROOT)))
def test_floor_asks_the_world_through_the_host(path: Path) -> None:
    assert list(calls_past_the_host(path.read_text())) == []


def test_call_past_the_host_is_found() -> None:
    source = "import time\nfrom concurrent.futures import ThreadPoolExecutor\ntime.sleep(1)\n"
    assert len(list(calls_past_the_host(source))) == 2


def test_started_thread_runs_under_its_name() -> None:
    seen: list[int] = []
    thread = host.thread("commitlog test", lambda: seen.append(host.ident()))
    assert not thread.is_alive()
    thread.start()
    thread.join(5.0)
    assert seen == [thread.ident]


def test_executor_runs_what_it_gets() -> None:
    with host.executor(2, "log") as pool:
        assert list(pool.map(abs, [-1, -2])) == [1, 2]

"""Open logs are served by a process that neither waits for this one nor outlives it."""

from __future__ import annotations

import functools
import logging
import mmap
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

import commitlog
from commitlog import replication
from commitlog.errors import InvalidOptionError, ReplicationError
from commitlog.network.replication import serving_child, serving_process
from tests.forks import forked_child
from tests.network.replication.scene import LIMIT_S, records
from tests.serving import start_interpreter

Until = Callable[..., None]


@pytest.fixture
def started_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the processes as a program does."""
    monkeypatch.setattr(serving_child, "_start_program", start_interpreter)


# Holds the interpreter's lock from its last append until a byte of a file is set.
_BUSY = """
import mmap, sys
import commitlog
from commitlog import replication
sys.setswitchinterval(1e6)
rule = replication.Replication(require=0)
with commitlog.open(sys.argv[1], replicate=rule, flush_interval=0.01) as log:
    with open(sys.argv[2], "r+b") as file:
        end = mmap.mmap(file.fileno(), 0)
    print(rule.server.url(), rule.server.pid, flush=True)
    while not end[0]:
        pass
    log.append(b"one")
    while end[0] < 2:
        pass
"""


def test_copy_is_served_while_the_program_is_busy(tmp_path: Path) -> None:
    with (tmp_path / "end").open("w+b") as file:
        file.write(b"\0")
        file.flush()
        end = mmap.mmap(file.fileno(), 0)
    arguments = [sys.executable, "-c", _BUSY, tmp_path / "orders", tmp_path / "end"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        url = child.stdout.readline().split()[0]
        try:
            with replication.follow(url, tmp_path / "copy") as copy:
                end[0] = 1
                assert copy.wait(4097, LIMIT_S)
        finally:
            end[0] = 2
    assert [value for *_, value in records(tmp_path / "copy")] == [b"one"]


@pytest.mark.usefixtures("started_interpreters")
def test_process_that_dies_is_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.setattr(serving_process, "_PAUSE_S", 0.01)
    rule = replication.Replication(require=1)
    with (
        commitlog.open(tmp_path / "orders", flush="sync", replicate=rule) as log,
        commitlog.open(tmp_path / "trades", flush="sync", replicate=rule),
        replication.follow(rule.server.url(), tmp_path / "copy") as copy,
    ):
        log.append(b"one")
        died, port = rule.server.pid, rule.server.port
        os.kill(died, signal.SIGKILL)
        position = log.append(b"two")
        assert copy.position > position
        assert (rule.server.pid != died, rule.server.port) == (True, port)
        until(lambda: len(rule.server.followers()) == 1)
        with replication.follow(rule.server.url("trades"), tmp_path / "other"):
            pass
    assert "has ended with status -9: starting it again" in caplog.text


def test_process_that_dies_while_it_is_asked_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.setattr(serving_process, "_PAUSE_S", 0.01)
    rule = replication.Replication(require=0)
    with commitlog.open(tmp_path / "orders", replicate=rule), ThreadPoolExecutor(4) as threads:
        ended = threading.Event()

        def ask() -> None:
            while not ended.is_set():
                with suppress(ReplicationError):
                    rule.server.followers()

        asking = [threads.submit(ask) for _ in range(4)]
        try:
            for _ in range(8):
                died = rule.server.pid
                os.kill(died, signal.SIGKILL)
                until(functools.partial(_has_replaced, rule, died))
        finally:
            ended.set()
        for each in asking:
            each.result(LIMIT_S)


def _has_replaced(rule: replication.Replication, died: int) -> bool:
    with suppress(ReplicationError):
        return rule.server.pid != died and rule.server.followers() == {}
    return False


def test_waiter_without_a_limit_learns_that_the_process_died(tmp_path: Path, until: Until) -> None:
    rule = replication.Replication(require=0)
    with commitlog.open(tmp_path / "orders", replicate=rule), ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(rule.server.wait_replicated, 1 << 20)
        until(lambda: len(rule.server._child._answers) == 1)
        os.kill(rule.server.pid, signal.SIGKILL)
        with pytest.raises(ReplicationError, match="has ended: try again"):
            waiting.result(LIMIT_S)


def test_wrong_argument_is_an_error_and_no_endless_wait(tmp_path: Path) -> None:
    rule = replication.Replication(require=0)
    with commitlog.open(tmp_path / "orders", replicate=rule):
        with pytest.raises(ReplicationError, match="the request failed"):
            rule.server.wait_replicated("first")  # type: ignore[arg-type]
        assert rule.server.followers() == {}


@pytest.mark.usefixtures("started_interpreters")
def test_process_that_cannot_be_started_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.setattr(serving_process, "_PAUSE_S", 0.01)
    rule = replication.Replication(require=0)
    with commitlog.open(tmp_path / "orders", replicate=rule):
        died = rule.server.pid
        with monkeypatch.context() as patch:
            patch.setattr(serving_child, "get_executable", lambda: str(tmp_path / "none"))
            os.kill(died, signal.SIGKILL)
            until(lambda: caplog.text.count("cannot be started") > 1)
        until(functools.partial(_has_replaced, rule, died))


def test_nonsense_of_the_process_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rule = replication.Replication(require=0)
    with commitlog.open(tmp_path / "orders", replicate=rule):
        child = rule.server._child
        for said in (b'{"number":', b'{"number":99,"result":1}\n'):
            child._take(said)
        assert rule.server.followers() == {}
    assert caplog.text == ""


# --- what the process imports ---------------------------------------------------------------------

_PROGRAM = """
import os, sys
sys.path[:0] = sys.argv[4:]
import commitlog
from commitlog import replication
os.chdir(sys.argv[1])
if sys.argv[3]:
    os.rmdir(sys.argv[1])
rule = replication.Replication(require=0)
with commitlog.open(sys.argv[2], replicate=rule):
    with open(f"/proc/{rule.server.pid}/maps") as maps:
        print({line.split()[-1] for line in maps if "_kernel" in line})
"""
_HOSTILE = "open('RAN', 'w').close(); raise SystemExit"


@pytest.mark.parametrize(
    ("flags", "environment"),
    [
        ([], {}),
        pytest.param(["-P"], {}, marks=pytest.mark.long),
        (["-I"], {}),
        pytest.param([], {"PYTHONSAFEPATH": "1"}, marks=pytest.mark.long),
        pytest.param([], {"PYTHONPATH": ":"}, marks=pytest.mark.long),
        pytest.param(["-I"], {"PYTHONPATH": "."}, marks=pytest.mark.long),
        ([], {"PYTHONPATH": "."}),
    ],
)
def test_process_imports_nothing_of_the_working_directory(
    tmp_path: Path, flags: list[str], environment: dict[str, str]
) -> None:
    hostile = tmp_path / "cwd"
    hostile.mkdir()
    for name in ("json", "importlib", "commitlog", "logging", "sitecustomize", "socket"):
        (hostile / f"{name}.py").write_text(_HOSTILE)
    (tmp_path / "program.py").write_text(_PROGRAM)
    done = subprocess.run(
        [sys.executable, *flags, tmp_path / "program.py", hostile, tmp_path / "orders", ""],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        timeout=LIMIT_S,
        check=True,
    )
    assert b"_kernel" in done.stdout
    assert not (hostile / "RAN").exists()


def test_process_starts_although_the_working_directory_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    arguments = [tmp_path / "gone", tmp_path / "orders", "rmdir"]
    subprocess.run([sys.executable, "-c", _PROGRAM, *arguments], timeout=LIMIT_S, check=True)
    assert not (tmp_path / "gone").exists()


def test_process_imports_the_package_of_its_program(tmp_path: Path) -> None:
    """Embedded in another program: at a place that only this program's path has."""
    (tmp_path / "place").mkdir()
    (tmp_path / "cwd").mkdir()
    source = Path(commitlog.__path__[0])
    shutil.copytree(source, tmp_path / "place" / "commitlog")
    arguments = [tmp_path / "cwd", tmp_path / "orders", "", tmp_path / "place"]
    done = subprocess.run(
        [sys.executable, "-I", "-c", _PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        timeout=LIMIT_S,
        check=True,
        text=True,
    )
    assert str(tmp_path / "place") in done.stdout
    assert str(source) not in done.stdout


@pytest.mark.usefixtures("started_interpreters")
def test_process_that_is_started_again_finds_relative_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.setattr(serving_process, "_PAUSE_S", 0.01)
    monkeypatch.chdir(tmp_path)
    Path("tokens").write_text("secret follow *\n")
    Path("elsewhere").mkdir()
    rule = replication.Replication(tokens="tokens", require=0)
    monkeypatch.chdir("elsewhere")
    with commitlog.open("../orders", replicate=rule):
        monkeypatch.chdir("/")
        died = rule.server.pid
        os.kill(died, signal.SIGKILL)
        until(functools.partial(_has_replaced, rule, died))
        replication.follow(rule.server.url(), tmp_path / "copy", token="secret").close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_process_ends_with_its_program(tmp_path: Path, number: int, until: Until) -> None:
    (tmp_path / "end").write_bytes(b"\0")
    arguments = [sys.executable, "-c", _BUSY, tmp_path / "orders", tmp_path / "end"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        serving = psutil.Process(int(child.stdout.readline().split()[1]))
        child.send_signal(number)
        child.wait()
        until(lambda: not serving.is_running() or serving.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.usefixtures("started_interpreters")
def test_forked_child_does_not_keep_the_process(tmp_path: Path, until: Until) -> None:
    rule = replication.Replication(require=0)
    with ExitStack() as child:
        with commitlog.open(tmp_path / "orders", replicate=rule):
            serving = psutil.Process(rule.server.pid)
            child.enter_context(forked_child())
        until(lambda: not serving.is_running())


@pytest.mark.usefixtures("started_interpreters")
def test_interrupt_of_the_terminal_leaves_the_process(tmp_path: Path) -> None:
    rule = replication.Replication(require=1)
    with (
        commitlog.open(tmp_path / "orders", flush="sync", replicate=rule) as log,
        replication.follow(rule.server.url(), tmp_path / "copy"),
    ):
        serving = rule.server.pid
        os.kill(serving, signal.SIGINT)
        log.append(b"one")
        assert rule.server.pid == serving


def test_port_that_is_taken_is_an_error_of_open(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        rule = replication.Replication(listen=listen)
        with pytest.raises(ReplicationError, match=f"cannot listen on {listen}"):
            commitlog.open(tmp_path / "orders", replicate=rule)
    with commitlog.open(tmp_path / "orders", replicate=rule):
        assert rule.server.port == int(listen.rpartition(":")[2])


def test_log_of_the_process_is_that_of_its_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, until: Until
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("secret follow *\n")
    rule = replication.Replication(tokens=tokens, require=0)
    with (
        caplog.at_level(logging.INFO, "commitlog"),
        commitlog.open(tmp_path / "orders", replicate=rule),
    ):
        until(lambda: f"serving orders at port {rule.server.port}" in caplog.text)
    assert "secret" not in caplog.text


def test_process_that_is_stopped_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_process, "_CLOSE_S", 0.1)
    rule = replication.Replication(require=0)
    with commitlog.open(tmp_path / "orders", replicate=rule):
        monkeypatch.setattr(serving_process, "_ANSWER_S", 0.1)
        os.kill(rule.server.pid, signal.SIGSTOP)
        with pytest.raises(ReplicationError, match=f"process {rule.server.pid}, which serves"):
            rule.server.followers()


def test_log_is_closed_although_the_process_has_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_process, "_PAUSE_S", LIMIT_S)
    rule = replication.Replication(require=0)
    with (
        commitlog.open(tmp_path / "orders", replicate=rule),
        commitlog.open(tmp_path / "trades", replicate=rule),
    ):
        os.kill(rule.server.pid, signal.SIGKILL)
    with pytest.raises(InvalidOptionError, match="no log is open"):
        print(rule.server)

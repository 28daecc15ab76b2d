"""The examples as users run them: real processes, started in any order, ended by a limit or by
Ctrl-C.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.host import Hosted, host_of

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts an example on the test's own bus in shared memory."""
    place = Path(tempfile.mkdtemp(prefix="commitlog-test-", dir="/dev/shm"))
    running: list[subprocess.Popen[str]] = []

    def run(name: str, *arguments: object) -> subprocess.Popen[str]:
        given = [f"examples/{name}.py", "--path", str(place / "bus"), *map(str, arguments)]
        running.append(
            Hosted(
                host_of(("commitlog", "commitlog.bus"), ("-W", "error")),
                "tests.host:run_script",
                given,
                cwd=ROOT,
                env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.communicate()
    shutil.rmtree(place)


def output(process: subprocess.Popen[str]) -> list[str]:
    """Return the output of a process that ended successfully without a message on standard
    error.
    """
    out, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (0, "")
    return out.splitlines()


def test_objects_of_two_writers_reach_an_earlier_reader(start: Start) -> None:
    reader = start("object_reader", "--limit", 6)
    writers = [
        start("object_writer", "--limit", 3, "--interval", 0.01, source) for source in (0, 1)
    ]
    for source, writer in enumerate(writers):
        assert output(writer) == [f"Sent: PriceUpdate [source={source}, price=20, quantity=40]"] * 3
    lines = [f"Read: PriceUpdate [source={source}, price=20, quantity=40]" for source in (0, 1)]
    assert sorted(output(reader)) == sorted(lines * 3)


def test_bytes_reach_a_later_reader(start: Start) -> None:
    sent = output(start("bytes_writer", "--limit", 4, "--interval", 0))
    assert sent == [f"Sent: {[index] * 10}" for index in range(4)]
    assert output(start("bytes_reader", "--limit", 4)) == [
        line.replace("Sent", "Read") for line in sent
    ]


def test_token_passes_every_node(start: Start) -> None:
    nodes = [start("node", "--limit", 3, "--interval", 0, number, 3) for number in (2, 0, 1)]
    for number, node in zip((2, 0, 1), nodes, strict=True):
        assert output(node) == [
            f"Node {number} has the token after {number + 3 * turn} hops" for turn in range(3)
        ]


def test_restarted_node_finds_the_token(start: Start) -> None:
    assert output(start("node", "--limit", 1, "--interval", 0, 0, 2)) == [
        "Node 0 has the token after 0 hops"
    ]
    interrupted = start("node", "--interval", 30, 1, 2)
    assert interrupted.stdout is not None
    assert interrupted.stdout.readline() == "Node 1 has the token after 1 hops\n"
    interrupted.send_signal(signal.SIGINT)
    assert output(interrupted) == []
    assert output(start("node", "--limit", 1, "--interval", 0, 1, 2)) == [
        "Node 1 has the token after 1 hops"
    ]
    assert output(start("node", "--limit", 1, "--interval", 0, 0, 2)) == [
        "Node 0 has the token after 2 hops"
    ]


def test_node_outside_the_ring_is_refused(start: Start) -> None:
    node = start("node", 3, 3)
    _, errors = node.communicate(timeout=PATIENCE_S)
    assert node.returncode == 2
    assert "ID must be from 0 to 2" in errors


@pytest.mark.parametrize(
    "arguments",
    [
        ("object_writer", "--interval", 30, 0),
        ("bytes_writer", "--interval", 30),
        ("node", "--interval", 30, 0, 1),
    ],
    ids=lambda arguments: str(arguments[0]),
)
def test_ctrl_c_ends_a_writer_quietly(start: Start, arguments: tuple[object, ...]) -> None:
    process = start(*arguments)
    assert process.stdout is not None
    assert process.stdout.readline() != ""
    process.send_signal(signal.SIGINT)
    output(process)


@pytest.mark.parametrize(
    ("reader", "writer"),
    [("object_reader", ("object_writer", 0)), ("bytes_reader", ("bytes_writer",))],
)
def test_ctrl_c_ends_a_reader_quietly(
    start: Start, reader: str, writer: tuple[object, ...]
) -> None:
    output(start(*writer, "--limit", 1, "--interval", 0))
    process = start(reader)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("Read: ")
    process.send_signal(signal.SIGINT)
    assert output(process) == []


def test_killed_order_service_makes_the_events_of_a_replay(start: Start) -> None:
    for _ in range(3):
        assert output(start("order_processing", "--limit", 400, "order")) == ["placed 400 orders"]
        service = start("order_processing", "serve")
        assert service.stdout is not None
        assert service.stdout.readline().startswith("found ")
        service.kill()
        service.communicate()
    assert "handled" in output(start("order_processing", "--limit", 1200, "serve"))[-1]
    assert output(start("order_processing", "replay")) == [
        "the replay made the same 1200 events; 0 orders are not handled yet"
    ]
    traced = output(start("order_processing", "--limit", 2, "trace"))
    assert len(traced) == 2
    assert all(" waited " in line for line in traced)

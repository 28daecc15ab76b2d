"""`cat`, `tail` and `info` of a log on another machine, and the commands that refuse one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import commitlog
from tests.tools.cli.program import LIMIT_S, SEGMENT, interrupted, read_until, started


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with (
        commitlog.open(tmp_path / "orders", segment_size=SEGMENT) as log,
        started("serve", "--listen", "127.0.0.1:0", log.path) as server,
    ):
        log.append_many([b"%d" % number * 200 for number in range(600)])
        assert server.stdout is not None
        yield server.stdout.readline().decode().strip().removeprefix("serving ")


def output(*arguments: object) -> str:
    with started(*arguments) as process:
        written, errors = process.communicate(timeout=LIMIT_S)
        assert (process.returncode, errors) == (0, b"")
        return written.decode()


def test_cat_of_a_server_equals_cat_of_the_directory(url: str, tmp_path: Path) -> None:
    assert output("cat", "--json", url) == output("cat", "--json", tmp_path / "orders")


def test_tail_prints_the_last_records_and_follows(url: str, tmp_path: Path) -> None:
    last = output("tail", "-n", "3", url)
    assert last == output("tail", "-n", "3", tmp_path / "orders")
    with (
        started("tail", "-f", "-n", "1", "--format", "{sequence}\n", url) as follower,
        commitlog.open(tmp_path / "orders") as log,
    ):
        assert follower.stdout is not None
        read_until(follower.stdout.fileno(), b"599\n")
        log.append(b"news")
        read_until(follower.stdout.fileno(), b"600\n")
        assert interrupted(follower)[0] == 130


def test_info_shows_the_figures_of_the_server(url: str, tmp_path: Path) -> None:
    far, near = (
        json.loads(output("info", "--json", place)) for place in (url, tmp_path / "orders")
    )
    assert far["kind"] == "remote"
    assert far["problems"] == []
    for name in ("uuid", "records", "first_sequence", "last_sequence", "first_position"):
        assert far[name] == near[name]
    assert far["committed_position"] == near["committed_position"]
    assert "last position" in output("info", url)


@pytest.mark.parametrize("command", [["verify"], ["repair"], ["prune", "--max-bytes", "1G"]])
def test_commands_on_files_refuse_another_machine(url: str, command: list[str]) -> None:
    with started(*command, url) as process:
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode != 0
    assert b"another machine" in errors

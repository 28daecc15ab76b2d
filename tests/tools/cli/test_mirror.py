"""`commitlog mirror`: its options, and a broker that is away."""

from __future__ import annotations

from pathlib import Path

import pytest

import commitlog
from tests.tools.cli.program import run

URL = "kafka://127.0.0.1:1/orders"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    commitlog.open(tmp_path / "log").close()
    return tmp_path / "log"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from", "--name", "x"], "--name is for a mirror to Kafka"),
        (["--from", "--transactional-id", "x"], "--transactional-id is for a mirror to Kafka"),
        (["--group", "x"], "--group is for a mirror from Kafka"),
        (["--set", "acks"], "expected KEY=VALUE, not 'acks'"),
        (["--set", "group.id=x"], "the mirror sets group.id itself"),
        (["--set", "acks.everywhere=1"], "acks.everywhere"),
    ],
)
def test_wrong_option_is_refused(log: Path, options: list[str], said: str) -> None:
    done = run("mirror", *options, log, URL)
    assert done.returncode != 0
    assert said in done.stderr.decode()


def test_absent_log_is_refused_and_not_created(tmp_path: Path) -> None:
    done = run("mirror", tmp_path / "none", URL)
    assert done.returncode == 1
    assert not (tmp_path / "none").exists()

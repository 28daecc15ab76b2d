"""`commitlog outbox`: moves rows, ends by a signal, refuses wrong input."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

import commitlog
from commitlog.outbox import Outbox
from tests.tools.cli.program import LIMIT_S, run, started


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the address of a database whose outbox has two rows."""
    address = f"sqlite:///{tmp_path}/shop.db"
    engine = sa.create_engine(address)
    outbox = Outbox("commitlog_outbox")
    outbox.create(engine)
    with engine.begin() as connection:
        outbox.put(connection, b"one")
        outbox.put(connection, b"two")
    engine.dispose()
    return address


def test_once_moves_all_rows_and_ends(url: str, tmp_path: Path) -> None:
    done = run("outbox", "--once", url, tmp_path / "log")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == (
        f"moving commitlog_outbox to {tmp_path}/log\n2 rows moved, 0 set aside\n"
    )
    assert run("cat", tmp_path / "log").stdout == b"one\ntwo\n"


def test_relay_runs_until_a_signal(url: str, tmp_path: Path) -> None:
    with started("outbox", url, tmp_path / "log") as relay:
        with commitlog.open(tmp_path / "log", "r", wait_for_log=LIMIT_S) as log:
            values = [next(iter(log.tailer().follow(timeout=LIMIT_S))).value]
        assert values == [b"one"]
        second = run("outbox", url, tmp_path / "log")
        assert second.returncode == 1
        assert b"there is another relay of outbox commitlog_outbox" in second.stderr
        relay.terminate()
        output, errors = relay.communicate(timeout=LIMIT_S)
        assert (relay.returncode, errors) == (0, b"")
        assert output.endswith(b"2 rows moved, 0 set aside\n")


@pytest.mark.parametrize(
    ("url", "status", "why"),
    [
        ("nonsense", 2, "the database cannot be used"),
        ("sqlite:///missing/shop.db", 1, "unable to open database file"),
        ("sqlite:///empty.db", 1, "has no table"),
    ],
)
def test_wrong_database_is_one_line(
    url: str, status: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("outbox", url, tmp_path / "log")
    assert done.returncode == status
    assert why in done.stderr.decode().splitlines()[-1]

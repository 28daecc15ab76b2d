"""A copy that is followed with listen= serves its promises although its primary is out of reach."""

from __future__ import annotations

from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import ReplicationError
from commitlog.network.replication.promise import Asked
from commitlog.network.replication.replica import fence_closed
from commitlog.recovery.lineage import Rank
from tests.network.replication.scene import LIMIT_S


def test_restarted_copy_promises_while_its_primary_is_gone(tmp_path: Path) -> None:
    rule = replication.Replication(require=1)
    with commitlog.open(tmp_path / "orders", flush="sync", replicate=rule) as log:
        url = rule.server.url()
        with replication.follow(url, tmp_path / "b"), replication.follow(url, tmp_path / "c"):
            position = log.append(b"one")
            assert rule.server.wait_replicated(position, copies=2, timeout=LIMIT_S)
    with replication.follow(url, tmp_path / "c", listen="127.0.0.1:0", connect_timeout=1) as c:
        assert c.server is not None
        assert replication.promote(tmp_path / "b", others=[c.server.url()]).number == 1
        assert c.error is None
        with commitlog.open(tmp_path / "c", "r") as copy:
            assert list(copy.tailer().values()) == [b"one"]


def test_restarted_copy_follows_when_its_primary_is_back(tmp_path: Path) -> None:
    rule = replication.Replication(require=0)
    with commitlog.open(tmp_path / "orders", flush="sync", replicate=rule) as log:
        url = rule.server.url()
        replication.follow(url, tmp_path / "c").close()
    listen = url.split("/")[2]
    with replication.follow(url, tmp_path / "c", listen="127.0.0.1:0", connect_timeout=1) as c:
        rule = replication.Replication(listen=listen, require=0)
        with commitlog.open(tmp_path / "orders", flush="sync", replicate=rule) as log:
            assert c.wait(log.append(b"one") + 1, LIMIT_S)


def test_restarted_copy_that_has_promised_waits_and_listens(tmp_path: Path) -> None:
    """A promotion that was refused is tried again, while the old primary lives."""
    rule = replication.Replication(require=0)
    with commitlog.open(tmp_path / "orders", flush="sync", replicate=rule):
        url = rule.server.url()
        for name in ("b", "c"):
            replication.follow(url, tmp_path / name).close()
    fence_closed(str(tmp_path / "c"), Asked(Rank(1, "a" * 32)))
    with (
        replication.serve(tmp_path / "orders", listen=url.split("/")[2]),
        replication.follow(url, tmp_path / "c", listen="127.0.0.1:0") as c,
    ):
        assert c.server is not None
        assert replication.promote(tmp_path / "b", others=[c.server.url()]).number == 2
        assert c.error is None


@pytest.mark.parametrize("kind", ["another log", "token"])
def test_restarted_copy_is_refused_as_before(tmp_path: Path, kind: str) -> None:
    for name in ("orders", "trades"):
        commitlog.open(tmp_path / name).close()
    with replication.serve([tmp_path / "orders", tmp_path / "trades"], token="secret") as server:
        replication.follow(server.url("orders"), tmp_path / "c", token="secret").close()
        token = "wrong" if kind == "token" else "secret"
        with pytest.raises(ReplicationError, match="token" if kind == "token" else kind):
            replication.follow(
                server.url("trades"), tmp_path / "c", token=token, listen="127.0.0.1:0"
            )
        replication.follow(server.url("orders"), tmp_path / "c", token="secret").close()

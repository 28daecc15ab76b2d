"""Addresses, settings and failures of a broker, without one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import InvalidOptionError, MirrorError
from commitlog.mirror import to_kafka
from commitlog.mirror.broker import Broker

URL = "kafka://127.0.0.1:1/orders"


@pytest.mark.parametrize(
    "url", ["", "kafka://", "kafka://a:1", "kafka://a:1/", "kafka://a:1/b/c", "http://a:1/b", "a b"]
)
def test_wrong_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidOptionError, match="expected kafka://HOST:PORT/TOPIC"):
        Broker(url, None, 1)


def test_settings_of_the_mirror_itself_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidOptionError, match="sets group.id itself"):
        Broker(URL, {"group.id": "mine"}, 1)
    monkeypatch.setenv("COMMITLOG_KAFKA_TRANSACTIONAL_ID", "mine")
    with pytest.raises(InvalidOptionError, match="sets transactional.id itself"):
        Broker(URL, None, 1)


def test_unknown_setting_is_refused_without_its_value() -> None:
    with pytest.raises(InvalidOptionError, match="acks.everywhere") as caught:
        Broker(URL, {"acks.everywhere": "hush"}, 1).client("Producer", {}, {})
    assert "hush" not in str(caught.value)


def test_absent_broker_is_one_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with (
        commitlog.open(tmp_path / "log") as log,
        pytest.raises(MirrorError, match="check host, port, security.protocol"),
    ):
        to_kafka(log, f"kafka://127.0.0.1:{port}/orders", timeout="500ms")

"""`commitlog mirror` with a real broker, both ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from tests.mirror.kafka_server import KafkaServer
from tests.mirror.topics import records_of, rows_in, rows_of
from tests.tools.cli.program import started

pytestmark = pytest.mark.long

LIMIT_S = 60


def test_command_mirrors_until_sigterm(
    kafka: KafkaServer, tmp_path: Path, until: Callable[..., None]
) -> None:
    url = kafka.create("command")
    with commitlog.open(tmp_path / "log") as log:
        log.append_many([b"a", b"b"])
        log.flush()
        with started("mirror", "--set", "linger.ms=0", tmp_path / "log", url) as sending:
            until(lambda: [each.position for each in log.tailers()] == [log.tail_position])
            sending.terminate()
            said, errors = sending.communicate(timeout=LIMIT_S)
        assert (sending.returncode, said.splitlines()[0]) == (0, b"mirroring from position 4096")
        assert b"will be ignored" not in errors  # of settings of producer and consumer
        assert rows_of(records_of(kafka.address, "command")) == rows_in(log)
    with started("mirror", "--from", "--group", "g", tmp_path / "copy", url) as receiving:
        until((tmp_path / "copy" / "log.json").exists)
        with commitlog.open(tmp_path / "copy", "r", wait_for_log=LIMIT_S) as copy:
            until(lambda: copy.count() == 2)
        receiving.terminate()
        receiving.communicate(timeout=LIMIT_S)
    assert receiving.returncode == 0

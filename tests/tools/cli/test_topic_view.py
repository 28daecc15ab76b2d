"""`cat --topic` and `tail --topic` read by the posting lists of the topic, where there are any."""

from __future__ import annotations

from pathlib import Path

import msgspec

import commitlog
from tests.tools.cli.program import run

SEGMENT = 64 << 10


class Sold(msgspec.Struct):
    number: int


def written(path: Path) -> Path:
    """A log of two topics, with posting lists, in which a record of `common` is damaged."""
    with commitlog.open(path / "log", segment_size=SEGMENT, flush="none") as log:
        rare, common = (commitlog.topic(log, Sold, name=name) for name in ("rare", "common"))
        for number in range(3000):
            (common if number % 10 else rare).append(Sold(number))
        log.delete_before(0)  # seals
        assert len(list(log.view(topic="rare"))) == 300
        broken = next(record for record in log.view(topic="common"))
    with open(path / "log" / f"{0:020d}.seg", "r+b") as file:
        file.seek(broken.position + 25)
        file.write(b"damage")
    return path / "log"


def test_topic_is_read_past_damage_of_others(tmp_path: Path) -> None:
    log = written(tmp_path)
    found = run("cat", "--topic", "rare", str(log))
    assert found.returncode == 0, found
    numbers = [msgspec.json.decode(line)["number"] for line in found.stdout.splitlines()]
    assert numbers == list(range(0, 3000, 10))
    found = run("tail", "-n", "2", "--topic", "rare", "--json", str(log))
    assert [msgspec.json.decode(line)["message"] for line in found.stdout.splitlines()] == [
        {"number": 2980},
        {"number": 2990},
    ]
    assert run("cat", "--topic", "common", str(log)).returncode == 1

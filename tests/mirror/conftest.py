"""One broker for the tests of a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mirror.kafka_server import KafkaServer, missing


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker of Kafka 4."""
    wanting = missing()
    if wanting is not None:
        pytest.skip(wanting)
    with KafkaServer(tmp_path_factory.mktemp("kafka") / "server") as server:
        yield server

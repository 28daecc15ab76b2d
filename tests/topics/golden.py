"""A log with deltas, which this release reads but for the deltas: see tests/golden/deltas.md."""

from __future__ import annotations

import tarfile
from pathlib import Path

import msgspec

from commitlog import topics
from tests.conftest import ROOT

RING = topics.KeyRing.of_text("golden:Z29sZGVuIGtleSBvZiAzMiBieXRlcyBmb3IgdGVzdHM=")
WHOLE = [("a", 0), ("b", 0), ("a", 6), ("b", 6)]  # the states of the topic that are no deltas
SALES = [f"lamp {number}" for number in (*range(5), *range(6, 11))]
DELTA = 5616  # the position of the first delta
DELTAS = 9
SEALED_NUMBER = 0xD25DABA1  # the type number of the sealed topic


class State(msgspec.Struct):
    id: str
    note: str
    revision: int


class Sale(msgspec.Struct):
    item: str


def log_with_deltas(folder: Path) -> Path:
    """Unpack the log; return its path."""
    with tarfile.open(ROOT / "tests" / "golden" / "deltas.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder / "deltas"

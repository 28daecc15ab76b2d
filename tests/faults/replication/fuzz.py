"""Fuzz what peers send, guided by coverage: ``python -m tests.faults.replication.fuzz TARGET``.

Further arguments are those of libFuzzer, such as ``-runs=1000000``. It needs atheris 3, which
`constraints.txt` does not have, because only CPython 3.11 to 3.13 on x86-64 has a wheel of it.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["commitlog"]):
    from tests.faults.replication.targets import TARGETS, mutated


def main() -> None:
    name = sys.argv.pop(1)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        made = Path(folder)
        target = TARGETS[name](made)
        corpus = made / "corpus"
        corpus.mkdir()
        for number, seed in enumerate(target.seeds):
            (corpus / str(number)).write_bytes(seed)

        def mutate(data: bytes, most: int, seed: int) -> bytes:
            numbers = random.Random(seed)
            try:
                found = mutated(data, numbers) if numbers.random() < 0.5 else b""
            except ValueError:  # no JSON any more
                found = b""
            return bytes(atheris.Mutate(data, most)) if not 0 < len(found) <= most else found

        options = [sys.argv[0], *sys.argv[1:], str(corpus), "-max_len=8192"]
        atheris.Setup(options, target.take, custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main()

"""Fuzz the Python readers, guided by coverage: a program, because atheris instruments what it
imports and ends the process: ``python -m tests.fuzzing.guided FOLDER TARGETS OPTIONS``.

TARGETS are names with commas between; OPTIONS are those of libFuzzer. Figures are written to
FOLDER/figures.json.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["commitlog"]):
    from tests.fuzzing import corpora
    from tests.fuzzing.readers import Readers

_WRITTEN_S = 0.5  # between two writes of the figures: the fuzzer ends without a last word


def main() -> None:
    folder, names = Path(sys.argv.pop(1)), tuple(sys.argv.pop(1).split(","))
    target = Readers(folder / "logs", names)
    corpora.spread("readers", folder / "corpus", target.seeds)
    written_s = 0.0

    def take(data: bytes) -> None:
        nonlocal written_s
        if data:
            target.take(data)
        if time.monotonic() - written_s >= _WRITTEN_S:
            written_s = time.monotonic()
            figures = {"taken": target.taken, "refused": target.refused}
            (folder / "figures.json").write_text(json.dumps(figures))

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        draw = random.Random(seed)
        try:
            found = target.mutated(data, draw) if data and draw.random() < 0.5 else b""
        except ValueError:  # no JSON any more
            found = b""
        return bytes(atheris.Mutate(data, most)) if not 0 < len(found) <= most else found

    options = [sys.argv[0], *sys.argv[1:], str(folder / "corpus"), "-max_len=8192"]
    atheris.Setup(options, take, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

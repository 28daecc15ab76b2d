"""Each input of the corpora, and each that once did harm, does none today."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests._kernel import compiling
from tests.fuzzing import corpora, kernel, readers

REPLAY = dataclasses.replace(compiling.ADDRESS, flags=(*compiling.ADDRESS.flags, "-DREPLAY"))


@pytest.mark.parametrize("target", kernel.TARGETS)
def test_known_inputs_do_the_kernel_no_harm(target: str, tmp_path: Path) -> None:
    objects = sorted(compiling.kernel(compiling.ADDRESS).glob("*.o"))
    source = corpora.HERE / "c" / f"{target}_fuzz.c"
    program = compiling.program(source, REPLAY, objects)
    data = [*corpora.inputs(target), *corpora.found(target), b"", *kernel.seeds(target)]
    done = kernel.replay(program, data, tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{len(data)} inputs\n"), done.stderr


def test_known_inputs_do_the_readers_no_harm(tmp_path: Path) -> None:
    data = [*corpora.inputs("readers"), *corpora.found("readers")]
    with readers.Readers(tmp_path) as target:
        for each in [*data, b"", *target.seeds]:
            target.take(each)
